"""`packetboat clients …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Name, Set, body
from packetboat.cli.flags import ClientDisplayName, ClientState
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_get, add_list
from packetboat.cli.secret_notes import note_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("clients", "Programs that get tokens with an id and a secret.")
NOUN = Noun("clients", "client", ("name", "client_id", "state", "last_used_at", "labels"), "shop")
add_list(app, NOUN)
add_get(app, NOUN)


@add(app, "set", example="packetboat clients set shop --display-name 'The shop'")
def set_(
    context: typer.Context,
    name: Name,
    display_name: ClientDisplayName = None,
    state: ClientState = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a client, whose secret is shown only once, or replace its settings."""
    here = Invocation.of(context)
    wanted = body(file, set_, label, display_name=display_name, state=state)
    made = here.api.put(path("clients", name), wanted)
    here.output.record(made)
    note_secret(here.output, made.get("client_secret"))


@add(app, "add-secret", example="packetboat clients add-secret shop --old-expires-in 3600")
def add_secret(
    context: typer.Context,
    name: Name,
    old_expires_in: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="Time for which the old secret stays valid.", min=0),
    ] = None,
) -> None:
    """Create a second secret, shown only once; both are valid for a while."""
    here = Invocation.of(context)
    wanted = body(old_expires_in_seconds=old_expires_in)
    made = here.api.post(path("clients", name, "secrets"), wanted)
    here.output.record(made)
    note_secret(here.output, made.get("client_secret"))


@add(app, "remove-secret", example="packetboat clients remove-secret shop PREFIX")
def remove_secret(
    context: typer.Context,
    name: Name,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="First characters of the secret.")
    ],
    force: Force = False,
) -> None:
    """Remove a secret: it is refused from now on."""
    here = Invocation.of(context)
    here.api.delete(path("clients", name, "secrets", prefix), force=force or None)
    here.output.note("The secret is removed.")


@add(app, "revoke-tokens", example="packetboat clients revoke-tokens shop")
def revoke_tokens(context: typer.Context, name: Name) -> None:
    """Revoke all access tokens that the client got until now."""
    here = Invocation.of(context)
    here.output.record(here.api.post(path("clients", name, verb="revoke_tokens"), safe=True))


@add(app, "delete", example="packetboat clients delete shop")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Delete a client; `--force` even if it is the last owner."""
    here = Invocation.of(context)
    here.api.delete(path("clients", name), force=force or None)
    here.output.note(f"The client {name!r} is deleted.")
