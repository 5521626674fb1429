"""The staged messages of one queue: numbered from 0 without a gap, in packed chunks.

    staged → offset (released) → truncated        staged → discarded

* A release costs two binary searches and an append, however many messages are staged.
* A released message is found again by its number until its offset is truncated, so that a repeated
  release answers with the old offset; one in the kept set of a truncation stays.
* A message that is discarded or truncated counts as removed. A chunk that takes no more batches
  drops its removed messages when they are more than half of it, is removed when it is empty, and
  joins the one before it when both are small. So the memory used depends on the live messages, not
  on how long any of them waits. Discarded numbers that were dropped are remembered as ranges, at
  most `MAX_DISCARDED_RANGES`; older ones count as truncated.
* A truncation shows at once in `first` and `kept`, but a command removes no more than
  `TIDY_MESSAGES`; the next commands remove the rest, so that none of them stalls the group.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from store_nodes.commands import StageExtras
from store_nodes.machine.number_ranges import NumberRanges
from store_nodes.machine.outcomes import ReleasedRun
from store_nodes.machine.packed import pack_u64, unpack_u64
from store_nodes.machine.stage_chunk import (
    CHUNK_MESSAGES,
    DISCARDED,
    HELD,
    STAGED,
    TRUNCATED,
    Chunk,
    PackedChunk,
)

REMEMBERED_CHANGES = 4096
"""Reschedulings that a reader may be behind before it has to list everything."""
TIDY_MESSAGES = 2048
MAX_DISCARDED_RANGES = 16_384
NOT_DUE = -1


class StagedMessage(NamedTuple):
    """A message that is neither released nor discarded; `due_us` is None for a held one."""

    stage_number: int
    due_us: int | None
    log_time_us: int
    tag: bytes


class Readable(NamedTuple):
    """The offsets of a queue below its end that can be read."""

    first: int
    kept: tuple[int, ...]

    def __contains__(self, offset: object) -> bool:
        assert isinstance(offset, int)
        if offset >= self.first:
            return True
        at = bisect_left(self.kept, offset)
        return at < len(self.kept) and self.kept[at] == offset


class PackedStages(NamedTuple):
    """The stages of a queue in a snapshot; fields of bytes are little-endian u64."""

    end: int
    changes: int
    chunks: list[PackedChunk]
    changed: bytes
    released_offsets: bytes
    released_numbers: bytes
    kept: bytes
    discarded: tuple[bytes, bytes]


class Stages:
    """The staged messages of a queue, changed only while the machine applies a value."""

    __slots__ = (
        "_changed",
        "_chunks",
        "_discarded",
        "_firsts",
        "_head",
        "_kept",
        "_numbers",
        "_offsets",
        "changes",
        "end",
        "staged",
    )

    def __init__(self) -> None:
        self.end = 0
        """The next stage number."""
        self.staged = 0
        self.changes = 0
        self._changed = array("Q")
        """Ring of the last numbers rescheduled; change n is at n % REMEMBERED_CHANGES."""
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        """The first number of each chunk at the time when the chunk was begun."""
        # Released messages by ascending offset; those before `_head` have been checked for
        # truncation.
        self._offsets = array("Q")
        self._numbers = array("Q")
        self._head = 0
        self._kept: list[tuple[int, int]] = []
        """The (offset, number) of checked messages that were in the kept set then."""
        self._discarded = NumberRanges(MAX_DISCARDED_RANGES)
        """The dropped numbers that were discarded."""

    # Commands.

    def stage(self, count: int, extras: StageExtras, log_time_us: int) -> int:
        """Stage a batch; return its base stage number."""
        base = self.end
        if not self._chunks or len(self._chunks[-1]) >= CHUNK_MESSAGES:
            self._chunks.append(Chunk())
            self._firsts.append(base)
            # The chunk before is closed from now on.
            self._shrink(len(self._chunks) - 2)
        self._chunks[-1].add(base, count, extras.due_us, log_time_us, extras.tag)
        self.end += count
        self.staged += count
        return base

    def would_release(self, numbers: Iterable[int], log_time_us: int) -> bool:
        """Return whether any of these is staged, and held or due."""
        return any(
            found is not None and _releasable(*found, log_time_us)
            for found in map(self._find, numbers)
        )

    def release(
        self, numbers: Sequence[int], end: int, readable: Readable, log_time_us: int
    ) -> tuple[tuple[int | None, ...], tuple[ReleasedRun, ...]]:
        """Release messages; return the answer per number (wire.Released), and the runs that got
        offsets.

        The offsets begin at `end`.
        """
        answers: list[int | None] = []
        runs: list[tuple[int, int, list[int]]] = []
        for number in numbers:
            found = self._find(number)
            if found is None:
                answers.append(None)
                continue
            chunk, at = found
            place = chunk.places[at]
            if place != STAGED:
                answers.append(place if place < TRUNCATED and place in readable else None)
            elif not _releasable(chunk, at, log_time_us):
                answers.append(NOT_DUE)
            else:
                chunk.places[at] = end
                chunk.staged -= 1
                self.staged -= 1
                self._offsets.append(end)
                self._numbers.append(number)
                base = chunk.bases[chunk.batch(number)]
                if not runs or runs[-1][1] != base:
                    runs.append((end, base, []))
                runs[-1][2].append(number - base)
                answers.append(end)
                end += 1
        return tuple(answers), tuple(
            ReleasedRun(offset, base, tuple(indices)) for offset, base, indices in runs
        )

    def reschedule(self, numbers: Sequence[int], dues: Sequence[int]) -> int:
        """Give staged messages a new due time; return how many were staged.

        A held one is held no longer.
        """
        changed = 0
        for number, due_us in zip(numbers, dues, strict=False):
            found = self._find(number)
            if found is not None and found[0].places[found[1]] == STAGED:
                found[0].dues[found[1]] = due_us
                self._note_change(number)
                changed += 1
        return changed

    def discard(self, numbers: Sequence[int]) -> int:
        """Discard staged messages; return how many were staged."""
        changed = 0
        for number in numbers:
            found = self._find(number)
            if found is not None and found[0].places[found[1]] == STAGED:
                self._remove(number, DISCARDED)
                self.staged -= 1
                changed += 1
        return changed

    def truncate(self, readable: Readable) -> None:
        """Remove released messages that are no longer readable."""
        kept, self._kept = self._kept, []
        for offset, number in kept:
            self._look_after(offset, number, readable)
        self.tidy(readable)

    def tidy(self, readable: Readable) -> None:
        """Remove a bounded number of the messages that truncations left."""
        start, offsets = self._head, self._offsets
        upto = min(start + TIDY_MESSAGES, len(offsets))
        end = bisect_left(offsets, readable.first, start, upto)
        for at in range(start, end):
            self._look_after(offsets[at], self._numbers[at], readable)
        self._head = end
        if end > TIDY_MESSAGES and end * 2 > len(offsets):
            del offsets[:end], self._numbers[:end]
            self._head = 0

    # Queries.

    def listing(self, after: int, limit: int) -> list[StagedMessage]:
        """Return at most `limit` staged messages with a number above `after`."""
        rows: list[StagedMessage] = []
        for number in range(max(0, bisect_right(self._firsts, after) - 1), len(self._chunks)):
            chunk = self._chunks[number]
            if not chunk.staged:
                continue
            for at in range(bisect_right(chunk.numbers, after), len(chunk)):
                if chunk.places[at] != STAGED:
                    continue
                if len(rows) >= limit:
                    return rows
                rows.append(_message(chunk, at))
        return rows

    def changes_since(self, changes: int) -> list[int] | None:
        """Return the numbers rescheduled since the count was `changes`, in order; None if too long
        ago.
        """
        if not self.changes - REMEMBERED_CHANGES <= changes <= self.changes:
            return None
        return [self._changed[at % REMEMBERED_CHANGES] for at in range(changes, self.changes)]

    def locate(self, number: int, readable: Readable) -> tuple[str, int | None]:
        """Return the state and offset of a message, as Machine.locate does."""
        found = self._find(number)
        if found is None:
            return "discarded" if number in self._discarded else "truncated", None
        place = found[0].places[found[1]]
        if place == STAGED:
            return "staged", None
        if place == DISCARDED:
            return "discarded", None
        if place == TRUNCATED or place not in readable:
            return "truncated", None
        return "offset", place

    def batch_of(self, number: int, readable: Readable) -> tuple[int, int] | None:
        """Return the (base, count) of a message's batch; None unless `is_live`."""
        found = self._find(number)
        if found is None:
            return None
        chunk = found[0]
        at = chunk.batch(number)
        batch = chunk.bases[at], chunk.counts[at]
        return batch if _is_live(chunk, *batch, readable) else None

    def is_live(self, base: int, count: int, readable: Readable) -> bool:
        """Return whether a message of this batch is staged, or released and readable."""
        at = bisect_right(self._firsts, base) - 1
        return at >= 0 and _is_live(self._chunks[at], base, count, readable)

    # Inside.

    def _find(self, number: int) -> tuple[Chunk, int] | None:
        at = bisect_right(self._firsts, number) - 1
        if at < 0:
            return None
        chunk = self._chunks[at]
        index = chunk.index(number)
        return None if index is None else (chunk, index)

    def _note_change(self, number: int) -> None:
        at = self.changes % REMEMBERED_CHANGES
        if at == len(self._changed):
            self._changed.append(number)
        else:
            self._changed[at] = number
        self.changes += 1

    def _look_after(self, offset: int, number: int, readable: Readable) -> None:
        if offset in readable:
            self._kept.append((offset, number))
        else:
            self._remove(number, TRUNCATED)

    def _remove(self, number: int, place: int) -> None:
        at = bisect_right(self._firsts, number) - 1
        chunk = self._chunks[at]
        index = chunk.index(number)
        assert index is not None, "a live message was dropped"
        chunk.remove(index, place)
        if at < len(self._chunks) - 1 or len(chunk) >= CHUNK_MESSAGES:
            self._shrink(at)

    def _shrink(self, at: int) -> None:
        """Drop the removed messages of a chunk that takes no more batches, if they are most of
        it.
        """
        if at < 0 or self._chunks[at].removed * 2 <= len(self._chunks[at]):
            return
        chunk = self._chunks[at]
        for number in chunk.drop_removed():
            self._discarded.add(number)
        last = at == len(self._chunks) - 1
        if last and chunk.numbers:
            # The chunk has room again, and its number range continues: it takes the next batches.
            return
        before = self._chunks[at - 1] if at else None
        small = before is not None and len(before) + len(chunk) <= CHUNK_MESSAGES // 2
        if before is not None and small:
            before.take(chunk)
        if not chunk.numbers or small:
            del self._chunks[at], self._firsts[at]

    # Snapshots.

    def pack(self) -> PackedStages:
        kept = array("Q", (value for pair in self._kept for value in pair))
        return PackedStages(
            self.end,
            self.changes,
            [chunk.pack() for chunk in self._chunks],
            pack_u64(self._changed),
            pack_u64(self._offsets[self._head :]),
            pack_u64(self._numbers[self._head :]),
            pack_u64(kept),
            self._discarded.pack(),
        )

    @classmethod
    def unpack(cls, packed: PackedStages) -> Stages:
        """Return the stages of a snapshot; raises ValueError."""
        stages = cls()
        stages.end = packed.end
        stages.changes = packed.changes
        stages._chunks = [Chunk.unpack(chunk) for chunk in packed.chunks]
        stages._firsts = [chunk.bases[0] for chunk in stages._chunks]
        stages.staged = sum(chunk.staged for chunk in stages._chunks)
        edges = [edge for chunk in stages._chunks for edge in (chunk.numbers[0], chunk.numbers[-1])]
        if edges != sorted(edges) or (edges and edges[-1] >= stages.end):
            raise ValueError("stage numbers are not in order")
        stages._changed = unpack_u64(packed.changed)
        stages._offsets = unpack_u64(packed.released_offsets)
        stages._numbers = unpack_u64(packed.released_numbers)
        kept = unpack_u64(packed.kept)
        stages._kept = list(zip(kept[::2], kept[1::2], strict=True))
        stages._discarded = NumberRanges.unpack(MAX_DISCARDED_RANGES, packed.discarded)
        if len(stages._offsets) != len(stages._numbers):
            raise ValueError("released offsets and numbers do not match")
        if len(stages._changed) != min(stages.changes, REMEMBERED_CHANGES):
            raise ValueError("the ring of changes does not match its count")
        return stages


def _releasable(chunk: Chunk, at: int, log_time_us: int) -> bool:
    due_us = chunk.dues[at]
    return chunk.places[at] == STAGED and (due_us == HELD or due_us <= log_time_us)


def _is_live(chunk: Chunk, base: int, count: int, readable: Readable) -> bool:
    start = bisect_left(chunk.numbers, base)
    places = chunk.places[start : bisect_left(chunk.numbers, base + count, start)]
    return STAGED in places or any(place < TRUNCATED and place in readable for place in places)


def _message(chunk: Chunk, at: int) -> StagedMessage:
    number, due_us = chunk.numbers[at], chunk.dues[at]
    batch = chunk.batch(number)
    return StagedMessage(
        number, None if due_us == HELD else due_us, chunk.times[batch], chunk.tags[batch]
    )
