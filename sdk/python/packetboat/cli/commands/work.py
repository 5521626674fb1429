"""Work: `packetboat jobs` (map-reduce jobs and their tasks), `pools`, and `locks`, which shows who
holds which; `packetboat lock` takes one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, Name
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.flags import MaxRunning
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_common, add_delete, add_get, add_verb
from packetboat.cli.progress import Progress
from packetboat.cli.shared_options import add, commands

LOCKS = ("name", "held", "holder", "fencing_token", "expires_in_seconds", "waiting")
JOBS = (
    *("name", "state", "pool", "tasks.succeeded", "tasks.failed", "tasks.total"),
    "created_at",
)
TASKS = ("index", "phase", "state", "attempt", "worker", "error", "finished_at")
JOB = Noun("jobs", "job", JOBS, "word-count")
POOL = Noun("pools", "pool", ("name", "max_running", "running", "waiting"), "reports")
LOOK_S = 1.0
FINISHED = frozenset({"succeeded", "failed", "cancelled"})
State = Annotated[str | None, typer.Option(help="Only jobs or tasks in this state.")]

jobs: typer.Typer = commands("jobs", "Map-reduce jobs and their tasks.")
pools: typer.Typer = commands("pools", "Limits of tasks that run at once.")
locks: typer.Typer = commands(
    "locks", "Show locks and their holders; `packetboat lock` holds one for a program."
)
add_common(pools, POOL)
add_common(locks, Noun("locks", "lock", LOCKS, "nightly"))


@add(pools, "set", example="packetboat pools set reports --max-running 4")
def set_pool(context: typer.Context, name: Name, max_running: MaxRunning) -> None:
    """Limit the number of tasks that run at once."""
    here = Invocation.of(context)
    here.output.record(here.api.put(path("pools", name), {"max_running": max_running}))


@add(jobs, "list", example="packetboat jobs list --state running")
def list_(context: typer.Context, state: State = None, limit: Limit = None) -> None:
    """List all jobs."""
    here = Invocation.of(context)
    here.output.rows(here.api.pages("/jobs", "jobs", limit=limit, state=state), *JOB.columns)


add_get(jobs, JOB, "Show a job with its counts and its result.")


@add(jobs, "watch", example="packetboat jobs watch word-count")
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


@add(jobs, "tasks", example="packetboat jobs tasks word-count --state failed")
def tasks(context: typer.Context, name: Name, state: State = None, limit: Limit = None) -> None:
    """List the tasks of a job."""
    here = Invocation.of(context)
    rows = here.api.pages(path("jobs", name, "tasks"), "tasks", limit=limit, state=state)
    here.output.rows(rows, *TASKS)


@add(jobs, "outputs", example="packetboat jobs outputs word-count -o ndjson")
def outputs(context: typer.Context, name: Name, limit: Limit = None) -> None:
    """List the outputs of the tasks of a job."""
    here = Invocation.of(context)
    rows = here.api.pages(path("jobs", name, "outputs"), "outputs", limit=limit)
    here.output.rows(rows, "index", "output", "error")


add_verb(jobs, JOB, "cancel", "Cancel a job: no more of its tasks start.")
add_verb(jobs, JOB, "retry", "Run the failed tasks of a job again.", safe=False)
add_delete(jobs, JOB, "Delete an ended job; `--force` even if it has not ended.", force=True)


def _finished(job: dict[str, Any]) -> int:
    counts = job["tasks"]
    return int(counts["succeeded"] + counts["failed"] + counts["cancelled"])
