"""`packetboat jobs …`: map-reduce jobs and their tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Force, Limit, Name
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.invocation import Invocation
from packetboat.cli.progress import Progress
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("jobs", "Map-reduce jobs and their tasks.")
LOOK_S = 1.0
FINISHED = frozenset({"succeeded", "failed", "cancelled"})
State = Annotated[str | None, typer.Option(help="Only jobs or tasks in this state.")]


@add(app, "list", example="packetboat jobs list --state running")
def list_(context: typer.Context, state: State = None, limit: Limit = None) -> None:
    """List all jobs."""
    here = Invocation.of(context)
    columns = (
        "name",
        "state",
        "pool",
        "tasks.succeeded",
        "tasks.failed",
        "tasks.total",
        "created_at",
    )
    here.output.rows(here.api.pages("/jobs", "jobs", limit=limit, state=state), *columns)


@add(app, "get", example="packetboat jobs get word-count")
def get(context: typer.Context, name: Name) -> None:
    """Show a job with its counts and its result."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("jobs", name)))


@add(app, "watch", example="packetboat jobs watch word-count")
def watch(context: typer.Context, name: Name) -> None:
    """Show the progress of a job until its end; exit code 1 unless it succeeded."""
    here = Invocation.of(context)
    where = path("jobs", name)
    job = here.api.get(where)
    with Progress(here.output, job["state"], job["tasks"]["total"]) as progress:
        while job["state"] not in FINISHED:
            job = here.api.get(where, wait_s=LOOK_S, wait_seconds=LOOK_S)
            progress.at(_finished(job), job["state"])
    here.output.record(job)
    if job["state"] != "succeeded":
        raise typer.Exit(ExitCode.FAILED)


@add(app, "tasks", example="packetboat jobs tasks word-count --state failed")
def tasks(context: typer.Context, name: Name, state: State = None, limit: Limit = None) -> None:
    """List the tasks of a job."""
    here = Invocation.of(context)
    rows = here.api.pages(path("jobs", name, "tasks"), "tasks", limit=limit, state=state)
    here.output.rows(rows, "index", "phase", "state", "attempt", "worker", "error", "finished_at")


@add(app, "outputs", example="packetboat jobs outputs word-count -o ndjson")
def outputs(context: typer.Context, name: Name, limit: Limit = None) -> None:
    """List the outputs of the tasks of a job."""
    here = Invocation.of(context)
    rows = here.api.pages(path("jobs", name, "outputs"), "outputs", limit=limit)
    here.output.rows(rows, "index", "output", "error")


@add(app, "cancel", example="packetboat jobs cancel word-count")
def cancel(context: typer.Context, name: Name) -> None:
    """Cancel a job: no more of its tasks start."""
    here = Invocation.of(context)
    here.output.record(here.api.post(path("jobs", name, verb="cancel"), safe=True))


@add(app, "retry", example="packetboat jobs retry word-count")
def retry(context: typer.Context, name: Name) -> None:
    """Run the failed tasks of a job again."""
    here = Invocation.of(context)
    here.output.record(here.api.post(path("jobs", name, verb="retry")))


@add(app, "delete", example="packetboat jobs delete word-count")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Delete an ended job; `--force` even if it has not ended."""
    here = Invocation.of(context)
    here.api.delete(path("jobs", name), force=force or None)
    here.output.note(f"The job {name!r} is deleted.")


def _finished(job: dict[str, Any]) -> int:
    counts = job["tasks"]
    return int(counts["succeeded"] + counts["failed"] + counts["cancelled"])
