"""The place of a payload in the write-ahead log."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """The place of `length` payload bytes at byte `offset` of segment `segment`; it is never
    reused.
    """

    segment: int
    offset: int
    length: int
