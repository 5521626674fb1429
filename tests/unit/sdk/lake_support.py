"""Small Iceberg tables, as exports write them: in a directory, by a catalog in SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

TOPIC = "orders"
UID = "1" * 32
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ENVELOPE = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("message_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("lane", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("publish_time", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.string()),
        pa.field("attributes", pa.map_(pa.string(), pa.string())),
        pa.field("content_type", pa.string()),
        pa.field("publisher_id", pa.string()),
        pa.field("priority", pa.int32()),
        pa.field("traceparent", pa.string()),
        pa.field("data", pa.binary()),
    ]
)
RESCUED = pa.field("rescued", pa.string())
Lane = tuple[int, int]


def published(offset: int) -> datetime:
    """Return the publish time of an offset: each message is published a second after the
    one before.
    """
    return BEGIN + timedelta(seconds=offset)


def row(offset: int, partition: int = 0, lane: int = 0, **more: Any) -> dict[str, Any]:
    """Return the envelope columns of a message."""
    return {
        "topic": TOPIC,
        "message_id": f"{partition}-{lane}-{offset}",
        "partition": partition,
        "lane": lane,
        "offset": offset,
        "publish_time": published(offset),
        "key": f"k{offset}",
        "attributes": [("a", "b")],
        "content_type": "application/json",
        "publisher_id": "p",
        "priority": lane,
        "traceparent": None,
        "data": None,
    } | more


@dataclass
class LakeTable:
    """A table that can be appended to; its positions move with what is appended."""

    table: Table
    positions: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def append(self, rows: Sequence[Mapping[str, Any]], uid: str = UID) -> None:
        for each in rows:
            lane = uid, each["partition"], each["lane"]
            self.positions[lane] = max(self.positions.get(lane, 0), each["offset"] + 1)
        listed = [
            [TOPIC, uid, partition, lane, offset]
            for (uid, partition, lane), offset in sorted(self.positions.items())
        ]
        data = pa.Table.from_pylist([dict(each) for each in rows], self.table.schema().as_arrow())
        with self.table.transaction() as transaction:
            transaction.append(data)
            transaction.set_properties({"packetboat.positions": json.dumps(listed)})

    @property
    def state(self) -> dict[str, Any]:
        """Return the state as the API shows it."""
        snapshot = self.table.current_snapshot()
        return {
            "identifier": ".".join(self.table.name()),
            "location": self.table.location(),
            "metadata_location": self.table.metadata_location,
            "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        }


class Lake:
    """A catalog, and the tables that were made in it."""

    def __init__(self, directory: Path) -> None:
        self._catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}"
        )
        self._catalog.create_namespace("dev")

    def table(self, name: str, *columns: pa.Field) -> LakeTable:
        """Make a table with these columns behind those of the envelope."""
        schema = pa.schema([*ENVELOPE, *columns])
        return LakeTable(self._catalog.create_table(("dev", name), schema))

    def close(self) -> None:
        self._catalog.close()
