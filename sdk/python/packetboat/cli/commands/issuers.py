"""`packetboat issuers …`."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Name, Set, body
from packetboat.cli.flags import Algorithms, Audience, Issuer
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_get, add_list
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("issuers", "Other issuers whose tokens are accepted.")
NOUN = Noun("issuers", "issuer", ("name", "issuer", "audience", "trust"), "sso")
add_list(app, NOUN)
add_get(app, NOUN)


@add(
    app,
    "set",
    example="packetboat issuers set ci --issuer https://token.actions.githubusercontent.com",
)
def set_(
    context: typer.Context,
    name: Name,
    issuer: Issuer = None,
    audience: Audience = None,
    algorithm: Algorithms = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Trust an issuer, or change its settings."""
    here = Invocation.of(context)
    wanted = body(file, set_, label, issuer=issuer, audience=audience, algorithms=algorithm)
    here.output.record(here.api.put(path("issuers", name), wanted))


@add(app, "delete", example="packetboat issuers delete sso")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Stop trusting an issuer; `--force` even if it is the last owner's."""
    here = Invocation.of(context)
    here.api.delete(path("issuers", name), force=force or None)
    here.output.note(f"The issuer {name!r} is deleted.")
