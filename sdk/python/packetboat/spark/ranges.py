"""The offsets to read: ranges of lanes, and the splits that tasks get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec
from pyspark.sql.datasource import InputPartition

from packetboat.spark.errors import InvalidOption


@dataclass(frozen=True, order=True, slots=True)
class Lane:
    """A lane of a partition: a sequence of offsets. A topic without priorities has lane 0 alone."""

    topic: str
    partition: int
    lane: int = 0

    def __str__(self) -> str:
        lane = f", lane {self.lane}" if self.lane else ""
        return f"topic {self.topic}, partition {self.partition}{lane}"


@dataclass(frozen=True, order=True)
class Split(InputPartition):
    """The offsets `start` … `end` − 1 of a lane: what one task reads.

    With `topic_uid` a namesake of the topic that was made after its deletion is refused.
    `from_first`: what of it was truncated before anyone could read it is left out. `concurrent`:
    how many are read at once, and share what the whole may take.
    """

    lane: Lane
    start: int
    end: int
    topic_uid: str | None = None
    from_first: bool = False
    concurrent: int = 1


class _Key(msgspec.Struct):
    topic: str
    topic_uid: str
    partition: int
    lane: int


class _Range(msgspec.Struct):
    key: _Key
    start: int
    end: int


def read_ranges(text: str) -> list[Split]:
    """Return the splits of the option `ranges`. Raises InvalidOption."""
    try:
        found = msgspec.json.decode(text, type=list[_Range])
    except msgspec.MsgspecError as error:
        raise InvalidOption(f"ranges is no list of ranges: {error}") from error
    return [
        Split(
            Lane(each.key.topic, each.key.partition, each.key.lane),
            each.start,
            each.end,
            each.key.topic_uid or None,
        )
        for each in found
    ]


def cut(splits: Iterable[Split], rows: int, parallelism: int | None) -> list[Split]:
    """Cut splits to at most `rows` each, in the same order; empty ones are left out.

    `concurrent` of each is their number, or `parallelism` if that is less.
    """
    pieces = [piece for split in splits for piece in _pieces(split, rows)]
    concurrent = min(len(pieces), parallelism or len(pieces))
    return [replace(piece, concurrent=concurrent) for piece in pieces]


def _pieces(split: Split, rows: int) -> Iterator[Split]:
    for start in range(split.start, split.end, rows):
        yield replace(split, start=start, end=min(start + rows, split.end))


def within(split: Split, low: int, high: int) -> Split:
    """Return the part of a split in `low` … `high` − 1; it may be empty."""
    start = max(split.start, low)
    return replace(split, start=start, end=max(start, min(split.end, high)))
