"""`packetboat publish`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from packetboat.cli.arguments import Topic, duration_s, moment, pairs, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import report
from packetboat.cli.invocation import Invocation
from packetboat.cli.output import Format
from packetboat.cli.progress import Progress
from packetboat.cli.publish_input import Form, Position, items, size_bytes
from packetboat.cli.publish_run import Run
from packetboat.cli.publish_summary import Summary
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()
MAX_PRIORITY = 9
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE…]", help="Files to publish, a message a line. Without any, or -: stdin."
    ),
]
Ndjson = Annotated[
    bool,
    typer.Option(
        "--ndjson",
        help="Each line is a JSON object: a message with its data, key, attributes and so on.",
    ),
]
Whole = Annotated[
    bool, typer.Option("--whole", help="Each file is one message, not a message a line.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", "-k", help="The key: messages with the same key keep their order."),
]
KeyField = Annotated[
    str | None,
    typer.Option(
        "--key-field",
        metavar="MEMBER",
        help="Lines are JSON; this member of each line is its key.",
    ),
]
Attribute = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        "-a",
        metavar="NAME=VALUE",
        help="An attribute of the messages. May be repeated.",
    ),
]
ContentType = Annotated[
    str | None, typer.Option(help="The content type, such as application/json.")
]
Delay = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Deliver after this time: seconds, or 10m, 2h, 7d."),
]
DeliverAt = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Deliver at this time, such as 2026-01-31T12:00:00Z."),
]
Ttl = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="DURATION",
        help="Drop a message that is not delivered by then: seconds, or 10m, 2h, 7d.",
    ),
]
Priority = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="From 0 to 9; a higher one is delivered first, in topics with priorities.",
        min=0,
        max=MAX_PRIORITY,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        help="For one message: published again with the same key, it is not stored twice."
    ),
]
ResumeId = Annotated[
    str | None,
    typer.Option(help="A name for this input: run again with it, no line is stored twice."),
]
Rate = Annotated[
    float | None,
    typer.Option(metavar="N", help="Publish at most this many messages a second.", min=0.01),
]
Batch = Annotated[
    int,
    typer.Option(
        metavar="N", help="Send at most this many messages in a request.", min=1, max=1000
    ),
]


@add(app, "publish", example="packetboat publish orders orders.ndjson --ndjson --resume-id monday")
def publish(
    context: typer.Context,
    topic: Topic,
    files: Files = None,
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="Publish one message: this text.")
    ] = None,
    ndjson: Ndjson = False,
    whole: Whole = False,
    key: Key = None,
    key_field: KeyField = None,
    attribute: Attribute = None,
    content_type: ContentType = None,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    ttl: Ttl = None,
    priority: Priority = 0,
    idempotency_key: IdempotencyKey = None,
    rate: Rate = None,
    batch: Batch = 1000,
    resume_id: ResumeId = None,
    from_line: Annotated[
        int, typer.Option(metavar="N", help="Start at this line; the first is 1.", min=1)
    ] = 1,
    receipts: Annotated[
        bool, typer.Option("--receipts", help="Print a receipt for each message, as NDJSON.")
    ] = False,
) -> None:
    """Publish each line of files or stdin as a message; gzip is decompressed."""
    here = Invocation.of(context)
    if ndjson + whole > 1 or (whole and key_field) or (key and key_field):
        raise wrong("--whole and --ndjson, --whole and --key-field, --key and --key-field: one")
    if ndjson and content_type is not None:
        raise wrong("--content-type goes with lines and files; of NDJSON it is a member")
    if delay is not None and deliver_at is not None:
        raise wrong("either --delay or --deliver-at")
    if idempotency_key is not None:
        _check_one(data is not None or (whole and len(files or "-") == 1), resume_id)
    form = Form(
        ndjson,
        whole,
        content_type,
        key,
        key_field,
        pairs(attribute),
        resume_id,
        idempotency_key,
        priority,
        None if delay is None else duration_s(delay),
        None if deliver_at is None else moment(deliver_at),
        None if ttl is None else duration_s(ttl),
    )
    position = Position()
    chosen = files or [Path("-")]
    if data is not None:
        if files:
            raise wrong("either --data or files")
        read = iter([form.item(1, data.encode())])
    else:
        if not files and sys.stdin.isatty():
            here.output.note("(reading from the terminal; Ctrl-D ends it)")
        read = items(chosen, form, position, from_line)
    here.api.get("/healthz")  # a server that is not there is said at once
    began_s = time.monotonic()
    total_bytes = None if data is not None else size_bytes(chosen)
    with Progress(here.output, topic, total_bytes, bytes_=total_bytes is not None) as progress:

        def show(summary: Summary) -> None:
            count = summary.done + summary.refused + summary.unknown
            progress.at(position.read_bytes if total_bytes is not None else count)

        async def work() -> Summary:
            async with here.publisher(batch) as publisher:
                told = here.output.text if receipts else None
                run = Run(publisher, topic, rate=rate, receipt=told, progress=show)
                return await run.run(read)

        summary = asyncio.run(work())
    _tell(here, topic, summary, time.monotonic() - began_s, resume_id, receipts)


def _check_one(is_one: bool, resume_id: str | None) -> None:
    """Refuse one idempotency key for many messages: only the first would be stored."""
    if not is_one:
        raise wrong("--idempotency-key is for one message: --data, or --whole with one file")
    if resume_id is not None:
        raise wrong("either --idempotency-key or --resume-id")


def _tell(
    here: Invocation,
    topic: str,
    summary: Summary,
    seconds: float,
    resume_id: str | None,
    receipts: bool,
) -> None:
    if summary.input_failure is not None:
        here.output.warning(f"packetboat: {summary.input_failure}")
    if summary.hopeless is not None:
        report(summary.hopeless, here.output)
    else:
        _tell_failures(here, summary)
    if here.output.format is Format.TABLE:
        counts = f"{summary.done} done ({summary.duplicates} of them before)"
        lost = f"{summary.refused} refused, {summary.unknown} unknown"
        unsent = f", {summary.unsent} not sent" if summary.unsent else ""
        here.output.note(f"{topic}: {counts}, {lost}{unsent} in {seconds:.1f} s")
    elif not receipts:
        here.output.record(summary.record(topic, seconds))
    if summary.exit_code is ExitCode.OK:
        return
    if resume_id is not None:
        here.output.note(f"the same command again goes on: --resume-id {resume_id}")
    elif summary.first_line is not None and not summary.unknown:
        here.output.note(f"the first line that is not done: {summary.first_line} (--from-line)")
    raise typer.Exit(summary.exit_code)


def _tell_failures(here: Invocation, summary: Summary) -> None:
    for failure in summary.failures:
        here.output.warning(f"packetboat: {failure}")
    more = summary.refused + summary.unknown + summary.unsent - len(summary.failures)
    if summary.failures and more > 0:
        here.output.warning(f"packetboat: … and {more} more")
