"""`packetboat signing-secrets …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, body
from packetboat.cli.invocation import Invocation
from packetboat.cli.secret_notes import note_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands(
    "signing-secrets", "What requests to the endpoint of a push subscription are signed with."
)
COLUMNS = ("id", "kind", "public_key", "created_at", "expires_at")


@add(app, "list", example="packetboat signing-secrets list hooks")
def list_(context: typer.Context, subscription: Subscription) -> None:
    """What signs now, the newest first; never the secrets themselves."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "signing_secrets"))
    here.output.rows(answer["signing_secrets"], *COLUMNS)


@add(app, "create", example="packetboat signing-secrets create hooks --old-expires-in 3600")
def create(
    context: typer.Context,
    subscription: Subscription,
    kind: Annotated[
        str | None, typer.Option(help="`v1`, or `v1a`: receivers need its public key alone.")
    ] = None,
    old_expires_in: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long earlier ones of the kind sign too.", min=0),
    ] = None,
) -> None:
    """Another secret, shown this once; requests bear the signatures of all that hold."""
    here = Invocation.of(context)
    wanted = body(kind=kind, expires_previous_after_seconds=old_expires_in)
    made = here.api.post(path("subscriptions", subscription, "signing_secrets"), wanted)
    here.output.record(made)
    note_secret(here.output, made["secret"])
    if made["secret"] is None:
        here.output.note("Receivers check with the public key; the secret half is not told.")


@add(app, "delete", example="packetboat signing-secrets delete hooks SECRET_ID")
def delete(
    context: typer.Context,
    subscription: Subscription,
    secret: Annotated[str, typer.Argument(metavar="ID", help="Of `signing-secrets list`.")],
) -> None:
    """Sign with it no more; not the last one."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "signing_secrets", secret))
    here.output.note("The signing secret is deleted.")
