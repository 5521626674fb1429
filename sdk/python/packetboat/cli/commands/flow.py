"""`packetboat flow …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, body, wrong
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("flow", "Limit the delivery to the consumers of a subscription.")


@add(app, "get", example="packetboat flow get billing")
def get(context: typer.Context, subscription: Subscription) -> None:
    """Show the current limit, if there is one."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("subscriptions", subscription, "flow")))


@add(app, "set", example="packetboat flow set billing --rate 20 --ttl 300 --reason 'slow database'")
def set_(
    context: typer.Context,
    subscription: Subscription,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Messages per second for all consumers together; 0 stops delivery.", min=0
        ),
    ] = None,
    max_outstanding: Annotated[
        int | None,
        typer.Option(help="Maximum number of messages that are leased or wait for a retry.", min=1),
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Lifetime of the limit.  [default: 60]")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, shown with the limit.")] = None,
) -> None:
    """Set the limit; a later limit replaces it."""
    if rate is None and max_outstanding is None:
        raise wrong("--rate, --max-outstanding, or both")
    here = Invocation.of(context)
    wanted = body(
        messages_per_second=rate, max_outstanding=max_outstanding, ttl_seconds=ttl, reason=reason
    )
    here.output.record(
        here.api.post(path("subscriptions", subscription, "flow"), wanted, safe=True)
    )


@add(app, "clear", example="packetboat flow clear billing")
def clear(context: typer.Context, subscription: Subscription) -> None:
    """Remove the limit."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "flow"))
    here.output.note("Nothing is said any more; the subscription's own limits hold.")
