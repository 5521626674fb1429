"""What runners say.

Of results and progress, members that nobody knows here are passed over: a runner may be newer than
the server that it speaks to.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from gateway.exports.bodies import MAX_OFFSET
from gateway.exports.lanes import Positions, stored
from metadata.exports.types import Ending, Failure, RunProgress, RunResult

MAX_LEASE_S = 3600
MAX_WAIT_S = 60
MAX_LAKES = 100
MAX_NAME_CHARS = 128
MAX_LOG_CHARS = 64 * 1024
MAX_PATH_CHARS = 2048
MAX_ITEMS = 10_000
MAX_BODY_BYTES = 32 * 1024 * 1024
"""Of a plan and an ending: each has all positions."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
Name = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS, pattern=r"^[^\x00-\x1f\x7f]*\Z")
]
Path = Annotated[str, msgspec.Meta(max_length=MAX_PATH_CHARS)]
LeaseText = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=1, le=MAX_LEASE_S)]
Log = Annotated[str, msgspec.Meta(max_length=MAX_LOG_CHARS)]


class RunClaim(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /export_runs:claim` takes."""

    runner: Name
    lakes: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MAX_LAKES)]
    lease_seconds: LeaseSeconds = 60.0
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0


class RunPositions(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /export_runs/{uid}:plan` takes."""

    lease: LeaseText
    positions: Positions


class Progress(msgspec.Struct):
    """How far a run is."""

    stage: Annotated[str, msgspec.Meta(max_length=64)]
    rows: Count = 0
    bytes: Count = 0
    of_messages: Count = 0

    def stored(self) -> RunProgress:
        stage = _storable(self.stage)
        return RunProgress(stage, self.rows, self.bytes, self.of_messages)


class RunRenew(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /export_runs/{uid}:renew` takes."""

    lease: LeaseText
    lease_seconds: LeaseSeconds = 60.0
    progress: Progress | None = None
    log: Log | None = None


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """Where a table is."""

    identifier: Annotated[str, msgspec.Meta(max_length=512)]
    location: Path
    metadata_location: Path | None
    snapshot_id: int | None


class Difference(msgspec.Struct, forbid_unknown_fields=True):
    """An hour in which log and table differ."""

    topic: Annotated[str, msgspec.Meta(max_length=128)]
    hour_s: Count
    log_rows: Count
    table_rows: Count
    log_digest: Annotated[str, msgspec.Meta(max_length=256)]
    table_digest: Annotated[str, msgspec.Meta(max_length=256)]


class Result(msgspec.Struct):
    """What a run did."""

    rows: Count = 0
    rejected: Count = 0
    filtered: Count = 0
    bytes: Count = 0
    files: Count = 0
    file_bytes: Count = 0
    removed_files: Count = 0
    already: bool = False
    last_run: Count = 0
    table: Table | None = None
    rejects: Table | None = None
    new_columns: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=1024)]], msgspec.Meta(max_length=MAX_ITEMS)
    ] = []
    differences: Annotated[list[Difference], msgspec.Meta(max_length=MAX_ITEMS)] = []

    def stored(self) -> RunResult:
        return msgspec.convert(_storable(msgspec.to_builtins(self)), RunResult)


class RunFailure(msgspec.Struct, forbid_unknown_fields=True):
    """Why a run failed."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    message: Annotated[str, msgspec.Meta(max_length=4096)]


class RunFinish(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /export_runs/{uid}:finish` takes."""

    lease: LeaseText
    state: Literal["succeeded", "failed", "cancelled"]
    result: Result | None = None
    positions: Positions | None = None
    failure: RunFailure | None = None
    retry: bool = False
    log: Log | None = None

    def ending(self) -> Ending:
        failure = self.failure
        return Ending(
            self.state,
            None if self.result is None else self.result.stored(),
            None if self.positions is None else stored(self.positions),
            None if failure is None else Failure(failure.code, failure.message),
            self.retry,
        )


def log_bytes(text: str | None) -> bytes:
    """As it is kept."""
    return (text or "").replace("\0", "\ufffd").encode("utf-8", "replace")


def _storable(value: Any) -> Any:
    """Postgres keeps no NUL in a text."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {name: _storable(each) for name, each in value.items()}
    return value
