"""`packetboat flow …`."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, body, wrong
from packetboat.cli.flags import FlowMaxOutstanding, FlowRate, FlowReason, FlowTtl
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
    rate: FlowRate = None,
    max_outstanding: FlowMaxOutstanding = None,
    ttl: FlowTtl = None,
    reason: FlowReason = None,
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
