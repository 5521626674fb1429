"""Parts of extents: the rest of one without some numbers, and counting bytes backwards."""

from __future__ import annotations

from store_nodes.storage.pages import Pages
from store_nodes.storage.sidecar import PAGE_ROWS
from store_nodes.storage.space import Extent, Space


def outside(pages: Pages | None, extent: Extent, others: list[Extent]) -> list[Extent]:
    """Return the rest of an extent without the numbers of `others` (ascending)."""
    pieces: list[Extent] = []
    at = extent.first
    for other in others:
        if other.first > at:
            pieces += cut(pages, extent, at, min(other.first, extent.end))
        at = max(at, other.end)
    if at < extent.end:
        pieces += cut(pages, extent, at, extent.end)
    return pieces


def cut(pages: Pages | None, extent: Extent, first: int, end: int) -> list[Extent]:
    """Return the rows of an extent that are in [first, end)."""
    if first == extent.first and end == extent.end:
        return [extent]
    assert pages is not None
    stop = extent.row_start + extent.rows
    start = pages.find(extent.segment, extent.row_start, stop, first)
    stop = pages.find(extent.segment, start, stop, end)
    rows = [row for row in pages.rows(extent.segment, start, stop) if row.base >= first]
    if not rows:
        return []
    start = stop - len(rows)
    size = sum(row.position.length for row in rows)
    shares = sum(row.position.length for row in rows if row.extra)
    first, end, last_us = rows[0].base, rows[-1].end, rows[-1].log_time_us
    return [Extent(first, end, extent.segment, start, len(rows), size, shares, last_us)]


def offset_back(pages: Pages | None, space: Space, first: int, end: int, max_bytes: int) -> int:
    """Return the offset of `BatchIndex.offset_back`; nothing below `first` counts."""
    tail = space.tail
    index = min(space.find(end - 1), len(space) - 1)
    at = min(tail.find(end - 1), len(tail) - 1) if tail is not None else -1
    offset = end
    while (index >= 0 or at >= 0) and offset > first:
        extent = space.extent(index) if index >= 0 else None
        if tail is not None and at >= 0 and (extent is None or tail.bases[at] > extent.first):
            base, size = tail.bases[at], tail.lengths[at]
            at -= 1
        elif extent is not None and extent.end <= end and extent.bytes <= max_bytes:
            base, size = extent.first, extent.bytes
            index -= 1
        elif extent is not None:
            return _back_in(pages, extent, end, max_bytes, offset)
        if base < end:
            max_bytes -= size
            if max_bytes < 0:
                break
            offset = base
    return offset


def _back_in(pages: Pages | None, extent: Extent, end: int, max_bytes: int, offset: int) -> int:
    """Continue `offset_back` from `offset` on in this extent, which does not fit as a whole."""
    assert pages is not None
    stop = extent.row_start + extent.rows
    while stop > extent.row_start:
        start = max(extent.row_start, stop - PAGE_ROWS)
        for row in reversed(list(pages.rows(extent.segment, start, stop))):
            if row.base < end:
                max_bytes -= row.position.length
                if max_bytes < 0:
                    return offset
                offset = row.base
        stop = start
    return offset
