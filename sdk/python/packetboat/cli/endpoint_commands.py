"""The commands of `packetboat subscriptions …` for the endpoint of a push subscription."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, Subscription, body, moment, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()
ENDPOINT_S = 600.0
"""Longest time that an endpoint may take to answer."""


@add(app, "attempts", example="packetboat subscriptions attempts hooks --limit 20")
def attempts(context: typer.Context, subscription: Subscription, limit: Limit = 50) -> None:
    """List the requests to the endpoint of a push subscription, newest first."""
    here = Invocation.of(context)
    rows = here.api.pages(path("subscriptions", subscription, "attempts"), "attempts", limit=limit)
    columns = ("at", "message_id", "attempt", "outcome", "status", "latency_ms", "detail")
    here.output.rows(rows, *columns)


@add(app, "test", example="packetboat subscriptions test hooks")
def test(context: typer.Context, subscription: Subscription) -> None:
    """Send a sample to the endpoint now."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, verb="test")
    answer = here.api.post(where, wait_s=ENDPOINT_S)
    here.output.record(answer)
    if answer["outcome"] != "delivered":
        raise typer.Exit(ExitCode.FAILED)


@add(app, "replay", example="packetboat subscriptions replay hooks --since 2h --until 1h")
def replay(
    context: typer.Context,
    subscription: Subscription,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="A message id; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Messages published since a time, or an age such as 2h.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="With --since: messages published before this time. Default: now."),
    ] = None,
    max_: Annotated[
        int | None,
        typer.Option("--max", "-n", help="With --since: maximum number of messages.", min=1),
    ] = None,
) -> None:
    """Deliver settled messages to the endpoint once more; exit code 1 if some are not."""
    if bool(ids) == bool(since) or (ids and (until or max_)):
        raise wrong("either --id, or --since with --until and --max")
    here = Invocation.of(context)
    wanted = body(message_ids=ids or None, max_messages=max_)
    if since:
        end = moment(until) if until else datetime.now(UTC)
        wanted |= {"from": moment(since).isoformat(), "to": end.isoformat()}
    answer = here.api.post(path("subscriptions", subscription, verb="replay"), wanted)
    here.output.record(answer)
    if not answer["complete"]:
        here.output.note("There are more messages in that time: raise --max, or split the time.")
    if answer["skipped"]:
        raise typer.Exit(ExitCode.FAILED)


@add(app, "enable", example="packetboat subscriptions enable hooks")
def enable(context: typer.Context, subscription: Subscription) -> None:
    """Deliver to a disabled endpoint again."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, verb="enable")
    here.output.record(here.api.post(where, safe=True, wait_s=ENDPOINT_S))


@add(app, "verify", example="packetboat subscriptions verify hooks")
def verify(context: typer.Context, subscription: Subscription) -> None:
    """Send the endpoint a challenge now."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, verb="verify")
    here.output.record(here.api.post(where, wait_s=ENDPOINT_S))
