"""A log in memory, that Spark reads as it reads the platform's: a partition for each slice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from packetboat.models.export_runs import LaneKey, LaneRange
from pyspark.sql import DataFrame, SparkSession

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.lake.envelope import ENVELOPE

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (
    "topic string, message_id string, partition int, lane int, offset long,"
    " publish_time timestamp, key string, attributes map<string,string>, content_type string,"
    " publisher_id string, priority int, traceparent string, data binary"
)
BATCH = 7


@dataclass
class Log:
    """Messages of lanes, by offset; also a Platform. `reads`: the slices that were asked for."""

    lanes: dict[LaneKey, list[dict[str, Any]]] = field(default_factory=dict)
    reads: list[list[LaneRange]] = field(default_factory=list)
    hidden: int = 0
    """Messages of each slice that do not come, as if a filter had them."""
    first: int = 0
    """The first offset of each lane that is still there."""
    versions: list[AvroVersion] = field(default_factory=list)

    def publish(
        self,
        body: object,
        *,
        partition: int = 0,
        topic: str = "orders",
        content_type: str | None = "application/json",
        minutes: int = 0,
        attributes: dict[str, str] | None = None,
    ) -> None:
        """`bytes` are a body as it is, all else is JSON."""
        lane = self.lanes.setdefault(LaneKey(topic, "uid-" + topic, partition, 0), [])
        lane.append(
            {
                "topic": topic,
                "message_id": f"{topic}-{partition}-{len(lane)}",
                "partition": partition,
                "lane": 0,
                "offset": len(lane),
                "publish_time": BEGINS + timedelta(minutes=minutes, microseconds=len(lane)),
                "key": f"key-{len(lane) % 5}",
                "attributes": list((attributes or {}).items()),
                "content_type": content_type,
                "publisher_id": None,
                "priority": 0,
                "traceparent": None,
                "data": body if isinstance(body, bytes) else json.dumps(body).encode(),
            }
        )

    @property
    def ends(self) -> dict[LaneKey, int]:
        return {key: len(messages) for key, messages in self.lanes.items()}

    def all(self) -> list[dict[str, Any]]:
        return [message for _, lane in sorted(self.lanes.items()) for message in lane]

    def messages(self, spark: SparkSession, slices: Sequence[LaneRange]) -> DataFrame:
        end = len(slices)
        parts = self._parts(slices)
        return spark.range(0, end, 1, end).mapInArrow(partial(_batches, parts), COLUMNS)

    def batches(self, slices: Sequence[LaneRange]) -> list[list[pa.RecordBatch]]:
        """Return the batches of the slices without Spark."""
        return [list(_part(part)) for part in self._parts(slices)]

    def _parts(self, slices: Sequence[LaneRange]) -> list[list[dict[str, Any]]]:
        self.reads.append(list(slices))
        return [self.lanes[one.key][one.start : one.end - self.hidden] for one in slices]

    def avro_versions(self, topics: Iterable[str]) -> dict[str, list[AvroVersion]]:
        return {topic: self.versions for topic in topics}

    def first_offsets(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        return {key: self.first for key in keys}


def _batches(
    parts: list[list[dict[str, Any]]], indexes: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for numbers in indexes:
        for number in numbers.column(0).to_pylist():
            yield from _part(parts[number])


def _part(part: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(part), BATCH):
        yield pa.RecordBatch.from_pylist(part[start : start + BATCH], schema=ENVELOPE)
