"""Where a payload lies in the write-ahead log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """`length` payload bytes at byte `offset` of segment `segment`; never reused."""

    segment: int
    offset: int
    length: int
