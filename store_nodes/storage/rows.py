"""Defines one row of the index, and the extra bytes of a released run's row.

A queue has two spaces of numbers: *offsets*, for appended batches and released runs, and *stage
numbers*, for staged batches. Rows of one space never overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from store_nodes.wal.footer import APPENDED, RELEASED, STAGED, BatchEntry
from store_nodes.wal.position import Position

OFFSETS = 0
STAGES = 1


class Row(NamedTuple):
    """Numbers `base` … `base + messages - 1` of one space.

    A released run has `extra`. Its position is only a former place of its staged batch, which may
    have moved since; its length is the run's share of that batch.
    """

    base: int
    messages: int
    log_time_us: int
    position: Position
    extra: bytes = b""

    @property
    def end(self) -> int:
        """The number after the last one of the row."""
        return self.base + self.messages


class Run(msgspec.Struct, frozen=True, array_like=True):
    """The extra of a released row: the messages of a staged batch, and their share of its bytes.

    The messages are at `indices` of the batch that begins at `stage_base`.
    """

    stage_base: int
    indices: tuple[int, ...]
    share_bytes: int = 0


def space_of(flags: int) -> int:
    return STAGES if flags == STAGED else OFFSETS


def row_of(entry: BatchEntry) -> Row:
    """Return a footer's entry as a row."""
    _, base, messages, log_time_us, position, flags, extra = entry
    if flags != RELEASED:
        return Row(base, messages, log_time_us, position)
    share = unpack_run(extra).share_bytes
    return Row(base, messages, log_time_us, position._replace(length=share), extra)


def entry_of(queue: bytes, space: int, row: Row) -> BatchEntry:
    """Return a row as a footer's entry; the position of a released run has the length of its
    share.
    """
    flags = STAGED if space == STAGES else RELEASED if row.extra else APPENDED
    return BatchEntry(
        queue, row.base, row.messages, row.log_time_us, row.position, flags, row.extra
    )


def pack_run(stage_base: int, indices: Sequence[int], share_bytes: int = 0) -> bytes:
    return _encoder.encode(Run(stage_base, tuple(indices), share_bytes))


def unpack_run(extra: bytes) -> Run:
    return _decoder.decode(extra)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Run)
