"""Joining of small files, in partitions whose time is over.

The rows stay the same, so the commit is of the kind `replace` and leaves positions alone. It is
bound to the snapshot that was read, in which all the joined files must still be live; if some are
gone, another process was faster, and this one stops. The joined files are durable before the
commit. Every few files are committed, so a crash loses little work.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from packetboat.models.export_runs import SpecMaintenance
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform

from spark_exports.lake.columns import arrow_columns, decoded_bound
from spark_exports.lake.commit import ATTEMPT, RUN, discard, reload, wait_a_little
from spark_exports.lake.destination import Destination
from spark_exports.lake.envelope import ORDER
from spark_exports.lake.errors import CommitContended, Superseded
from spark_exports.lake.files import OpenFiles
from spark_exports.lake.merging import merged
from spark_exports.lake.partition import DAY_US, HOUR_US
from spark_exports.lake.transaction import Change, NotDone, put
from spark_exports.lake.written import WrittenFile

if TYPE_CHECKING:
    from spark_exports.lake.table import LakeTable

T = TypeVar("T")
R = TypeVar("R")
RunTasks = Callable[[Callable[[T], R], Sequence[T]], list[R]]
"""Function that does the work for each item, in parallel if it can, with results in the same
order.
"""

_MAX_FILES_JOINED = 256
_JOINS_A_COMMIT = 32
_MAX_TRIES = 10


def one_by_one(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do the work in this process; a `RunTasks`."""
    return [work(item) for item in items]


class Compacted(msgspec.Struct, frozen=True):
    """The result of a compaction: `removed_files` became `added_files`; bytes are those of
    files.
    """

    removed_files: int = 0
    removed_bytes: int = 0
    added_files: int = 0
    added_bytes: int = 0


class Join(msgspec.Struct, frozen=True):
    """The join of files of one partition, which runs in workers."""

    destination: Destination

    def __call__(self, locations: tuple[str, ...]) -> list[WrittenFile]:
        to = self.destination
        columns = arrow_columns(Schema.model_validate_json(to.schema), ids=True)
        with OpenFiles(to) as files:
            for batch in merged(to.file_io(), locations, columns):
                files.add(batch)
            return files.finish()


def compact(
    table: LakeTable,
    maintenance: SpecMaintenance,
    run: int,
    attempt: int,
    run_tasks: RunTasks[tuple[str, ...], list[WrittenFile]] = one_by_one,
    now_s: float | None = None,
) -> Compacted:
    """Join files below half of the target size to files of about that size. Raises Superseded."""
    reload(table, patient=False)
    _check_turn(table, run)
    now_us = int((time.time() if now_s is None else now_s) * 1_000_000)
    joins = list(_joins(table, maintenance.target_file_bytes, now_us))
    done = Compacted()
    for start in range(0, len(joins), _JOINS_A_COMMIT):
        some = joins[start : start + _JOINS_A_COMMIT]
        to = table.destination(run, attempt, maintenance.target_file_bytes)
        results = run_tasks(Join(to), [tuple(file.file_path for file in join) for join in some])
        removed = [file for join in some for file in join]
        added = [file for files in results for file in files]
        _check_rows(removed, added)
        _exchange(table, run, attempt, removed, added)
        done = Compacted(
            done.removed_files + len(removed),
            done.removed_bytes + sum(file.file_size_in_bytes for file in removed),
            done.added_files + len(added),
            done.added_bytes + sum(file.file_bytes for file in added),
        )
    return done


def _check_turn(table: LakeTable, run: int) -> None:
    if table.last_run > run:
        raise Superseded(f"run {table.last_run} has committed before run {run}")


def _check_rows(removed: list[DataFile], added: list[WrittenFile]) -> None:
    before = sum(file.record_count for file in removed)
    after = sum(file.rows for file in added)
    if before != after:
        raise AssertionError(f"{before} rows of files became {after}")


def _joins(table: LakeTable, target_bytes: int, now_us: int) -> Iterator[list[DataFile]]:
    """Yield lists of files that are to become one."""
    spec = table.iceberg.spec()
    small = defaultdict(list)
    for task in table.iceberg.scan().plan_files():
        file = task.file
        if (
            file.spec_id == spec.spec_id
            and file.file_size_in_bytes < target_bytes / 2
            and _is_over(spec, tuple(file.partition[n] for n in range(len(spec.fields))), now_us)
        ):
            small[tuple(file.partition[n] for n in range(len(spec.fields)))].append(file)
    for files in small.values():
        for join in _bins(table, files, target_bytes):
            if len(join) > 1:
                yield join


def _is_over(spec: PartitionSpec, values: tuple[int | None, ...], now_us: int) -> bool:
    for field, value in zip(spec.fields, values, strict=True):
        if isinstance(field.transform, HourTransform | DayTransform) and value is not None:
            period_us = HOUR_US if isinstance(field.transform, HourTransform) else DAY_US
            if (value + 1) * period_us > now_us:
                return False
    return True


def _bins(table: LakeTable, files: list[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    fields = [table.iceberg.schema().find_field(name) for name in ORDER]

    def lowest(file: DataFile) -> list[object]:
        bounds = file.lower_bounds or {}
        return [
            decoded_bound(field.field_type, bounds[field.field_id])
            for field in fields
            if field.field_id in bounds
        ]

    join: list[DataFile] = []
    size = 0
    for file in sorted(files, key=lowest):
        if join and (
            size + file.file_size_in_bytes > target_bytes or len(join) >= _MAX_FILES_JOINED
        ):
            yield join
            join, size = [], 0
        join.append(file)
        size += file.file_size_in_bytes
    if join:
        yield join


def _exchange(
    table: LakeTable, run: int, attempt: int, removed: list[DataFile], added: list[WrittenFile]
) -> None:
    garbage = [file.location for file in added]
    properties = {RUN: str(run), ATTEMPT: table.marker(attempt)}
    for number in range(_MAX_TRIES):
        live = {task.file.file_path for task in table.iceberg.scan().plan_files()}
        if live.issuperset(garbage):
            # The previous try succeeded, but its answer was lost.
            return
        try:
            _check_turn(table, run)
            if not live.issuperset(file.file_path for file in removed):
                raise Superseded("files to be joined are gone")
        except Superseded:
            discard(table, garbage)
            raise
        try:
            put(table.iceberg, Change("replace", added, removed, properties, properties))
        except NotDone:
            wait_a_little(number)
            reload(table, patient=True)
            continue
        return
    raise CommitContended(f"{_MAX_TRIES} tries to exchange {len(removed)} files")
