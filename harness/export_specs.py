"""Exports for tests of runners and drivers: those of an API client who asks for the defaults."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from packetboat.models.export_runs import ExportSpec, SpecMaintenance

from openapi.exports import ExportMaintenance

_DEFAULTS = ExportMaintenance()


def maintenance(**given: int) -> SpecMaintenance:
    """Return the rules of a run that maintains, with the API's defaults for others."""
    rules = SpecMaintenance(
        _DEFAULTS.target_file_bytes,
        _DEFAULTS.keep_snapshots_seconds,
        _DEFAULTS.orphans_after_seconds,
    )
    return replace(rules, **given)


def spec_of(name: str, topic: str, table: str, **given: Any) -> ExportSpec:
    """Return an export as a run of it needs it, with the API's defaults for other fields."""
    spec = ExportSpec(
        name=name,
        topic=topic,
        lake="default",
        table=table,
        format="iceberg",
        body="json",
        partition_by="day",
        key_buckets=0,
        columns={},
        keep_data=False,
        filter=None,
        max_bytes_per_second=None,
        maintenance=maintenance(),
    )
    return replace(spec, **given)
