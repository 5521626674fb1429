"""The state of a log at a start, in three cases that never mix.

*Clean*: zeros follow the last frame to the end of the last segment.

*Torn tail*: in the **last** segment a frame does not verify, and nothing shows that it was ever
synced. So it was never acknowledged; it is cut, and the cut is synced before anything is appended.

*Damaged*: synced bytes do not verify. That is the case in any segment but the last; in the last one
below the highest `synced` mark that a verified frame or the checkpoint carries; and also above that
mark when a verified frame follows and no unwritten sector explains the hole. The pages of one flush
reach the disk in any order, so a power cut can lose one in the middle. But unwritten pages read as
zeros, because segments are preallocated and never reused. Damaged bytes are never cut: the segment
is closed as it is, and `damage.json` keeps the list until the node has repaired it from its peers.
Until then the node must neither promise, vote nor lead.

One case stays open: bit rot inside the very last flush looks like a torn tail when it has a sector
of zeros, or when no verified frame follows. `GroupCommit` therefore marks an idle log, and the
synced end that peers were told counts as synced (docs/GUARANTEES.md, P1, has the bound).
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from store_nodes.wal import frame as frames
from store_nodes.wal.disk import Disk, read_whole, write_atomically
from store_nodes.wal.frame import Frame, FrameKind, Record
from store_nodes.wal.position import Position
from store_nodes.wal.segment import SEGMENT_HEADER_BYTES, SegmentReader, used_bytes

DAMAGE_NAME = "damage.json"
_SECTOR_BYTES = 512
_OWN_KINDS = (FrameKind.FOOTER, FrameKind.SYNC_MARK)


class RecoveryState(enum.Enum):
    """The state found at a start; CLEAN and TORN_TAIL_CUT may turn to DAMAGED while frames are
    read.
    """

    CLEAN = "clean"
    TORN_TAIL_CUT = "torn_tail_cut"
    DAMAGED = "damaged"


class Damage(msgspec.Struct, frozen=True):
    """Bytes [offset, end) of a segment that do not verify, with group and instance if known."""

    segment: int
    offset: int
    end: int
    reason: str
    group: int | None = None
    instance: int | None = None
    repaired: bool = False
    """Whether the node has written the lost records again.

    The entry is kept while the segment exists, so that the hole is not reported again.
    """


class Hole(NamedTuple):
    """A place where frames do not verify; `end` is the next frame that does, or the last non-zero
    byte.

    `head` is the header there, if that verifies and only its payload or its place does not.
    """

    at: int
    end: int
    reason: str
    head: Frame | None
    followed: bool
    """Whether a frame that verifies begins at `end`."""


def walk(
    data: bytes, segment: int, seed: int, at: int = SEGMENT_HEADER_BYTES
) -> Iterator[Frame | Hole]:
    """Yield the frames of a segment and the holes between them, up to the zeros that end it.

    `at` must be where a frame starts. The chain is checked from the frame after it, or from the
    first one of the segment.
    """
    used = used_bytes(data)
    previous = seed if at == SEGMENT_HEADER_BYTES else None
    while at < used:
        found = frames.parse(data, at, segment, seed)
        reason = "header"
        if found is not None:
            if previous is not None and found.previous != previous:
                reason = "chain"
            elif not frames.payload_holds(data, found):
                reason = "payload"
            else:
                yield found
                previous, at = found.crc, found.end
                continue
        start = found.end if found is not None else at + frames.ALIGNMENT
        after = _next_frame(data, start, segment, seed)
        if after is None:
            yield Hole(at, used, reason, found, False)
            return
        yield Hole(at, after.at, reason, found, True)
        previous, at = after.previous, after.at


def _next_frame(data: bytes, start: int, segment: int, seed: int) -> Frame | None:
    at = data.find(frames.MAGIC_BYTES, start)
    while at >= 0:
        if at % frames.ALIGNMENT == 0 and (found := frames.parse(data, at, segment, seed)):
            return found
        at = data.find(frames.MAGIC_BYTES, at + 1)
    return None


class LastSegment(NamedTuple):
    """The content of the last segment.

    The next frame goes to `end`, which is after the cut if `torn`. With damages, `end` is the end
    of the non-zero bytes.
    """

    end: int
    previous: int
    index_rows: bytes
    torn: bool
    damages: list[Damage]


def inspect_last(data: bytes, segment: int, seed: int, known_synced: int) -> LastSegment:
    """Judge the last segment; a checkpoint relies on its bytes below `known_synced`."""
    end, previous, synced = SEGMENT_HEADER_BYTES, seed, known_synced
    whole: list[Frame] = []
    holes: list[Hole] = []
    for found in walk(data, segment, seed):
        if isinstance(found, Hole):
            holes.append(found)
            continue
        synced = max(synced, found.synced)
        if found.kind == FrameKind.FOOTER:
            # A seal did not finish, because a sealed segment ends with a trailer. It starts over.
            holes.append(Hole(found.at, found.end, "footer", None, False))
            continue
        whole.append(found)
        if not holes:
            end, previous = found.end, found.crc
    if end < synced and not holes:
        holes.append(Hole(end, synced, "missing", None, False))
    if not holes:
        return LastSegment(end, previous, _index(whole, end), False, [])
    if end >= synced and not any(_is_rot(data, hole) for hole in holes):
        return LastSegment(end, previous, _index(whole, end), True, [])
    damages = [damage_of(segment, hole) for hole in holes if hole.reason != "footer"]
    if whole:
        end, previous = max(end, whole[-1].end), whole[-1].crc
    end = max(end, used_bytes(data))
    return LastSegment(end, previous, _index(whole, end), False, damages)


def _index(whole: list[Frame], end: int) -> bytes:
    return b"".join(
        frames.index_row(one) for one in whole if one.end <= end and one.kind not in _OWN_KINDS
    )


def _is_rot(data: bytes, hole: Hole) -> bool:
    """Return whether a hole above every mark was once written.

    It was if a frame that verifies follows it and none of its sectors is unwritten.
    """
    if not hole.followed:
        return False
    start = hole.at
    while start < hole.end:
        stop = min(hole.end, (start // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
        if not any(data[start:stop]):
            return False
        start = stop
    return True


def damage_of(segment: int, hole: Hole) -> Damage:
    head = hole.head
    if head is None or head.kind in _OWN_KINDS:
        return Damage(segment, hole.at, hole.end, hole.reason)
    return Damage(segment, hole.at, hole.end, hole.reason, head.group, head.instance)


class Recovery:
    """The findings of a start, and the way to read the log.

    Look at `state` again after `frames`, because a sealed segment's frames are verified only there.
    """

    def __init__(
        self,
        *,
        segments: list[int],
        compacted: tuple[int, ...] = (),
        fresh: bool,
        torn: bool,
        book: DamageList,
        reader: Callable[[int], SegmentReader],
    ) -> None:
        self.segments = segments
        """Every raw segment that exists, oldest first; the last is the one written to."""
        self.compacted = compacted
        self.fresh = fresh
        """Whether the directory was empty, so that this is a new incarnation of the node."""
        self._torn = torn
        self._book = book
        self._reader = reader

    @property
    def damages(self) -> list[Damage]:
        """The damages that are not repaired yet, found by this start or an earlier one."""
        return self._book.open()

    @property
    def state(self) -> RecoveryState:
        if self.damages:
            return RecoveryState.DAMAGED
        return RecoveryState.TORN_TAIL_CUT if self._torn else RecoveryState.CLEAN

    def frames(
        self, from_segment: int = 0, from_offset: int = 0
    ) -> Iterator[tuple[Record, Position]]:
        """Yield every record from a frame boundary on, in the order written; one segment is read at
        a time.

        The boundary is a `log.tail` or a segment's start. Damaged records are left out and
        reported.
        """
        for segment in self.segments:
            if segment < from_segment:
                continue
            at = from_offset if segment == from_segment else 0
            yield from self._segment_frames(segment, max(at, SEGMENT_HEADER_BYTES))

    def _segment_frames(self, segment: int, at: int) -> Iterator[tuple[Record, Position]]:
        try:
            reader = self._reader(segment)
        except FileNotFoundError:
            self._book.add(Damage(segment, 0, 0, "missing"))
            return
        if reader.seed is None:
            self._book.add(Damage(segment, 0, SEGMENT_HEADER_BYTES, "segment header"))
            return
        data = reader.whole()
        for found in walk(data, segment, reader.seed, at):
            if isinstance(found, Hole):
                self._book.add(damage_of(segment, found))
                continue
            if found.kind == FrameKind.FOOTER:
                return
            if found.kind == FrameKind.SYNC_MARK:
                continue
            payload = data[found.payload_at : found.payload_at + found.length]
            kind = frames.kind_of(found)
            yield (
                Record(kind, found.group, found.instance, found.ballot, payload),
                Position(segment, found.payload_at, found.length),
            )


class DamageList:
    """The list of damages in `damage.json`; it may be used from any thread.

    An entry survives restarts until the node has repaired it and its segment is removed.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._all: list[Damage] = self._load()
        self._changing = threading.Lock()

    def open(self) -> list[Damage]:
        """Return the damages that are not repaired yet."""
        return [one for one in self._all if not one.repaired]

    def all(self) -> list[Damage]:
        """Return all damages; the bytes of repaired ones still do not verify."""
        return list(self._all)

    def add(self, *damages: Damage) -> None:
        """Add damages, so that the next start knows of them, durably when this returns; known ones,
        also repaired ones, are not added."""
        with self._changing:
            known = {(one.segment, one.offset) for one in self._all}
            news = [one for one in damages if (one.segment, one.offset) not in known]
            if news:
                self._all = [*self._all, *news]
                self._store()

    def repaired(self, damages: Iterable[Damage] | None = None) -> None:
        """Mark damages at these places, or all, as repaired: peers' copies of the lost records are
        written and synced.
        """
        with self._changing:
            made_good = self.open() if damages is None else damages
            whole = {(one.segment, one.offset) for one in made_good}
            repaired = [
                msgspec.structs.replace(one, repaired=True)
                if (one.segment, one.offset) in whole
                else one
                for one in self._all
            ]
            if repaired != self._all:
                self._all = repaired
                self._store()

    def forget(self, is_gone: Callable[[int], bool]) -> None:
        """Drop repaired damages of segments that are gone, because no start or reader will meet
        them again.
        """
        with self._changing:
            kept = [one for one in self._all if not (one.repaired and is_gone(one.segment))]
            if kept != self._all:
                self._all = kept
                self._store()

    def _load(self) -> list[Damage]:
        raw = read_whole(self._disk, self._directory / DAMAGE_NAME)
        if raw is None:
            return []
        try:
            return msgspec.json.decode(raw, type=list[Damage])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return [Damage(0, 0, 0, "the list of damages")]

    def _store(self) -> None:
        write_atomically(self._disk, self._directory / DAMAGE_NAME, msgspec.json.encode(self._all))
