"""`packetboat export …`: topics that are written into tables of a lake."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Labels, Limit, Name, Set, body, moment, pairs
from packetboat.cli.completing import export_names, topic_names
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.exports import described, followed, say_where_spark_is_missing
from packetboat.cli.failures import CommandFailed
from packetboat.cli.flags import (
    Columns,
    ExportBody,
    ExportCron,
    ExportFilter,
    ExportFormat,
    ExportMissedRuns,
    ExportStart,
    ExportTable,
    ExportTimeZone,
    ExportTopic,
    KeepData,
    KeyBuckets,
    Lake,
    MaintainCron,
    MaxBytesPerSecond,
    PartitionBy,
)
from packetboat.cli.invocation import Invocation
from packetboat.cli.output import Format
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("export", "Write topics into tables of a lake.")
COLUMNS = ("name", "topic", "table", "state", "cron", "rows", "rejected", "next_runs", "failure")
RUN_COLUMNS = (
    *("number", "kind", "state", "trigger", "attempt", "result.rows", "result.rejected"),
    *("created_at", "finished_at", "failure.code"),
)
Export = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the export.", autocompletion=export_names)
]
Number = Annotated[int, typer.Argument(metavar="RUN", help="The number of the run.", min=1)]
OfTopic = Annotated[
    str | None,
    typer.Option("--topic", help="A topic, or a pattern with `*`.", autocompletion=topic_names),
]
FromTime = Annotated[
    str | None, typer.Option("--from-time", help="Start of a range: a time, or an age such as 2d.")
]
ToTime = Annotated[
    str | None, typer.Option("--to-time", help="End of a range, not included: a time, or an age.")
]
FromOffset = Annotated[
    int | None, typer.Option("--from-offset", help="Start of a range in each partition.", min=0)
]
ToOffset = Annotated[
    int | None,
    typer.Option("--to-offset", help="End of a range in each partition, not included.", min=0),
]


@add(app, "create", example="packetboat export create orders --topic orders --cron @hourly")
def create(
    context: typer.Context,
    name: Name,
    topic: ExportTopic = None,
    table: ExportTable = None,
    lake: Lake = None,
    format_: ExportFormat = None,
    body_: ExportBody = None,
    start: ExportStart = None,
    partition_by: PartitionBy = None,
    key_buckets: KeyBuckets = None,
    column: Columns = None,
    keep_data: KeepData = None,
    filter_: ExportFilter = None,
    cron: ExportCron = None,
    time_zone: ExportTimeZone = None,
    missed_runs: ExportMissedRuns = None,
    maintain_cron: MaintainCron = None,
    max_bytes_per_second: MaxBytesPerSecond = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
    if_absent: Annotated[
        bool, typer.Option("--if-absent", help="Succeed if an identical export exists.")
    ] = False,
) -> None:
    """Create an export; `packetboat export run NAME --wait` runs it."""
    here = Invocation.of(context)
    begin = start if start in (None, "earliest", "latest") else moment(start).isoformat()
    wanted = body(
        file,
        set_,
        label,
        topic=topic,
        table=table,
        lake=lake,
        format=format_,
        body=body_,
        start=begin,
        partition_by=partition_by,
        key_buckets=key_buckets,
        columns=pairs(column) or None,
        keep_data=keep_data,
        filter=filter_,
        cron=cron,
        time_zone=time_zone,
        missed_runs=missed_runs,
        maintain_cron=maintain_cron,
        max_bytes_per_second=max_bytes_per_second,
    )
    if if_absent:
        made = here.api.put(path("exports", name), wanted)
    else:
        made = here.api.post("/exports", {**wanted, "name": name})
    here.output.record(made)


@add(app, "list", example="packetboat export list --topic orders")
def list_(context: typer.Context, topic: OfTopic = None, limit: Limit = None) -> None:
    """List all exports, or the exports of a topic."""
    here = Invocation.of(context)
    rows = here.api.pages("/exports", "exports", limit=limit, topic=topic)
    here.output.rows(rows, *COLUMNS)


@add(app, "show", example="packetboat export show orders")
def show(context: typer.Context, name: Export) -> None:
    """Show an export: its settings, rows, lag, positions, and the place of its table."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("exports", name)))


