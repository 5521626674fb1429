"""Where a payload lies in the write-ahead log."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """`length` payload bytes at byte `offset` of segment `segment`; never reused."""

    segment: int
    offset: int
    length: int
