"""Rows of a log and of a table in a form that can be compared; each reader reads tables by
its own means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from packetboat import Client


class Row(NamedTuple):
    """A message. `body` is canonical JSON, or what it was where it is none."""

    topic: str
    partition: int
    lane: int
    offset: int
    message_id: str
    publish_time: datetime
    key: str | None
    attributes: tuple[tuple[str, str], ...]
    body: str


def log_rows(client: Client, topic: str, lanes: Sequence[int] = (0,)) -> list[Row]:
    """Return all stored messages, in the order of partitions, lanes and offsets."""
    found = []
    for partition in range(client.topics.get(topic).partitions):
        for lane in lanes:
            for one in client.messages.replay(topic, partition, lane=lane or None):
                assert one.offset is not None
                assert one.publish_time is not None
                found.append(
                    Row(
                        topic,
                        partition,
                        lane,
                        one.offset,
                        one.message_id,
                        one.publish_time.astimezone(UTC),
                        one.key,
                        tuple(sorted(one.attributes.items())),
                        canonical(one.body),
                    )
                )
    return found


def canonical(body: bytes) -> str:
    """Return one text for one JSON value."""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except ValueError:
        return body.decode(errors="replace")


def table_rows(metadata_location: str, body_columns: Iterable[str]) -> list[Row]:
    """Read the table with PyIceberg, as a program does that knows only the metadata file."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata_location).scan().to_arrow()
    return rows_of(table.to_pylist(), body_columns)


def duckdb_rows(metadata_location: str, body_columns: Iterable[str]) -> list[Row]:
    """Read the table with DuckDB."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata_location)
    found = table.scan().to_duckdb("messages").sql("SELECT * FROM messages").to_arrow_table()
    return rows_of(found.to_pylist(), body_columns)


def spark_rows(spark: Any, metadata_location: str, body_columns: Iterable[str]) -> list[Row]:
    """Read the files that the snapshot names with PySpark."""
    from pyiceberg.table import StaticTable

    tasks = StaticTable.from_metadata(metadata_location).scan().plan_files()
    files = [task.file.file_path for task in tasks]
    read = spark.read.option("mergeSchema", "true").parquet(*files)
    return rows_of([row.asDict(recursive=True) for row in read.collect()], body_columns)


def rows_of(found: Iterable[dict[str, Any]], body_columns: Iterable[str]) -> list[Row]:
    """Return sorted rows.

    The body is put together from its columns; a field that is null is left out.
    """
    columns = list(body_columns)
    rows = []
    for one in found:
        attributes = one["attributes"] or ()
        pairs = attributes.items() if isinstance(attributes, dict) else attributes
        rescued = one.get("rescued")
        body = {name: one[name] for name in columns if one.get(name) is not None}
        when = one["publish_time"]
        rows.append(
            Row(
                one["topic"],
                one["partition"],
                one["lane"],
                one["offset"],
                one["message_id"],
                (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC),
                one["key"],
                tuple(sorted(pairs)),
                canonical(rescued.encode()) if rescued else json.dumps(body, sort_keys=True),
            )
        )
    return sorted(rows)


def digest(rows: Iterable[Row]) -> str:
    """Return a digest of all rows, in their order."""
    sha = hashlib.sha256()
    for row in rows:
        sha.update(repr(row).encode())
    return sha.hexdigest()
