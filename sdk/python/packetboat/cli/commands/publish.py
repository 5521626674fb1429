"""`packetboat publish`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from packetboat.cli.arguments import Topic, pairs, wrong
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
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE…]", help="What to publish; - or nothing for stdin."),
]


@add(app, "publish", example="packetboat publish orders orders.ndjson --ndjson --resume-id monday")
def publish(
    context: typer.Context,
    topic: Topic,
    files: Files = None,
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="One message: this text.")
    ] = None,
    ndjson: Annotated[
        bool,
        typer.Option(
            "--ndjson", help="Lines are messages: data, key, attributes, delay_seconds, …"
        ),
    ] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Each file is one message.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Of all messages.")] = None,
    key_field: Annotated[
        str | None,
        typer.Option("--key-field", metavar="MEMBER", help="Lines are JSON, and this is the key."),
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-a", metavar="NAME=VALUE")
    ] = None,
    content_type: Annotated[str | None, typer.Option(help="Of all messages.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Messages a second at most.", min=0.01)
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", help="Messages of a request at most.", min=1, max=1000)
    ] = 1000,
    resume_id: Annotated[
        str | None,
        typer.Option(help="Run it again with the same: what is stored is not stored twice."),
    ] = None,
    from_line: Annotated[int, typer.Option(metavar="N", help="Skip lines before.", min=1)] = 1,
    receipts: Annotated[
        bool, typer.Option("--receipts", help="Print a receipt for each message, as NDJSON.")
    ] = False,
) -> None:
    """Publish a line each as a message, from files or stdin; also compressed with gzip."""
    here = Invocation.of(context)
    if ndjson + whole > 1 or (whole and key_field) or (key and key_field):
        raise wrong("--whole and --ndjson, --whole and --key-field, --key and --key-field: one")
    if ndjson and content_type is not None:
        raise wrong("--content-type goes with lines and files; of NDJSON it is a member")
    form = Form(ndjson, whole, content_type, key, key_field, pairs(attribute), resume_id)
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
