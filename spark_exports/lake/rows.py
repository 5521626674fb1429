"""Counts and digests of a table's rows, for comparison with those of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from packetboat.models.export_runs import LaneRange
from pyiceberg.schema import Schema

from spark_exports.lake.columns import arrow_columns
from spark_exports.lake.compaction import RunTasks, one_by_one
from spark_exports.lake.destination import Destination
from spark_exports.lake.digest import COLUMNS, Tally
from spark_exports.lake.reading import DataReader
from spark_exports.lake.replace import in_ranges

if TYPE_CHECKING:
    from spark_exports.lake.table import LakeTable


class TallyFile(msgspec.Struct, frozen=True):
    """The tally of one file, read a row group at a time in a worker, as a batch of
    `digest.TALLY`.
    """

    storage: Destination
    ranges: list[LaneRange] | None

    def __call__(self, location: str) -> pa.RecordBatch:
        columns = arrow_columns(Schema.model_validate_json(self.storage.schema), ids=True)
        tally = Tally()
        with DataReader(self.storage.file_io(), location, columns) as reader:
            for number in range(reader.row_groups):
                rows = reader.row_group(number, COLUMNS)
                if self.ranges is not None:
                    rows = rows.filter(in_ranges(rows, self.ranges))
                for batch in rows.to_batches():
                    tally.add(batch)
        return tally.to_batch()


def rows_of(
    table: LakeTable,
    ranges: Sequence[LaneRange] | None = None,
    run_tasks: RunTasks[str, pa.RecordBatch] = one_by_one,
) -> Tally:
    """Return the tally of the current snapshot; with `ranges`, of their offsets only.

    Raises ForeignFile.
    """
    task = TallyFile(table.destination(0, 0), None if ranges is None else list(ranges))
    files = [each.file.file_path for each in table.iceberg.scan().plan_files()]
    return Tally.of_batches(run_tasks(task, files))
