"""The commit of a run, which makes its rows visible exactly once.

Before a commit, all files that it names are durable (storage.py). The following holds if processes
die, and if attempts of a run overlap:

1. The table itself records its rows. `packetboat.positions` (all below them is in the table) and
   `packetboat.run` (the number of the run that committed last) are properties of the table, and
   change in the same Iceberg commit that adds the files: at no moment is one there without the
   other. `packetboat.attempt` names the directory of the files of that commit.
2. A commit is bound to the state that it was decided on. It requires that the branch is still at
   the snapshot whose positions were compared (assert-ref-snapshot-id), and every commit makes a
   snapshot, also one without files. The catalog swaps the metadata atomically. PyIceberg's own
   retries are off: they would append to the table in any later state.
3. Before every try the table is loaded and judged again:
   - this run has committed already. If it was this very attempt, whose answer was lost, the run is
     done. If it was another attempt, the run is done too, and the files of this one are garbage;
   - a later run has committed: this one is over. Either the table has its ranges all the same, or
     the run is superseded; rows that a later run excluded never come in;
   - the table's positions are not where the ranges start (or at the position that the range states,
     if the messages in between are gone): superseded;
   - else the commit may be tried.
4. After a conflict the table is judged once more. The same holds for an unknown outcome (the
   connection is cut at COMMIT, a file cannot be written): the table is loaded, and its state
   decides. If a lost commit takes effect after that, the next try meets it as a conflict. If the
   catalog stays away, the caller gets CatalogUnavailable, and the next attempt of the run begins
   with the same check.
5. Files are deleted here only if no commit can ever name them: another attempt's commit of this run
   is in the table, or the table moved on before this run ever committed. All other garbage is left
   to `remove_orphans`.

A back-fill (`replace`) removes the rows of its ranges, by writing the files that hold some again
without them, and adds its own files in the same commit; so it may run any number of times. It moves
a position forward only if it begins at or below it.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.models.exports import ExportTable

from spark_exports.lake.errors import (
    AheadOfTable,
    CatalogUnavailable,
    CommitContended,
    NamesakeTopic,
    Superseded,
)
from spark_exports.lake.live import data_locations
from spark_exports.lake.replace import without_ranges
from spark_exports.lake.storage import LakeFileIO, delete_files
from spark_exports.lake.transaction import Change, NotDone, put
from spark_exports.lake.written import WrittenFile

if TYPE_CHECKING:
    from spark_exports.lake.table import LakeTable

POSITIONS = "packetboat.positions"
RUN = "packetboat.run"
ATTEMPT = "packetboat.attempt"
RANGES = "packetboat.ranges"
COUNTS = "packetboat.counts"

_MAX_TRIES = 20
_MAX_RANGES_IN_SUMMARY = 100
_WAITS_S = (0.05, 0.2, 1.0, 2.0, 4.0)


class Commit(msgspec.Struct, frozen=True):
    """The ranges that a run read, and the files with their rows; an append has one range of a lane.

    `counts` are stored with it, for a process that reports the run in place of its writer.
    """

    run: int
    attempt: int
    ranges: list[LaneRange]
    files: list[WrittenFile]
    replace: bool = False
    counts: dict[str, int] = {}


class Committed(msgspec.Struct, frozen=True):
    """The result of a commit; `already` says that another call made it.

    `removed_files` were replaced by a back-fill.
    """

    already: bool
    state: ExportTable
    positions: dict[LaneKey, int]
    removed_files: int = 0


def commit_run(table: LakeTable, commit: Commit) -> Committed:
    """Commit a run by the protocol above; the rows are durable and visible when this returns.

    Raises Superseded, CommitContended, CatalogUnavailable; for a back-fill AheadOfTable,
    NamesakeTopic and ForeignFile. The files are garbage after each of these but CatalogUnavailable.
    """
    _check(commit)
    marker = table.marker(commit.attempt)
    garbage = [file.location for file in commit.files]
    failure: NotDone | None = None
    for number in range(_MAX_TRIES):
        reload(table, patient=failure is not None)
        try:
            done = _has(table, commit)
        except Superseded:
            discard(table, garbage)
            raise
        if done:
            discard(table, garbage)
            ours = failure is not None and table.iceberg.properties.get(ATTEMPT) == marker
            return Committed(not ours, table.state, table.positions)
        change = _change(table, commit, marker)
        garbage += [file.location for file in change.added]
        try:
            put(table.iceberg, change)
        except NotDone as error:
            failure = error
            wait_a_little(number)
            continue
        if failure is not None:
            discard(table, garbage)
        return Committed(False, table.state, table.positions, len(change.removed))
    raise CommitContended(f"{_MAX_TRIES} tries, the last: {failure}") from failure


def _check(commit: Commit) -> None:
    if not commit.replace and len({each.key for each in commit.ranges}) < len(commit.ranges):
        raise ValueError("an append has one range of a lane")
    if any(each.start > each.end for each in commit.ranges):
        raise ValueError("a range ends before it starts")
    if commit.run < 1:
        raise ValueError("runs are numbered from 1")


def _has(table: LakeTable, commit: Commit) -> bool:
    """Return whether the table has the rows of this run; if not, the commit may be tried.

    Raises Superseded.
    """
    if commit.replace:
        return _has_backfill(table, commit)
    positions = table.positions
    if table.last_run >= commit.run and all(
        positions.get(each.key, -1) >= each.end for each in commit.ranges
    ):
        return True
    if table.last_run > commit.run:
        raise Superseded(f"run {table.last_run} has committed before run {commit.run}")
    for each in commit.ranges:
        begins = each.start if each.position is None else each.position
        if positions.get(each.key, begins) != begins:
            raise Superseded(
                f"{each.key.topic} partition {each.key.partition} lane {each.key.lane}: the table"
                f" has all below {positions[each.key]}, and the run begins at {begins}"
            )
    return False


def _has_backfill(table: LakeTable, commit: Commit) -> bool:
    if table.last_run < commit.run:
        return False
    numbers = {table.last_run} | {
        int(snapshot.summary[RUN] or 0)
        for snapshot in table.iceberg.snapshots()
        if snapshot.summary is not None and RUN in snapshot.summary.additional_properties
    }
    if commit.run in numbers:
        return True
    raise Superseded(f"run {table.last_run} has committed before run {commit.run}")


def _change(table: LakeTable, commit: Commit, marker: str) -> Change:
    if any(file.spec_id != table.iceberg.spec().spec_id for file in commit.files):
        raise Superseded("the table is partitioned otherwise since the files were written")
    properties = {
        POSITIONS: _encoded(_positions_after(table.positions, commit)),
        RUN: str(commit.run),
        ATTEMPT: marker,
    }
    summary = {RUN: str(commit.run), ATTEMPT: marker}
    if len(commit.ranges) <= _MAX_RANGES_IN_SUMMARY:
        summary[RANGES] = json.dumps(
            [[*msgspec.structs.astuple(each.key), each.start, each.end] for each in commit.ranges]
        )
    if commit.counts:
        summary[COUNTS] = json.dumps(commit.counts)
    if not commit.replace:
        return Change("append", commit.files, [], properties, summary)
    to = table.destination(commit.run, commit.attempt)
    rewrite = without_ranges(table.iceberg, commit.ranges, to)
    return Change(
        "overwrite", [*commit.files, *rewrite.added], rewrite.removed, properties, summary
    )


def _positions_after(positions: dict[LaneKey, int], commit: Commit) -> dict[LaneKey, int]:
    after = dict(positions)
    for each in sorted(commit.ranges):
        if commit.replace:
            _check_backfill(after, each)
        after[each.key] = max(each.end, after.get(each.key, 0))
    return after


def _check_backfill(positions: dict[LaneKey, int], wanted: LaneRange) -> None:
    """Check that a back-fill may add a range.

    The export itself would add rows above the position again. Rows of a topic that had the same
    name cannot be told from those of this topic.
    """
    position = positions.get(wanted.key)
    if position is None or (wanted.end > position and wanted.start > position):
        raise AheadOfTable(wanted.key, position)
    if any(
        key.topic == wanted.key.topic and key.topic_uid != wanted.key.topic_uid for key in positions
    ):
        raise NamesakeTopic(f"the table has rows of two topics with the name {wanted.key.topic}")


def _encoded(positions: dict[LaneKey, int]) -> str:
    rows = [[*msgspec.structs.astuple(key), offset] for key, offset in sorted(positions.items())]
    return json.dumps(rows, separators=(",", ":"))


def reload(table: LakeTable, *, patient: bool) -> None:
    """Load the table again; `patient` waits for a catalog that comes back soon."""
    for wait_s in _WAITS_S if patient else ():
        with suppress(CatalogUnavailable):
            table.refresh()
            return
        threading.Event().wait(wait_s)
    table.refresh()


def discard(table: LakeTable, locations: Iterable[str]) -> None:
    """Delete those files that no snapshot names.

    Only for files that no commit can name any more.
    """
    unwanted = set(locations)
    if not unwanted:
        return
    # `remove_orphans` deletes files that cannot be deleted now.
    with suppress(OSError):
        file_io = LakeFileIO(table.iceberg.io.properties)
        delete_files(file_io, unwanted - data_locations(table.iceberg))


def wait_a_little(number: int) -> None:
    """Wait between tries, so that two writers do not meet each time."""
    limit_s = _WAITS_S[min(number, 2)]
    threading.Event().wait(random.uniform(0, limit_s))
