"""Reads an export's tables for tests."""

from __future__ import annotations

from typing import Any

from packetboat.models.export_runs import ExportSpec

from spark_exports.driver.targets import REJECTS_SUFFIX
from spark_exports.lake.lake import Lake
from spark_exports.order import LakeSettings

TENANT = "acme"


def rows(lake: LakeSettings, spec: ExportSpec, suffix: str = "") -> list[dict[str, Any]]:
    """Return the rows of the table, in the order of the log."""
    with Lake(lake) as open_lake:
        table = open_lake.find(TENANT, spec.table + suffix, spec.name)
        assert table is not None
        found: list[dict[str, Any]] = table.iceberg.scan().to_arrow().to_pylist()
    return sorted(found, key=place)


def rejects(lake: LakeSettings, spec: ExportSpec) -> list[dict[str, Any]]:
    return rows(lake, spec, REJECTS_SUFFIX)


def place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def files(lake: LakeSettings, spec: ExportSpec, suffix: str = "") -> set[str]:
    """Return the locations of the data files that the table names."""
    with Lake(lake) as open_lake:
        table = open_lake.find(TENANT, spec.table + suffix, spec.name)
        assert table is not None
        return {task.file.file_path for task in table.iceberg.scan().plan_files()}
