"""`packetboat signing-secrets …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, body
from packetboat.cli.flags import OldExpiresIn, SigningKind
from packetboat.cli.invocation import Invocation
from packetboat.cli.secret_notes import note_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands(
    "signing-secrets", "Secrets that sign the requests of a push subscription."
)
COLUMNS = ("id", "kind", "public_key", "created_at", "expires_at")


@add(app, "list", example="packetboat signing-secrets list hooks")
def list_(context: typer.Context, subscription: Subscription) -> None:
    """List the active signing secrets, newest first, without their values."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "signing_secrets"))
    here.output.rows(answer["signing_secrets"], *COLUMNS)


@add(app, "create", example="packetboat signing-secrets create hooks --old-expires-in 3600")
def create(
    context: typer.Context,
    subscription: Subscription,
    kind: SigningKind = None,
    old_expires_in: OldExpiresIn = None,
) -> None:
    """Create a signing secret, shown only once; requests have a signature of each active one."""
    here = Invocation.of(context)
    wanted = body(kind=kind, expires_previous_after_seconds=old_expires_in)
    made = here.api.post(path("subscriptions", subscription, "signing_secrets"), wanted)
    here.output.record(made)
    note_secret(here.output, made["secret"])
    if made["secret"] is None:
        here.output.note("Receivers verify with the public key; the private key is not shown.")


@add(app, "delete", example="packetboat signing-secrets delete hooks SECRET_ID")
def delete(
    context: typer.Context,
    subscription: Subscription,
    secret: Annotated[str, typer.Argument(metavar="ID", help="An id from `signing-secrets list`.")],
) -> None:
    """Delete a signing secret, except the last one."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "signing_secrets", secret))
    here.output.note("The signing secret is deleted.")
