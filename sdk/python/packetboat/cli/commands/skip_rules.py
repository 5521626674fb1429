"""`packetboat skip-rules …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription
from packetboat.cli.invocation import Invocation
from packetboat.cli.previews import Expression
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands(
    "skip-rules", "Messages that a subscription passes over instead of delivering them."
)
COLUMNS = ("id", "expression", "reason", "created_by", "created_at", "removed_at")


@add(app, "list", example="packetboat skip-rules list billing --removed")
def list_(
    context: typer.Context,
    subscription: Subscription,
    removed: Annotated[bool, typer.Option("--removed", help="Also show removed rules.")] = False,
) -> None:
    """List the skip rules of a subscription, oldest first."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "skip_rules")
    answer = here.api.get(where, removed=removed or None)
    here.output.rows(answer["skip_rules"], *COLUMNS)
    here.output.note(f"({answer['skipped']} messages skipped so far)")


@add(
    app,
    "add",
    example="packetboat skip-rules add billing 'data.total >= 999.0' --reason 'test orders'",
)
def add_(
    context: typer.Context,
    subscription: Subscription,
    expression: Expression,
    reason: Annotated[str, typer.Option(help="Reason, for readers of the audit.")],
) -> None:
    """Skip matching messages from now on, including the backlog."""
    here = Invocation.of(context)
    wanted = {"expression": expression, "reason": reason}
    here.output.record(here.api.post(path("subscriptions", subscription, "skip_rules"), wanted))


@add(app, "remove", example="packetboat skip-rules remove billing RULE_ID")
def remove(
    context: typer.Context,
    subscription: Subscription,
    rule: Annotated[str, typer.Argument(metavar="ID", help="An id from `skip-rules list`.")],
) -> None:
    """Remove a rule; skipped messages stay skipped."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "skip_rules", rule))
    here.output.note("The rule is removed.")
