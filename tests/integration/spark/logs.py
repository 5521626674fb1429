"""Compares a log, as the JSON API shows it, with the rows that Spark read of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from packetboat import Client, Outgoing, StoredMessage
from packetboat.testing.packetboat import Packetboat
from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, int, int, int]
"""Topic, partition, lane and offset."""


def reading(spark: SparkSession, packetboat: Packetboat, **options: object) -> DataFrame:
    """Return a reading of the present messages."""
    reader = spark.read.format("packetboat")
    given = {"url": packetboat.url, "token": packetboat.token} | options
    for name, value in given.items():
        reader = reader.option(name, str(value))
    return reader.load()


def publish(client: Client, topic: str, count: int, **fields: Any) -> None:
    """Publish `count` messages of distinct bodies, keys and attributes, some hundreds at once."""
    for start in range(0, count, 400):
        items = [
            Outgoing(
                data={"n": n, "topic": topic}, key=f"k{n % 17}", attributes={"n": str(n)}, **fields
            )
            for n in range(start, min(start + 400, count))
        ]
        client.publish_batch(topic, items)


def log_of(client: Client, topic: str, partitions: int, lanes: int = 1) -> dict[Place, str]:
    """Return a digest of each message, in the order of places."""
    return {
        (topic, partition, lane, message.offset or 0): _digest_of(message)
        for partition in range(partitions)
        for lane in range(lanes)
        for message in client.messages.replay(topic, partition, lane=lane)
    }


def rows_of(rows: Iterable[Any]) -> dict[Place, str]:
    """Return the same digests of rows of Spark. No place occurs twice."""
    found: dict[Place, str] = {}
    for row in rows:
        place = (row.topic, row.partition, row.lane, row.offset)
        assert place not in found, place
        found[place] = digest(
            row.message_id, row.key, sorted(row.attributes.items()), bytes(row.data)
        )
    return found


def in_order(places: Sequence[Place]) -> bool:
    """Return whether each lane has its offsets in order."""
    lanes: dict[tuple[str, int, int], list[int]] = {}
    for *lane, offset in places:
        lanes.setdefault(tuple(lane), []).append(offset)  # type: ignore[arg-type]
    return all(offsets == sorted(offsets) for offsets in lanes.values())


def _digest_of(message: StoredMessage) -> str:
    attributes = sorted((message.attributes or {}).items())
    return digest(message.message_id, message.key, attributes, message.body)


def digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()
