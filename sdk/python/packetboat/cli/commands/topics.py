"""`packetboat topics …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Limit, Set, Topic, body, read_json, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.flags import (
    DedupWindow,
    Partitions,
    Priorities,
    RetentionMode,
    RetentionSeconds,
    TopicSchema,
)
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Expression, Messages, preview_filter
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("topics", "Create, show and change topics.")
COLUMNS = (
    "name",
    "partitions",
    "priorities",
    "retention.mode",
    "retention.seconds",
    "full",
    "schema",
)


@add(app, "list", example="packetboat topics list -o ndjson")
def list_(context: typer.Context, limit: Limit = None) -> None:
    """List all topics."""
    here = Invocation.of(context)
    here.output.rows(here.api.pages("/topics", "topics", limit=limit), *COLUMNS)


@add(app, "get", example="packetboat topics get orders")
def get(context: typer.Context, topic: Topic) -> None:
    """Show a topic with all its settings."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("topics", topic)))


@add(app, "create", example="packetboat topics create orders --partitions 8 --label team=shop")
def create(
    context: typer.Context,
    topic: Topic,
    partitions: Partitions = None,
    priorities: Priorities = None,
    retention_mode: RetentionMode = None,
    retention_seconds: RetentionSeconds = None,
    dedup_window_seconds: DedupWindow = None,
    schema: TopicSchema = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
    if_absent: Annotated[
        bool, typer.Option("--if-absent", help="Succeed if an identical topic exists.")
    ] = False,
) -> None:
    """Create a topic."""
    here = Invocation.of(context)
    wanted = body(
        file,
        [*_retention(retention_mode, retention_seconds), *(set_ or ())],
        label,
        partitions=partitions,
        priorities=priorities,
        dedup_window_seconds=dedup_window_seconds,
        schema=schema,
    )
    if if_absent:
        made = here.api.put(path("topics", topic), wanted)
    else:
        made = here.api.post("/topics", {**wanted, "name": topic})
    here.output.record(made)


