"""Reads sealed segments back, a piece at a time, to check that every frame still verifies."""

from __future__ import annotations

from typing import NamedTuple

from store_nodes.wal import frame as frames
from store_nodes.wal.footer import TRAILER_BYTES, decode_trailer
from store_nodes.wal.frame import Frame, FrameKind
from store_nodes.wal.recovery import Damage, Hole, damage_of, walk
from store_nodes.wal.segment import SEGMENT_HEADER_BYTES, SegmentReader


class FramePosition(NamedTuple):
    """A frame's start, and the header CRC of the frame before it, None if that is unknown."""

    at: int
    previous: int | None


class Piece(NamedTuple):
    """The result of reading a piece; reading continues at `after`, None at the segment's end."""

    after: FramePosition | None
    read_bytes: int
    damages: list[Damage]


def verify(reader: SegmentReader, place: FramePosition | None, budget_bytes: int) -> Piece:
    """Verify about `budget_bytes` of a sealed segment's frames, from `place` (None: its start)
    on.
    """
    segment, seed = reader.segment, reader.seed
    if seed is None:
        return Piece(None, 0, [Damage(segment, 0, SEGMENT_HEADER_BYTES, "segment header")])
    place = place or FramePosition(SEGMENT_HEADER_BYTES, seed)
    data = reader.raw(place.at, budget_bytes)
    done, previous = 0, place.previous
    while (found := _sound(data, done, segment, seed, previous)) is not None:
        done, previous = found.end, found.crc
        if found.kind == FrameKind.FOOTER:
            return Piece(None, done, _end_damages(reader, seed))
    if done:
        return Piece(FramePosition(place.at + done, previous), len(data), [])
    return _look_closer(reader, seed, place)


def _sound(data: bytes, at: int, segment: int, seed: int, previous: int | None) -> Frame | None:
    found = frames.parse(data, at, segment, seed)
    if found is None or (previous is not None and found.previous != previous):
        return None
    return found if frames.payload_holds(data, found) else None


def _end_damages(reader: SegmentReader, seed: int) -> list[Damage]:
    size = reader.size()
    trailer = decode_trailer(reader.raw(size - TRAILER_BYTES, TRAILER_BYTES), reader.segment, seed)
    return [Damage(reader.segment, size, size, "footer")] if trailer is None else []


def _look_closer(reader: SegmentReader, seed: int, place: FramePosition) -> Piece:
    """Read the rest of the segment, because the frame here is damaged or larger than a piece."""
    segment = reader.segment
    rest = reader.raw(place.at, reader.size() - place.at)
    found = _sound(rest, 0, segment, seed, place.previous)
    if found is not None:
        if found.kind == FrameKind.FOOTER:
            return Piece(None, len(rest), _end_damages(reader, seed))
        return Piece(FramePosition(place.at + found.end, found.crc), found.end, [])
    misplaced = _sound(rest, 0, segment, seed, None)
    if misplaced is not None:
        end = place.at + misplaced.end
        return Piece(
            FramePosition(end, None), misplaced.end, [Damage(segment, place.at, end, "chain")]
        )
    hole = next(walk(rest, segment, seed, 0), None)
    if not isinstance(hole, Hole):
        end = reader.size()
        return Piece(None, len(rest), [Damage(segment, place.at, end, "missing: frames")])
    damage = damage_of(segment, hole._replace(at=place.at, end=place.at + hole.end))
    after = FramePosition(place.at + hole.end, None) if hole.followed else None
    return Piece(after, len(rest), [damage])
