"""Runs of exports, as a tenant starts, watches and cancels them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from openapi.common import (
    CONFLICT,
    LOCATION,
    RATE_LIMITED,
    UNPROCESSABLE,
    Count,
    CreatedAt,
    Hex128,
    Moment,
    NextPageToken,
    Positive,
    Total,
)
from openapi.contract import Answer, Body, OpenBody, Operation, Success, ok, table

Kind = Literal["export", "backfill", "maintain", "reconcile"]
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Trigger = Literal["schedule", "manual", "maintenance"]
TopicName = Annotated[str, Meta(max_length=128)]
TopicPattern = Annotated[str, Meta(min_length=1, max_length=128)]
Digest = Annotated[str, Meta(max_length=256)]
Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ExportLaneKey(Body):
    """A lane of a partition of a topic: one sequence of offsets."""

    topic: TopicPattern
    """The name of the topic."""
    topic_uid: Hex128
    """The id that tells a topic from a later one of the same name."""
    partition: Partition
    """The number of the partition, from 0."""
    lane: Annotated[int, Meta(ge=0, le=255)]
    """The priority; 0 of a topic without priorities."""


class ExportRange(ExportLaneKey, Answer):
    """The offsets `start` to `end` - 1 of a lane."""

    start: Count
    """The first offset."""
    end: Count
    """One past the last offset."""


class ExportRunProgress(OpenBody):
    """The progress of a run, as its runner reports it."""

    stage: Annotated[str, Meta(max_length=64)]
    """The part of the work that goes on, in a word."""
    rows: Total = 0
    """The number of messages that were read."""
    bytes: Total = 0
    """The size of the bodies that were read."""
    of_messages: Total = 0
    """The number of messages of the whole run."""


class ExportRunStage(ExportRunProgress, Answer):
    """The progress of a run."""


class LakeTableGiven(Body):
    """The place of a table after a run."""

    identifier: Annotated[str, Meta(max_length=512)]
    """The namespace and the name in the catalog."""
    location: Annotated[str, Meta(max_length=2048)]
    """The place of its files."""
    metadata_location: Annotated[str, Meta(max_length=2048)] | None
    """The file that describes its present state."""
    snapshot_id: int | None
    """The number of its present version."""


class CountDifference(Body):
    """An hour of a topic, by publish time, in which log and table differ."""

    topic: TopicName
    """The name of the topic."""
    hour_s: Total
    """The beginning of the hour, in seconds since 1970."""
    log_rows: Total
    """The number of messages in the log."""
    table_rows: Total
    """The number of rows in the table."""
    log_digest: Digest
    """A digest of the messages in the log, which tells whether they are the same."""
    table_digest: Digest
    """A digest of the rows in the table, to compare with that of the log."""


class ExportRunResult(OpenBody):
    """The result of a run."""

    rows: Total = 0
    """The number of messages that are in the table."""
    rejected: Total = 0
    """The number of messages that are in the table of rejects."""
    filtered: Total = 0
    """The number of messages that do not match the filter, and are in neither table."""
    bytes: Total = 0
    """The size of the bodies."""
    files: Total = 0
    """The number of files that were written."""
    file_bytes: Total = 0
    """The size of the files that were written."""
    removed_files: Total = 0
    """The number of files that were removed, of a run that maintains."""
    already: bool = False
    """Whether the table had the run already, by an earlier attempt, or had a later run."""
    last_run: Total = 0
    """The number of the last run in the table, where the table had this run already."""
    table: LakeTableGiven | None = None
    """The place of the table after the run; null where it was not written."""
    rejects: LakeTableGiven | None = None
    """The table of messages that could not be decoded."""
    new_columns: Annotated[
        list[Annotated[str, Meta(max_length=1024)]], Meta(max_length=10_000)
    ] = []
    """The columns that the run added to the table."""
    differences: Annotated[list[CountDifference], Meta(max_length=10_000)] = []
    """The hours in which log and table differ, of a run that reconciles."""


class RunFailureGiven(Body):
    """The reason that an attempt failed."""

    code: Annotated[str, Meta(min_length=1, max_length=64)]
    """A word for programs."""
    message: Annotated[str, Meta(max_length=4096)]
    """A sentence for people."""


class RunFailure(RunFailureGiven, Answer):
    """The reason that the last attempt failed."""


class ExportRun(Answer):
    """A run of an export."""

    number: Positive
    """Grows over the runs of an export."""
    export: str
    """The name of the export."""
    kind: Kind
    """The kind of work, as a request for a run names it."""
    state: State
    """The state of the run; `queued` waits for a runner."""
    trigger: Trigger
    """The cause of the run."""
    scheduled_for: datetime | None
    """The time for which the clock planned it; null of other runs."""
    attempt: Count
    """The number of attempts so far."""
    max_attempts: Positive
    """The number of attempts after which the run fails."""
    ranges: list[ExportRange] | None
    """The messages that it reads, once they are fixed; null in listings."""
    progress: ExportRunStage | None
    """The progress of the present attempt; null before its first report."""
    result: ExportRunResult | None
    """The result; null before it succeeded."""
    failure: RunFailure | None
    """The reason that its last attempt failed."""
    runner: str | None
    """The runner that has it, or had it last."""
    created_at: CreatedAt
    started_at: datetime | None
    """The time at which its first attempt began; null before."""
    finished_at: datetime | None
    """The time at which it ended; null before."""


class ExportRunStart(Body):
    """A request for a run."""

    kind: Kind = "export"
    """`export` writes new messages. `backfill` writes a range, in the place of the rows that the
    table has of it. `maintain` joins files and drops those that are no longer needed. `reconcile`
    compares log and table, by hours."""
    from_time: Moment | None = None
    """The publish time of the first message, of `backfill` and `reconcile`."""
    to_time: Moment | None = None
    """The publish time at which the messages end; one of that time is not read."""
    from_offset: Total | None = None
    """The first offset in each lane, in the place of from_time."""
    to_offset: Total | None = None
    """One past the last offset in each lane, in the place of to_time."""
    topic: TopicName | None = None
    """The only topic of the export to read."""
    partition: Partition | None = None
    """The only partition to read."""


class ExportRunPage(Answer):
    """One page of runs."""

    runs: list[ExportRun]
    """The runs of this page, newest first."""
    next_page_token: NextPageToken


OPERATIONS = table(
    "exports",
    Operation(
        id="runExport",
        route="POST /exports/{name}:run",
        needs="manage export:name",
        summary="Run an export now",
        description=(
            "A paused export can be run too. Runs of one export never overlap: one waits for "
            "another. The caller needs `read` on the topic, too."
        ),
        body=ExportRunStart,
        body_required=False,
        answers=(
            ok(ExportRun, "The run that waits already, and does the same."),
            Success(201, "The run, which waits for a runner.", ExportRun, (LOCATION,)),
        ),
        problems=(
            CONFLICT,
            RATE_LIMITED,
        ),
    ),
    Operation(
        id="listExportRuns",
        route="GET /exports/{name}/runs",
        needs="read export:name",
        summary="List runs",
        paged=True,
        answers=(ok(ExportRunPage, "One page, the newest first."),),
    ),
    Operation(
        id="getExportRun",
        route="GET /exports/{name}/runs/{run}",
        needs="read export:name",
        summary="Get a run",
        answers=(ok(ExportRun, "The run."),),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="cancelExportRun",
        route="POST /exports/{name}/runs/{run}:cancel",
        needs="manage export:name",
        summary="Cancel a run",
        description="Rows that the run has committed stay; the next run takes the other messages.",
        answers=(
            ok(
                ExportRun,
                (
                    "The run. One that waited is cancelled; the runner of one that is under way "
                    "is told; one that had ended stays as it was."
                ),
            ),
        ),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="getExportRunLog",
        route="GET /exports/{name}/runs/{run}/log",
        needs="read export:name",
        summary="Get the log of a run",
        answers=(
            ok(
                str,
                "The output of its runner, of all attempts; of a long log the end.",
                media="text/plain",
            ),
        ),
        problems=(UNPROCESSABLE,),
    ),
)
