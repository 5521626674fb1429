"""One row of the index, and what the extra bytes of a released run's row say.

A queue has two spaces of numbers: *offsets*, in which appended batches and released runs lie, and
*stage numbers*, in which staged batches lie. Rows of one space never overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from store_nodes.wal.footer import APPENDED, STAGED
from store_nodes.wal.position import Position

OFFSETS = 0
STAGES = 1


class Row(NamedTuple):
    """Numbers `base` … `base + messages - 1` of one space; `flags` and `extra` as in a footer."""

    base: int
    messages: int
    log_time_us: int
    position: Position
    flags: int = APPENDED
    extra: bytes = b""

    @property
    def end(self) -> int:
        return self.base + self.messages


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Extra of a released row: which messages of the staged batch that begins at `stage_base`."""

    stage_base: int
    indices: tuple[int, ...]


def space_of(flags: int) -> int:
    return STAGES if flags == STAGED else OFFSETS


def pack_run(stage_base: int, indices: Sequence[int]) -> bytes:
    return _encoder.encode(Run(stage_base, tuple(indices)))


def unpack_run(extra: bytes) -> Run:
    return _decoder.decode(extra)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Run)