@add(app, "change", example="packetboat export change orders --cron '*/15 * * * *'")
def change(
    context: typer.Context,
    name: Export,
    column: Columns = None,
    keep_data: KeepData = None,
    filter_: ExportFilter = None,
    cron: ExportCron = None,
    time_zone: ExportTimeZone = None,
    missed_runs: ExportMissedRuns = None,
    maintain_cron: MaintainCron = None,
    max_bytes_per_second: MaxBytesPerSecond = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Change the given settings; the others stay. `--set cron=null` removes its schedule."""
    here = Invocation.of(context)
    wanted = body(
        file,
        set_,
        label,
        columns=pairs(column) or None,
        keep_data=keep_data,
        filter=filter_,
        cron=cron,
        time_zone=time_zone,
        missed_runs=missed_runs,
        maintain_cron=maintain_cron,
        max_bytes_per_second=max_bytes_per_second,
    )
    here.output.record(here.api.patch(path("exports", name), wanted))


@add(app, "delete", example="packetboat export delete orders")
def delete(context: typer.Context, name: Export) -> None:
    """Delete an export with its history of runs; the table stays."""
    here = Invocation.of(context)
    here.api.delete(path("exports", name))
    here.output.note(f"The export {name!r} is deleted; its table stays.")


@add(app, "pause", example="packetboat export pause orders")
def pause(context: typer.Context, name: Export) -> None:
    """Stop scheduled runs until `resume`."""
    here = Invocation.of(context)
    here.output.record(here.api.post(path("exports", name, verb="pause"), safe=True))


@add(app, "resume", example="packetboat export resume orders")
def resume(context: typer.Context, name: Export) -> None:
    """Start scheduled runs again."""
    here = Invocation.of(context)
    here.output.record(here.api.post(path("exports", name, verb="resume"), safe=True))


@add(app, "run", example="packetboat export run orders --wait")
def run(
    context: typer.Context,
    name: Export,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; exit code 1 unless the run succeeded.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option(help="`export`, `backfill`, `maintain`, or `reconcile`.")
    ] = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic, for a range.")] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", help="Only this partition, for a range.", min=0),
    ] = None,
) -> None:
    """Run an export now, in addition to its schedule. `backfill` and `reconcile` take a range."""
    here = Invocation.of(context)
    wanted = body(
        kind=kind,
        from_time=moment(from_time).isoformat() if from_time else None,
        to_time=moment(to_time).isoformat() if to_time else None,
        from_offset=from_offset,
        to_offset=to_offset,
        topic=topic,
        partition=partition,
    )
    safe = kind in (None, "export")
    started = here.api.post(path("exports", name, verb="run"), wanted, safe=safe)
    say_where_spark_is_missing(here)
    if not wait:
        here.output.record(started)
        return
    ended = followed(here, started)
    here.output.record(ended)
    _end(here, ended)


@add(app, "runs", example="packetboat export runs orders --limit 5")
def runs(context: typer.Context, name: Export, limit: Limit = None) -> None:
    """List the runs of an export, newest first."""
    here = Invocation.of(context)
    rows = here.api.pages(path("exports", name, "runs"), "runs", limit=limit)
    here.output.rows(rows, *RUN_COLUMNS)


@add(app, "log", example="packetboat export log orders 17")
def log(context: typer.Context, name: Export, run: Number) -> None:
    """Show the log of a run."""
    here = Invocation.of(context)
    here.output.text(here.api.text(path("exports", name, "runs", str(run), "log")))


@add(app, "cancel", example="packetboat export cancel orders 17")
def cancel(context: typer.Context, name: Export, run: Number) -> None:
    """Cancel a run: it commits nothing more."""
    here = Invocation.of(context)
    where = path("exports", name, "runs", str(run), verb="cancel")
    here.output.record(here.api.post(where, safe=True))


@add(app, "table", example="packetboat export table orders")
def table(context: typer.Context, name: Export) -> None:
    """Show the place of the table, and how PyIceberg, DuckDB and PySpark read it."""
    here = Invocation.of(context)
    export = here.api.get(path("exports", name))
    if export["table_state"] is None:
        raise CommandFailed(
            f"the export {name!r} has no table yet",
            hint=f"packetboat export run {name} --wait",
        )
    found = described(export)
    if here.output.format is not Format.TABLE:
        here.output.record(found)
        return
    here.output.record({each: value for each, value in found.items() if each != "programs"})
    for title, program in found["programs"].items():
        here.output.text(f"\n# {title}\n{program}")


def _end(here: Invocation, ended: dict[str, Any]) -> None:
    """Return the exit code for the state of a run."""
    if ended["state"] != "succeeded":
        raise typer.Exit(ExitCode.FAILED)
    differing = (ended["result"] or {}).get("differences")
    if differing:
        here.output.note(f"Log and table differ in {len(differing)} hours.")
        raise typer.Exit(ExitCode.FAILED)
