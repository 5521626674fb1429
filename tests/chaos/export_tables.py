"""The check that tables have the log's messages: each once, in the table or among its rejects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packetboat import Client
from packetboat.models import StoredMessage
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from spark_exports.lake.catalog import close_catalog, open_catalog
from spark_exports.lake.live import data_locations
from spark_exports.lake.storage import LakeFileIO, list_files
from spark_exports.runner.lakes import lakes_in

MOST_NAMED = 5
ENVELOPE = frozenset(
    (
        *("topic", "message_id", "partition", "lane", "offset", "publish_time", "key"),
        *("attributes", "content_type", "publisher_id", "priority", "traceparent", "data"),
        "rescued",
    )
)
Place = tuple[int, int, int]
"""Partition, lane and offset."""


def problems_of(
    url: str, token: str, lakes: Path, topic: str, lanes: Iterable[int], tenant: str = "dev"
) -> list[str]:
    """Return all faults of an export that has the topic's name, in words."""
    (lake,) = lakes_in(lakes).values()
    catalog = open_catalog(lake)
    try:
        table = catalog.load_table(f"{tenant}.{topic}")
        rejects = _if_there(catalog, f"{tenant}.{topic}_rejects")
        with Client(url, token) as client:
            log = _log_of(client, topic, lanes)
            export = client.exports.get(topic)
        rows, rejected = _rows_of(table), _rows_of(rejects) if rejects is not None else []
        found = [*_of_places(log, rows, rejected), *_of_bodies(log, rows)]
        for counted, there, what in (
            (export.rows, len(rows), "rows"),
            (export.rejected, len(rejected), "rejected"),
        ):
            if counted != there:
                found.append(f"the export counts {counted} {what}, its tables have {there}")
        for one in (table, rejects):
            if one is not None:
                found += _orphans_of(one)
        return found
    finally:
        close_catalog(catalog)


def _log_of(client: Client, topic: str, lanes: Iterable[int]) -> dict[Place, StoredMessage]:
    return {
        (partition, lane, one.offset or 0): one
        for partition in range(client.topics.get(topic).partitions)
        for lane in lanes
        for one in client.messages.replay(topic, partition, lane=lane)
    }


def _if_there(catalog: Catalog, name: str) -> Table | None:
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None


def _rows_of(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


def _place(row: dict[str, Any]) -> Place:
    return row["partition"], row["lane"], row["offset"]


def _of_places(
    log: dict[Place, StoredMessage], rows: list[dict[str, Any]], rejected: list[dict[str, Any]]
) -> list[str]:
    counts = Counter(map(_place, rows)) + Counter(map(_place, rejected))
    twice = sorted(place for place, count in counts.items() if count > 1)
    wrong = {
        "are there more than once": twice,
        "are missing": sorted(log.keys() - counts.keys()),
        "are in no log": sorted(counts.keys() - log.keys()),
    }
    return [f"{len(found)} {what}: {found[:MOST_NAMED]}" for what, found in wrong.items() if found]


def _of_bodies(log: dict[Place, StoredMessage], rows: list[dict[str, Any]]) -> list[str]:
    wrong = []
    for row in rows:
        stored = log.get(_place(row))
        if stored is None:
            continue
        had = (stored.message_id, stored.key, stored.publish_time, _value(stored.body))
        body = row["rescued"] or json.dumps(
            {name: value for name, value in row.items() if name not in ENVELOPE}
        )
        has = (row["message_id"], row["key"], row["publish_time"], _value(body))
        if had != has:
            wrong.append(f"{_place(row)}: {had} became {has}")
    return [f"{len(wrong)} rows differ: {wrong[:MOST_NAMED]}"] if wrong else []


def _value(text: str | bytes) -> Any:
    """Null and absent are one, and so are 1 and 1.0: columns do not tell them apart."""
    return _plain(json.loads(text))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _orphans_of(table: Table) -> list[str]:
    named = data_locations(table)
    listed = list_files(LakeFileIO(table.io.properties), f"{table.location()}/data")
    left = sorted({file.location for file in listed} - named)
    return [f"{len(left)} files of {table.name()} are left over: {left[:MOST_NAMED]}"] * bool(left)
