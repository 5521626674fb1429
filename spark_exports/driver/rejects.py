"""The rejects table of an export: messages as they came that no row could be made of, and the
reasons.

It has positions and runs of its own and is committed before the table. So it may be ahead of the
table, by an attempt that died in between; the rejects that it has are not written again. It may be
behind as well: a run without rejects leaves it alone, and then nothing is missing in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from packetboat.models.export_runs import LaneRange
from packetboat.models.exports import ExportTable

from spark_exports.driver.slice_task import LaneNumber
from spark_exports.driver.targets import Target
from spark_exports.lake.commit import Commit
from spark_exports.lake.files import FileWriter
from spark_exports.lake.written import WrittenFile
from spark_exports.order import Order


class Rejects:
    def __init__(self, table: Target) -> None:
        self._table = table

    def writer(self, order: Order) -> FileWriter:
        return self._table.writer(order.number, order.attempt)

    def starts(self, ranges: Sequence[LaneRange], is_backfill: bool) -> dict[LaneNumber, int]:
        """Return the offsets from which rejects still have to be written."""
        if is_backfill:
            return {}
        positions = self._table.positions
        return {
            (one.key.topic, one.key.partition, one.key.lane): positions[one.key]
            for one in ranges
            if one.key in positions
        }

    def commit(
        self, order: Order, ranges: Sequence[LaneRange], files: list[WrittenFile], main: Target
    ) -> ExportTable | None:
        """Adds them; None: nobody was ever rejected. A back-fill takes out those of its ranges."""
        if order.kind == "backfill":
            self._replace(order, ranges, files, main)
        elif files:
            self._table.commit(Commit(order.number, order.attempt, self._since(ranges), files))
        return self._table.state if self._table.last_run else None

    def _since(self, ranges: Sequence[LaneRange]) -> list[LaneRange]:
        """Return the ranges from the table's positions on.

        A position may be past `start`, by the rejects of an earlier attempt, or before it, after
        runs without rejects.
        """
        positions = self._table.positions
        found = [LaneRange(one.key, positions.get(one.key, one.start), one.end) for one in ranges]
        return [one for one in found if one.start < one.end]

    def _replace(
        self, order: Order, ranges: Sequence[LaneRange], files: list[WrittenFile], main: Target
    ) -> None:
        if not files and not self._table.last_run:
            return
        behind = [
            LaneRange(key, self._table.positions.get(key, min(starts)), end)
            for key, end in main.positions.items()
            if (starts := [one.start for one in ranges if one.key == key])
            and self._table.positions.get(key, -1) < end
        ]
        if behind:
            # All that is below the positions of the table had its rejects, if any, long ago.
            run = max(self._table.last_run, main.last_run, 1)
            self._table.commit(Commit(run, order.attempt, behind, []))
        self._table.commit(Commit(order.number, order.attempt, list(ranges), files, replace=True))
