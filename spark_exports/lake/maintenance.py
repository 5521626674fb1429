"""Upkeep of a table: joining files, forgetting snapshots, deleting what nothing names.

A `maintain` run goes through the same line as the exports of its table, but what is dead may not
know it. So before anything is deleted the table is *fenced*: a commit with this run's number, after
which no earlier run can commit (commit.py). Then:

- a data file of an earlier run that no snapshot names will never be named: it goes, young or old;
- files of this run go only when they are old (`orphans_after_s`), and so do all others (metadata,
  manifests): another attempt, or a reader, may be in the middle of something;
- the listing comes first, the table is loaded after it: what was committed in between is named.
  And a listing that lacks files which the table names is not of this table: nothing is deleted.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import msgspec
from packetboat.models.export_runs import SpecMaintenance
from pyiceberg.exceptions import CommitFailedException

from spark_exports.lake.catalog import reachable
from spark_exports.lake.commit import Commit
from spark_exports.lake.compaction import Compacted, RunTasks, compact, one_by_one
from spark_exports.lake.errors import CommitContended, ListingDiffers, Superseded
from spark_exports.lake.live import data_locations, metadata_locations
from spark_exports.lake.storage import LakeFileIO, StoredFile, delete_files, list_files

if TYPE_CHECKING:
    from spark_exports.lake.table import LakeTable

__all__ = [
    "Compacted",
    "Removed",
    "RunTasks",
    "compact",
    "expire_snapshots",
    "one_by_one",
    "remove_orphans",
]

_RUN_OF_FILE = re.compile(r"/data/run-(\d+)/attempt-")
_MAX_TRIES = 10


class Removed(msgspec.Struct, frozen=True):
    """Files that were deleted, and their size."""

    files: int
    file_bytes: int


def expire_snapshots(
    table: LakeTable, maintenance: SpecMaintenance, now_s: float | None = None
) -> int:
    """Forgets snapshots older than `keep_snapshots_s`, but never the current one; says how many.
    Their files are for `remove_orphans`."""
    until = (time.time() if now_s is None else now_s) - maintenance.keep_snapshots_s
    for _ in range(_MAX_TRIES):
        table.refresh()
        current = {ref.snapshot_id for ref in table.iceberg.refs().values()}
        old = [
            snapshot.snapshot_id
            for snapshot in table.iceberg.snapshots()
            if snapshot.timestamp_ms < until * 1000 and snapshot.snapshot_id not in current
        ]
        if not old:
            return 0
        try:
            with reachable():
                table.iceberg.maintenance.expire_snapshots().by_ids(old).commit()
        except CommitFailedException:
            continue
        return len(old)
    raise CommitContended(f"{_MAX_TRIES} tries to expire snapshots")


def remove_orphans(
    table: LakeTable,
    maintenance: SpecMaintenance,
    run: int,
    attempt: int,
    now_s: float | None = None,
) -> Removed:
    """Deletes what no snapshot names, as told above. Raises Superseded and ListingDiffers."""
    table.commit(Commit(run, attempt, [], []))
    if table.last_run > run:
        raise Superseded(f"run {table.last_run} has committed before run {run}")
    before = data_locations(table.iceberg)
    file_io = LakeFileIO(table.iceberg.io.properties)
    stored = list(list_files(file_io, table.iceberg.location()))
    table.refresh()
    data = data_locations(table.iceberg)
    _check_listing(table, before & data, stored)
    named = data | metadata_locations(table.iceberg)
    old_before_s = (time.time() if now_s is None else now_s) - maintenance.orphans_after_s
    own = f"/run-{run}/attempt-{table.marker(attempt)}/"
    orphans = [
        file
        for file in stored
        if file.location not in named
        and (_is_of_earlier_run(file, run) or file.modified_s < old_before_s)
        and own not in file.location
    ]
    delete_files(file_io, [file.location for file in orphans])
    return Removed(len(orphans), sum(file.size_bytes for file in orphans))


def _is_of_earlier_run(file: StoredFile, run: int) -> bool:
    found = _RUN_OF_FILE.search(file.location)
    return found is not None and int(found[1]) < run


def _check_listing(table: LakeTable, named: set[str], stored: list[StoredFile]) -> None:
    below = f"{table.iceberg.location()}/"
    there = {file.location for file in stored}
    missing = {name for name in named if name.startswith(below)} - there
    if missing:
        raise ListingDiffers(f"{len(missing)} files of the table are not there: {min(missing)}, …")
