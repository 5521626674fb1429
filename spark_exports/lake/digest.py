"""Tallies by which a log and a table are compared.

A tally has, for each topic and hour of publish time, the number of rows and a digest that does not
depend on their order.

A row's hash (BLAKE2b, 128 bits) is over `COLUMNS`: the identity of a message and all that was
published with it but the body, which a table may hold as columns. Null differs from empty, except
for attributes, where both mean none. The digest of an hour is the sum of its rows' hashes modulo
2^128, so a row that is there twice changes it, and tallies of parts add up to that of the whole: of
splits of a log, or of a table and its rejects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = (
    "topic",
    "message_id",
    "partition",
    "lane",
    "offset",
    "publish_time",
    "key",
    "attributes",
    "content_type",
)
TALLY = pa.schema(
    [("topic", pa.string()), ("hour_s", pa.int64()), ("rows", pa.int64()), ("digest", pa.binary())]
)
"""The columns of a tally as a batch, in which workers return it."""

_HASH_BYTES = 16
_MODULUS = 1 << (8 * _HASH_BYTES)
_HOUR_US = 3_600_000_000


class Hour(msgspec.Struct, frozen=True, order=True):
    """An hour of a topic; it begins at `hour_s`, in seconds of the epoch."""

    topic: str
    hour_s: int


class HourTally(msgspec.Struct, frozen=True):
    rows: int
    digest: int

    def __add__(self, other: HourTally) -> HourTally:
        return HourTally(self.rows + other.rows, (self.digest + other.digest) % _MODULUS)

    @property
    def text(self) -> str:
        """The digest in hexadecimal."""
        return f"{self.digest:0{2 * _HASH_BYTES}x}"


class Tally:
    """The counts and digests of hours, equal to another tally if the rows are the same."""

    def __init__(self) -> None:
        self.hours: dict[Hour, HourTally] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.hours == other.hours

    __hash__ = None  # type: ignore[assignment]

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, which have at least `COLUMNS`."""
        hours = _hours(rows.column("publish_time")).to_pylist()
        topics = rows.column("topic").to_pylist()
        sums: dict[tuple[str, int], list[int]] = {}
        for where, text in zip(zip(topics, hours, strict=True), _texts(rows), strict=True):
            found = sums.setdefault(where, [0, 0])
            found[0] += 1
            found[1] += int.from_bytes(blake2b(text, digest_size=_HASH_BYTES).digest())
        for (topic, hour_s), (count, total) in sums.items():
            self._add(Hour(topic, hour_s), HourTally(count, total % _MODULUS))

    def merge(self, other: Tally) -> None:
        for hour, tally in other.hours.items():
            self._add(hour, tally)

    def to_batch(self) -> pa.RecordBatch:
        """Return the tally as a batch with the columns of `TALLY`."""
        return pa.RecordBatch.from_pylist(
            [
                {
                    "topic": hour.topic,
                    "hour_s": hour.hour_s,
                    "rows": tally.rows,
                    "digest": tally.digest.to_bytes(_HASH_BYTES),
                }
                for hour, tally in sorted(self.hours.items())
            ],
            schema=TALLY,
        )

    @classmethod
    def of_batches(cls, batches: Iterable[pa.RecordBatch]) -> Self:
        """Return the sum of tallies that are batches."""
        tally = cls()
        for batch in batches:
            for row in batch.to_pylist():
                tally._add(
                    Hour(row["topic"], row["hour_s"]),
                    HourTally(row["rows"], int.from_bytes(row["digest"])),
                )
        return tally

    def _add(self, hour: Hour, tally: HourTally) -> None:
        before = self.hours.get(hour)
        self.hours[hour] = tally if before is None else before + tally


def _hours(times: pa.Array) -> pa.Array:
    micros = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    quotient = pc.divide(micros, _HOUR_US)
    below = pc.less(pc.subtract(micros, pc.multiply(quotient, _HOUR_US)), 0)
    return pc.multiply(pc.subtract(quotient, below.cast(pa.int64())), _HOUR_US // 1_000_000)


def _texts(rows: pa.RecordBatch) -> list[bytes]:
    """Return bytes for each row that differ from those of every other row: each value after its
    length.
    """
    times = rows.column("publish_time").cast(pa.timestamp("us", tz="UTC"))
    parts = [
        _counted(rows.column("topic")),
        _counted(rows.column("message_id")),
        rows.column("partition").cast(pa.string()),
        rows.column("lane").cast(pa.string()),
        rows.column("offset").cast(pa.string()),
        times.cast(pa.int64()).cast(pa.string()),
        _counted(rows.column("key")),
        _attributes(rows.column("attributes")),
        _counted(rows.column("content_type")),
    ]
    joined = pc.binary_join_element_wise(*parts, "|")
    texts: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return texts


def _counted(values: pa.Array) -> pa.Array:
    text = values.cast(pa.string())
    length = pc.binary_length(text).cast(pa.string())
    return pc.binary_join_element_wise(length, text, ":").fill_null("-")


def _attributes(maps: pa.Array) -> pa.Array:
    if maps.offsets[0] == maps.offsets[-1]:
        return pa.repeat(pa.scalar(""), len(maps))
    return pa.array(
        [json.dumps(sorted(entries)) if entries else "" for entries in maps.to_pylist()],
        pa.string(),
    )
