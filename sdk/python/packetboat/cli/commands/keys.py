"""`packetboat keys …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Name, Set, body
from packetboat.cli.flags import ExpiresAt, KeyState, Scopes
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_get, add_list
from packetboat.cli.secret_notes import note_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("keys", "API keys.")
NOUN = Noun(
    "keys", "key", ("name", "prefix", "scopes", "state", "expires_at", "last_used_at"), "ci"
)
add_list(app, NOUN)
add_get(app, NOUN)


@add(app, "set", example="packetboat keys set ci --scope read --scope 'publish:topics/orders-*'")
def set_(
    context: typer.Context,
    name: Name,
    scope: Scopes = None,
    expires_at: ExpiresAt = None,
    state: KeyState = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a key, which is shown only once, or replace its settings."""
    here = Invocation.of(context)
    wanted = body(file, set_, label, scopes=scope, expires_at=expires_at, state=state)
    made = here.api.put(path("keys", name), wanted)
    here.output.record(made)
    note_secret(here.output, made.get("key"))


@add(app, "rotate", example="packetboat keys rotate ci --old-expires-in 3600")
def rotate(
    context: typer.Context,
    name: Name,
    old_expires_in: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="Time for which the old secret stays valid.", min=0),
    ] = None,
) -> None:
    """Create a new secret for a key; it is shown only once."""
    here = Invocation.of(context)
    wanted = body(old_expires_in_seconds=old_expires_in)
    made = here.api.post(path("keys", name, verb="rotate"), wanted)
    here.output.record(made)
    note_secret(here.output, made.get("key"))


@add(app, "delete", example="packetboat keys delete ci")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Delete a key; `--force` even if it is the last administrator's."""
    here = Invocation.of(context)
    here.api.delete(path("keys", name), force=force or None)
    here.output.note(f"The key {name!r} is deleted.")
