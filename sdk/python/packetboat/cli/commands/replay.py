"""`packetboat replay`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Topic, moment, wrong
from packetboat.cli.invocation import Invocation
from packetboat.cli.messages import DATA, PRETTY, pretty
from packetboat.cli.output import Format
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()
MESSAGES_A_READ = 1000


@add(app, "replay", example="packetboat replay orders --since 1h --max 100 -o ndjson")
def replay(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)
    ] = None,
    since: Annotated[str | None, typer.Option(help="A time, or an age such as 1h.")] = None,
    offset: Annotated[
        int | None, typer.Option(help="First offset; needs --partition.", min=0)
    ] = None,
    max_: Annotated[
        int | None, typer.Option("--max", "-n", help="Stop after this number of messages.", min=1)
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="Only messages that this CEL expression matches.")
    ] = None,
    data: Annotated[bool, typer.Option("--data", help="Print only the bodies.")] = False,
) -> None:
    """Read the stored messages of each partition, up to its current end."""
    here = Invocation.of(context)
    if offset is not None and (partition is None or since):
        raise wrong("--offset goes with --partition, and without --since")
    begin = {"offset": offset, "time": moment(since) if since else None}
    chosen = [partition] if partition is not None else _partitions(here, topic)
    messages = _limited(_messages(here, topic, chosen, begin, filter_, max_), max_)
    if data or here.output.format is Format.TABLE:
        for each in messages:
            here.output.text(pretty(each, DATA if data else PRETTY))
    else:
        here.output.rows(messages, "message_id")


def _partitions(here: Invocation, topic: str) -> list[int]:
    return list(range(here.api.get(path("topics", topic))["partitions"]))


def _messages(
    here: Invocation,
    topic: str,
    partitions: list[int],
    begin: dict[str, Any],
    filter_: str | None,
    most: int | None,
) -> Iterator[dict[str, Any]]:
    size = min(most or MESSAGES_A_READ, MESSAGES_A_READ)
    for partition in partitions:
        where = path("topics", topic, "partitions", str(partition), "messages")
        end: int | None = None
        query = begin
        while True:
            answer = here.api.get(where, max_messages=size, filter=filter_, **query)
            yield from answer["messages"]
            end = answer["end_offset"] if end is None else end
            if answer["next_offset"] >= end:
                break
            query = {"offset": answer["next_offset"]}


def _limited(messages: Iterator[dict[str, Any]], most: int | None) -> Iterator[dict[str, Any]]:
    for number, each in enumerate(messages, 1):
        yield each
        if number == most:
            return
