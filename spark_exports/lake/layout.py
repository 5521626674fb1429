"""The partitioning of a table: by time of publish, by key, by both or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
from packetboat.models.exports import ExportPartitionBy
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, Transform

DAY = "publish_day"
HOUR = "publish_hour"
BUCKET = "key_bucket"
RESERVED_NAMES = frozenset({DAY, HOUR, BUCKET})
"""Names of partition fields, which no column of a table may have."""


class Layout(msgspec.Struct, frozen=True):
    """A partitioning; `key_buckets` 0 means not by key.

    Messages without a key have their own partition.
    """

    partition_by: ExportPartitionBy
    key_buckets: int = 0

    def spec(self, schema: Schema) -> PartitionSpec:
        """Return Iceberg's partition spec over a table's columns."""
        parts: list[tuple[str, str, Transform[Any, Any]]] = []
        if self.partition_by == "day":
            parts.append((DAY, "publish_time", DayTransform()))
        elif self.partition_by == "hour":
            parts.append((HOUR, "publish_time", HourTransform()))
        if self.key_buckets:
            parts.append((BUCKET, "key", BucketTransform(num_buckets=self.key_buckets)))
        return PartitionSpec(
            *(
                PartitionField(
                    source_id=schema.find_field(source).field_id,
                    field_id=PARTITION_FIELD_ID_START + number,
                    transform=transform,
                    name=name,
                )
                for number, (name, source, transform) in enumerate(parts)
            )
        )

    def is_of(self, spec: PartitionSpec, schema: Schema) -> bool:
        """Return whether a table has this layout."""
        return self.spec(schema).compatible_with(spec)