@add(app, "update", example="packetboat topics update orders --retention-seconds 86400")
def update(
    context: typer.Context,
    topic: Topic,
    retention_mode: RetentionMode = None,
    retention_seconds: RetentionSeconds = None,
    dedup_window_seconds: DedupWindow = None,
    schema: TopicSchema = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Change the given settings; the others stay. `grow` adds partitions."""
    here = Invocation.of(context)
    wanted = body(
        file,
        [*_retention(retention_mode, retention_seconds), *(set_ or ())],
        label,
        dedup_window_seconds=dedup_window_seconds,
        schema=schema,
    )
    here.output.record(here.api.patch(path("topics", topic), wanted))


@add(app, "delete", example="packetboat topics delete orders --force")
def delete(context: typer.Context, topic: Topic, force: Force = False) -> None:
    """Delete a topic with its subscriptions; `--force` even if that loses data (`topics holds`)."""
    here = Invocation.of(context)
    here.api.delete(path("topics", topic), force=force or None)
    here.output.note(f"The topic {topic!r} is deleted.")


@add(app, "holds", example="packetboat topics holds orders")
def holds(context: typer.Context, topic: Topic) -> None:
    """Show the data that a deletion would lose, and what to do instead."""
    here = Invocation.of(context)
    answer = here.api.get(path("topics", topic, "holds"))
    here.output.rows(answer["holds"], "kind", "name", "messages", "advice")


@add(app, "grow", example="packetboat topics grow orders 16")
def grow(
    context: typer.Context,
    topic: Topic,
    partitions: Annotated[int, typer.Argument(help="New number of partitions.", min=1)],
) -> None:
    """Give a topic more partitions; keys keep their order."""
    here = Invocation.of(context)
    here.output.record(
        here.api.post(path("topics", topic, verb="grow"), {"partitions": partitions})
    )


@add(app, "partitions", example="packetboat topics partitions orders")
def partitions_(context: typer.Context, topic: Topic) -> None:
    """Show the partitions of a topic, and their groups."""
    here = Invocation.of(context)
    answer = here.api.get(path("topics", topic, "partitions"))
    columns = ("partition", "lane", "generation", "group", "state", "first", "end", "stored_bytes")
    here.output.rows(answer["partitions"], *columns)


@add(app, "move", example="packetboat topics move orders 3 --group 1")
def move(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", help="A number from `topics partitions`.", min=0)
    ],
    group: Annotated[int, typer.Option(help="The group of the store to move to.", min=0)],
) -> None:
    """Store new messages of a partition in another group; stored messages stay."""
    here = Invocation.of(context)
    where = path("topics", topic, "partitions", str(partition), verb="move")
    answer = here.api.post(where, {"group": group})
    here.output.record(answer)
    if answer["placement"] is not None:
        here.output.note(
            "The move has begun, and the server finishes it; run the same command again to wait."
        )


@add(app, "preview-filter", example="packetboat topics preview-filter orders 'data.total > 100.0'")
def preview(
    context: typer.Context, topic: Topic, expression: Expression, messages: Messages = None
) -> None:
    """Show which of the newest messages a filter matches."""
    preview_filter(context, path("topics", topic, verb="preview_filter"), expression, messages)


@add(app, "preview-schema", example="packetboat topics preview-schema orders --schema order")
def preview_schema(
    context: typer.Context,
    topic: Topic,
    schema: Annotated[str | None, typer.Option(help="A schema from `schemas list`.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A definition as JSON; - for stdin.")
    ] = None,
    type_: Annotated[
        str, typer.Option("--type", help="Type of --file: `json_schema` or `avro`.")
    ] = "json_schema",
    messages: Messages = None,
) -> None:
    """Count the newest messages that match a schema; exit code 1 if not all do."""
    if (schema is None) == (file is None):
        raise wrong("either --schema or --file")
    here = Invocation.of(context)
    wanted = body(schema=schema, messages=messages)
    if file is not None:
        wanted |= {"type": type_, "definition": read_json(file)}
    answer = here.api.post(path("topics", topic, verb="preview_schema"), wanted, safe=True)
    here.output.record(answer)
    if answer["valid"] < answer["messages"]:
        raise typer.Exit(ExitCode.FAILED)


@add(app, "message", example="packetboat topics message orders MESSAGE_ID --acks")
def message(
    context: typer.Context,
    topic: Topic,
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE_ID", help="A message id from a receipt.")
    ],
    acks: Annotated[
        bool, typer.Option("--acks", help="Show its state in each subscription.")
    ] = False,
) -> None:
    """Show a stored or delayed message."""
    here = Invocation.of(context)
    where = path("topics", topic, "messages", message_id)
    here.output.record(here.api.get(where + ("/ack" if acks else "")))


@add(app, "delayed", example="packetboat topics delayed reminders")
def delayed(context: typer.Context, topic: Topic, limit: Limit = None) -> None:
    """List delayed messages; `cancel` cancels one."""
    here = Invocation.of(context)
    columns = ("message_id", "scheduled_for", "key", "content_type", "size_bytes")
    here.output.rows(
        here.api.pages(path("topics", topic, "delayed"), "messages", limit=limit), *columns
    )


@add(app, "cancel", example="packetboat topics cancel reminders MESSAGE_ID")
def cancel(
    context: typer.Context,
    topic: Topic,
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE_ID", help="A message id from a receipt.")
    ],
) -> None:
    """Cancel a delayed message."""
    here = Invocation.of(context)
    here.api.delete(path("topics", topic, "messages", message_id))
    here.output.note("It is cancelled.")


def _retention(mode: str | None, seconds: int | None) -> list[str]:
    found = [] if mode is None else [f"retention.mode={mode}"]
    return found if seconds is None else [*found, f"retention.seconds={seconds}"]
