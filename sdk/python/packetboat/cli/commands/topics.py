"""`packetboat topics …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Limit, Set, Topic, body, read_json, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.invocation import Invocation
from packetboat.cli.previews import Expression, Messages, preview_filter
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("topics", "Make, look at and change topics.")
COLUMNS = (
    "name",
    "partitions",
    "priorities",
    "retention.mode",
    "retention.seconds",
    "full",
    "schema",
)
Partitions = Annotated[int | None, typer.Option(help="Queues in parallel.  [default: 4]", min=1)]
Retention = Annotated[
    int | None, typer.Option("--retention-seconds", help="Delete what is older, acked or not.")
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--retention-mode", help="`consume`: until all have acked; `retain`: for its time."
    ),
]
Dedup = Annotated[
    int | None, typer.Option("--dedup-window-seconds", help="How long idempotency keys are known.")
]
Schema = Annotated[str | None, typer.Option(help="The schema that bodies are held to.")]


@add(app, "list", example="packetboat topics list -o ndjson")
def list_(context: typer.Context, limit: Limit = None) -> None:
    """All topics."""
    here = Invocation.of(context)
    here.output.rows(here.api.pages("/topics", "topics", limit=limit), *COLUMNS)


@add(app, "get", example="packetboat topics get orders")
def get(context: typer.Context, topic: Topic) -> None:
    """One topic, with all its settings."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("topics", topic)))


@add(app, "create", example="packetboat topics create orders --partitions 8 --label team=shop")
def create(
    context: typer.Context,
    topic: Topic,
    partitions: Partitions = None,
    priorities: Annotated[int | None, typer.Option(help="Levels, 1 to 10.", min=1)] = None,
    retention_mode: Mode = None,
    retention_seconds: Retention = None,
    dedup_window_seconds: Dedup = None,
    schema: Schema = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
    if_absent: Annotated[
        bool, typer.Option("--if-absent", help="Fine where there is one already like this.")
    ] = False,
) -> None:
    """Make a topic."""
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
    retention_mode: Mode = None,
    retention_seconds: Retention = None,
    dedup_window_seconds: Dedup = None,
    schema: Schema = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Change what is given; the rest stays. More partitions: `grow`."""
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
    """Delete a topic with its subscriptions; `--force` also with what `topics holds` lists."""
    here = Invocation.of(context)
    here.api.delete(path("topics", topic), force=force or None)
    here.output.note(f"The topic {topic!r} is deleted.")


@add(app, "holds", example="packetboat topics holds orders")
def holds(context: typer.Context, topic: Topic) -> None:
    """What would be lost with a topic, and what to do instead."""
    here = Invocation.of(context)
    answer = here.api.get(path("topics", topic, "holds"))
    here.output.rows(answer["holds"], "kind", "name", "messages", "advice")


@add(app, "grow", example="packetboat topics grow orders 16")
def grow(
    context: typer.Context,
    topic: Topic,
    partitions: Annotated[int, typer.Argument(help="How many there are to be.", min=1)],
) -> None:
    """Give a topic more partitions; keys keep their order."""
    here = Invocation.of(context)
    here.output.record(
        here.api.post(path("topics", topic, verb="grow"), {"partitions": partitions})
    )


@add(app, "partitions", example="packetboat topics partitions orders")
def partitions_(context: typer.Context, topic: Topic) -> None:
    """Its partitions, and where they are."""
    here = Invocation.of(context)
    answer = here.api.get(path("topics", topic, "partitions"))
    columns = ("partition", "lane", "generation", "group", "state", "first", "end", "stored_bytes")
    here.output.rows(answer["partitions"], *columns)


@add(app, "move", example="packetboat topics move orders 3 --group 1")
def move(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", help="Of `topics partitions`.", min=0)
    ],
    group: Annotated[int, typer.Option(help="Of store nodes, where it is to be.", min=0)],
) -> None:
    """Store what is published to a partition in another group; what is stored stays."""
    here = Invocation.of(context)
    where = path("topics", topic, "partitions", str(partition), verb="move")
    answer = here.api.post(where, {"group": group})
    here.output.record(answer)
    if answer["placement"] is not None:
        here.output.note("It is begun, and the server finishes it; the same command again waits.")


@add(app, "preview-filter", example="packetboat topics preview-filter orders 'data.total > 100.0'")
def preview(
    context: typer.Context, topic: Topic, expression: Expression, messages: Messages = None
) -> None:
    """What a filter would match of the newest messages."""
    preview_filter(context, path("topics", topic, verb="preview_filter"), expression, messages)


@add(app, "preview-schema", example="packetboat topics preview-schema orders --schema order")
def preview_schema(
    context: typer.Context,
    topic: Topic,
    schema: Annotated[str | None, typer.Option(help="One of `schemas list`.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A definition as JSON; - for stdin.")
    ] = None,
    type_: Annotated[
        str, typer.Option("--type", help="Of --file: `json_schema` or `avro`.")
    ] = "json_schema",
    messages: Messages = None,
) -> None:
    """How many of the newest messages are as a schema has it; exit code 1 if not all."""
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
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="Of a receipt.")],
    acks: Annotated[bool, typer.Option("--acks", help="Its state at each subscription.")] = False,
) -> None:
    """A message that is stored, or one that waits for its time."""
    here = Invocation.of(context)
    where = path("topics", topic, "messages", message_id)
    here.output.record(here.api.get(where + ("/ack" if acks else "")))


@add(app, "delayed", example="packetboat topics delayed reminders")
def delayed(context: typer.Context, topic: Topic, limit: Limit = None) -> None:
    """The messages that wait for their time; `cancel` takes one back."""
    here = Invocation.of(context)
    columns = ("message_id", "scheduled_for", "key", "content_type", "size_bytes")
    here.output.rows(
        here.api.pages(path("topics", topic, "delayed"), "messages", limit=limit), *columns
    )


@add(app, "cancel", example="packetboat topics cancel reminders MESSAGE_ID")
def cancel(
    context: typer.Context,
    topic: Topic,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="Of a receipt.")],
) -> None:
    """Cancel a delayed message."""
    here = Invocation.of(context)
    here.api.delete(path("topics", topic, "messages", message_id))
    here.output.note("It is cancelled.")


def _retention(mode: str | None, seconds: int | None) -> list[str]:
    found = [] if mode is None else [f"retention.mode={mode}"]
    return found if seconds is None else [*found, f"retention.seconds={seconds}"]
