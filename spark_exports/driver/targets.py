"""The targets of an export's rows: a table of the lake, or plain files, and the same for its
rejects.

Plain files have no positions, only the server has. So a run of theirs begins at the server's
position, and reports its end afterwards. Rows come twice only if a driver dies between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from packetboat.models.export_runs import LaneKey, LanePosition, LaneRange
from packetboat.models.exports import ExportTable

from spark_exports.driver.bodies.columns import with_pinned
from spark_exports.driver.errors import BadOrder
from spark_exports.driver.rows import REJECTS, base_columns
from spark_exports.lake.commit import Commit, Committed
from spark_exports.lake.files import FileWriter
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.plain import PlainFiles
from spark_exports.lake.table import LakeTable
from spark_exports.order import Order

REJECTS_SUFFIX = "_rejects"


class Target(Protocol):
    """The methods of LakeTable and PlainFiles that a run needs."""

    @property
    def positions(self) -> dict[LaneKey, int]: ...

    @property
    def last_run(self) -> int: ...

    @property
    def state(self) -> ExportTable: ...

    @property
    def columns(self) -> pa.Schema: ...

    def evolve(self, columns: pa.Schema) -> pa.Schema: ...

    def writer(self, run: int, attempt: int) -> FileWriter: ...

    def commit(self, commit: Commit) -> Committed: ...

    def counts_of(self, run: int) -> dict[str, int]: ...


class Targets:
    """The tables of one export. Any method may raise LakeError."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._spec = order.export
        self._is_plain = order.export.format == "parquet"
        self._lake = None if self._is_plain else Lake(order.lake)

    def close(self) -> None:
        if self._lake is not None:
            self._lake.close()

    def table(self) -> Target:
        """Return the export's table; make it if it is missing."""
        spec = self._spec
        columns = base_columns(spec.body)
        if spec.body != "raw":
            columns = pa.schema([*columns, *with_pinned(pa.schema([]), spec.columns)])
        return self._open(spec.table, columns, Layout(spec.partition_by, spec.key_buckets))

    def rejects(self) -> Target | None:
        """Return the rejects table; make it if it is missing. None if nothing can be rejected."""
        spec = self._spec
        if spec.body == "raw":
            return None
        return self._open(spec.table + REJECTS_SUFFIX, REJECTS, Layout(spec.partition_by))

    def _open(self, name: str, columns: pa.Schema, layout: Layout) -> Target:
        tenant = self._order.tenant
        if self._lake is None:
            return PlainFiles(self._order.lake, tenant, name, columns, layout)
        return self._lake.open(tenant, name, columns, layout, self._spec.name)

    def find(self) -> tuple[LakeTable | None, LakeTable | None]:
        """Return the table and its rejects, as far as they exist.

        Raises BadOrder for plain files.
        """
        if self._lake is None:
            raise BadOrder(f"plain files have no runs of the kind {self._order.kind}")
        tenant, spec = self._order.tenant, self._spec
        return (
            self._lake.find(tenant, spec.table, spec.name),
            self._lake.find(tenant, spec.table + REJECTS_SUFFIX, spec.name),
        )


def has_run(table: Target, number: int) -> list[LanePosition] | None:
    """Return the positions of a table that has this run or a later one; None if it does not."""
    if isinstance(table, PlainFiles):
        manifest = table.manifest(number)
        return None if manifest is None else after(table, manifest.ranges)
    return after(table, []) if table.last_run >= number else None


def after(table: Target, ranges: Sequence[LaneRange]) -> list[LanePosition]:
    """Return the positions of a table; for plain files, those after these ranges."""
    if isinstance(table, PlainFiles):
        return sorted(LanePosition(one.key, one.end) for one in ranges)
    return [LanePosition(key, offset) for key, offset in sorted(table.positions.items())]
