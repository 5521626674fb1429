"""Where an export's rows go: a table of the lake, and one for its rejects."""

from __future__ import annotations

import pyarrow as pa

from spark_exports.driver.bodies.columns import with_pinned
from spark_exports.driver.rejects import Rejects
from spark_exports.driver.rows import REJECTS, base_columns
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.table import LakeTable
from spark_exports.order import Order

REJECTS_SUFFIX = "_rejects"


class Targets:
    """The tables of one export. Any method may raise LakeError."""

    def __init__(self, lake: Lake, order: Order) -> None:
        self._lake = lake
        self._order = order

    def table(self) -> LakeTable:
        """Made when it is missing."""
        spec = self._order.export
        columns = base_columns(spec.body)
        if spec.body != "raw":
            columns = pa.schema([*columns, *with_pinned(pa.schema([]), spec.columns)])
        return self._lake.open(
            self._order.tenant,
            spec.table,
            columns,
            Layout(spec.partition_by, spec.key_buckets),
            spec.name,
        )

    def rejects(self) -> Rejects | None:
        """Made when it is missing; None: nothing can be rejected."""
        spec = self._order.export
        if spec.body == "raw":
            return None
        layout = Layout(spec.partition_by)
        name = spec.table + REJECTS_SUFFIX
        return Rejects(self._lake.open(self._order.tenant, name, REJECTS, layout, spec.name))

    def find(self) -> tuple[LakeTable | None, LakeTable | None]:
        """The table and its rejects, where they are there."""
        spec, tenant = self._order.export, self._order.tenant
        return (
            self._lake.find(tenant, spec.table, spec.name),
            self._lake.find(tenant, spec.table + REJECTS_SUFFIX, spec.name),
        )
