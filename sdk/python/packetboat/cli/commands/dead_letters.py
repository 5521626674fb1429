"""`packetboat dead-letters …`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, Subscription, body, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.invocation import Invocation
from packetboat.cli.progress import Progress, wait
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands(
    "dead-letters", "List, redrive and discard messages that failed for good."
)
COLUMNS = ("id", "state", "reason", "detail", "attempts", "dead_at", "key", "message_id")
POLL_S = 0.5
DONE = frozenset({"done", "cancelled", "failed"})
Filter = Annotated[
    str | None, typer.Option("--filter", help="Dead letters that this CEL expression matches.")
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="One dead letter; may be repeated.")]
All = Annotated[bool, typer.Option("--all", help="All open dead letters.")]


@add(app, "list", example="packetboat dead-letters list billing --state open")
def list_(
    context: typer.Context,
    subscription: Subscription,
    filter_: Filter = None,
    state: Annotated[str | None, typer.Option(help="`open`, `redriven` or `discarded`.")] = None,
    limit: Limit = None,
) -> None:
    """List the dead letters of a subscription, oldest first."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "dead_letters")
    query = {"filter": filter_, "state": state}
    here.output.rows(here.api.pages(where, "dead_letters", limit=limit, **query), *COLUMNS)


@add(app, "show", example="packetboat dead-letters show billing LETTER_ID")
def show(
    context: typer.Context,
    subscription: Subscription,
    letter: Annotated[str, typer.Argument(metavar="ID", help="An id from `dead-letters list`.")],
) -> None:
    """Show one dead letter with its message."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("subscriptions", subscription, "dead_letters", letter)))


@add(app, "redrive", example="packetboat dead-letters redrive billing --all --dry-run")
def redrive(
    context: typer.Context,
    subscription: Subscription,
    filter_: Filter = None,
    ids: Ids = None,
    every: All = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would happen.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(help="Maximum messages per second.", min=0.1)
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="`subscription` (only to it), or the name of a topic.")
    ] = None,
    wait_: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show the progress until the redrive ends.")
    ] = True,
) -> None:
    """Publish dead letters again."""
    here = Invocation.of(context)
    wanted = _chosen(filter_, ids, every) | body(rate=rate, to=to)
    where = path("subscriptions", subscription, "dead_letters", verb="redrive")
    if dry_run:
        here.output.record(here.api.post(where, {**wanted, "dry_run": True}, safe=True))
        return
    answer = here.api.post(where, wanted)
    if wait_:
        answer = _watched(here, subscription, answer)
    here.output.record(answer)
    if answer["state"] in ("failed", "cancelled") or answer["failed"]:
        raise typer.Exit(ExitCode.FAILED)


@add(app, "redrives", example="packetboat dead-letters redrives billing")
def redrives(context: typer.Context, subscription: Subscription, limit: Limit = None) -> None:
    """List the redrives of a subscription, newest first."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "redrives")
    columns = ("redrive_id", "state", "redriven", "failed", "total", "created_at", "detail")
    here.output.rows(here.api.pages(where, "redrives", limit=limit), *columns)


@add(app, "cancel", example="packetboat dead-letters cancel billing REDRIVE_ID")
def cancel(
    context: typer.Context,
    subscription: Subscription,
    redrive_id: Annotated[str, typer.Argument(metavar="REDRIVE_ID", help="An id from `redrives`.")],
) -> None:
    """Cancel a redrive; published messages stay published."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "redrives", redrive_id, verb="cancel")
    here.output.record(here.api.post(where, safe=True))


@add(app, "discard", example="packetboat dead-letters discard billing --id LETTER_ID")
def discard(
    context: typer.Context,
    subscription: Subscription,
    filter_: Filter = None,
    ids: Ids = None,
    every: All = False,
) -> None:
    """Discard dead letters: they can no longer be redriven."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "dead_letters", verb="discard")
    wanted = _chosen(filter_, ids, every)
    discarded = 0
    while True:
        answer = here.api.post(where, wanted, safe=True)
        discarded += answer["discarded"]
        if answer["complete"]:
            break
    here.output.record({"discarded": discarded})


def _chosen(filter_: str | None, ids: list[str] | None, every: bool) -> dict[str, Any]:
    if sum((filter_ is not None, bool(ids), every)) != 1:
        raise wrong("one of --filter, --id and --all")
    return {"ids": ids} if ids else {} if every else {"filter": filter_}


def _watched(here: Invocation, subscription: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Show a redrive until it ends. Ctrl-C stops only the display."""
    where = path("subscriptions", subscription, "redrives", answer["redrive_id"])
    with Progress(here.output, "redriven", answer["total"]) as progress:
        while True:
            progress.at(answer["redriven"] + answer["failed"])
            if answer["state"] in DONE:
                return answer
            wait(POLL_S)
            answer = here.api.get(where)
