"""Keeps the ack state of one (subscription, partition), whose counters must balance.

Invariant after every call (P9):

    read_to − start = acked + filtered + skipped + expired + dead_lettered + exceptions + pending

`floor`: every offset below it is passed, that is settled or stepped over. `read_to`: every offset
below it is classified, that is passed or pending. The passed offsets from `floor` on are kept as
ranges, which never touch the floor. An offset that is stepped over is an open delivery
(exceptions.py), and in no counter until it is closed. A counter grows only by offsets that were
pending or stepped over; no offset is ever unsettled.

Pure: no clock, no I/O. `version` grows with each change, so that a flush knows what it wrote.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from metadata.delivery.deliveries import Outcome, SettledRange
from metadata.types import Counters, CursorKey, CursorState, CursorUpdate, Epoch
from subscribe_forwarder.delivery.state.ranges import RangeSet

MAX_RANGES = 10_000
"""If there are more ranges, no new messages are delivered: a flush writes every range."""


class Settled(enum.IntEnum):
    """The way in which an offset left the pending ones; the index of its counter."""

    ACKED = 0
    FILTERED = 1
    SKIPPED = 2
    EXPIRED = 3
    DEAD_LETTERED = 4


OUTCOMES: tuple[Outcome, ...] = ("acked", "filtered", "skipped", "expired", "dead_lettered")
"""The names of the counters, by `Settled`."""


class CursorDamaged(Exception):
    """The state of a cursor is out of order.

    A row was not written by this code or not kept by the disk, or memory went wrong.
    """


class Cursor:
    """Keeps the ack state of one lane; only the owner of its partition changes it."""

    __slots__ = (
        "_counts",
        "_ranges",
        "epoch",
        "exceptions",
        "floor",
        "flushed_version",
        "generation",
        "history",
        "key",
        "read_to",
        "start",
        "version",
    )

    def __init__(self, state: CursorState, epoch: Epoch) -> None:
        self.key: CursorKey = state.key
        self.epoch = epoch
        self.generation = state.generation
        self.start = state.start
        self.floor = state.floor
        self.read_to = state.read_to
        self._ranges = RangeSet(state.acked)
        counters = state.counters
        self._counts = [
            counters.acked,
            counters.filtered,
            counters.skipped,
            counters.expired,
            counters.dead_lettered,
        ]
        self.exceptions = state.exceptions
        """The number of offsets that are stepped over."""
        self.history: list[SettledRange] | None = None
        """Gets what is settled from now on, when it is kept."""
        self.version = 0
        self.flushed_version = 0
        if not self.ordered:
            raise CursorDamaged(f"cursor {state.key} is out of order: {state}")

    @property
    def dirty(self) -> bool:
        """Whether it has changed since the last committed flush."""
        return self.version > self.flushed_version

    @property
    def paused(self) -> bool:
        """Whether too many ranges pause new deliveries until older messages are settled."""
        return len(self._ranges) > MAX_RANGES

    @property
    def range_count(self) -> int:
        """The number of ranges of passed offsets above the floor."""
        return len(self._ranges)

    def pending(self) -> int:
        """Return the number of offsets in [floor, read_to) that are not passed."""
        return self.read_to - self.floor - self._ranges.size

    def counters(self) -> Counters:
        """Return the number of messages that were settled in each way."""
        return Counters(*self._counts)

    def balanced(self) -> bool:
        """Return whether P9 holds, and the ranges are in order."""
        counted = sum(self._counts) + self.exceptions + self.pending()
        return self.ordered and self.read_to - self.start == counted

    @property
    def ordered(self) -> bool:
        """Whether the ranges and the counters are in order."""
        ranges = self._ranges
        inside = not len(ranges) or (ranges.first > self.floor and ranges.end <= self.read_to)
        return (
            self.start <= self.floor <= self.read_to
            and inside
            and min(self._counts) >= 0
            and self.exceptions >= 0
        )

    @property
    def passed_end(self) -> int:
        """Return the offset after the last passed one; unsettled offsets below it are holes."""
        return self._ranges.end if len(self._ranges) else self.floor

    def is_passed(self, offset: int) -> bool:
        """Return whether an offset is settled or stepped over."""
        return offset < self.floor or offset in self._ranges

    def gap_at(self, offset: int, end: int) -> tuple[int, int]:
        """Return the first run [low, high) from `offset` on that is not passed, cut at `end`."""
        return self._ranges.gap_at(max(offset, self.floor), end)

    def classify(self, upto: int) -> None:
        """Raise `read_to` to `upto`: all offsets below it are settled or pending."""
        if upto > self.read_to:
            self.read_to = upto
            self.version += 1

    def settle(self, low: int, high: int, how: Settled) -> int:
        """Settle [low, high), also beyond `read_to`; return how many were not passed before."""
        low = max(low, self.floor)
        if low >= high:
            return 0
        if self.history is not None:
            self._remember(low, high, how)
        new = self._pass(low, high)
        if high > self.read_to:
            self.read_to = high
        elif not new:
            return 0
        self._counts[how] += new
        self.version += 1
        return new

    def step_over(self, offset: int) -> None:
        """Turn a pending offset into an open delivery."""
        assert not self.is_passed(offset), f"offset {offset} stepped over, and was passed before"
        self._pass(offset, offset + 1)
        self.read_to = max(self.read_to, offset + 1)
        self.exceptions += 1
        self.version += 1

    def close(self, offset: int, how: Settled) -> None:
        """Settle an offset that was stepped over."""
        assert self.exceptions > 0, f"offset {offset} closed, and nothing is stepped over"
        self.exceptions -= 1
        self._counts[how] += 1
        self.version += 1
        if self.history is not None:
            self.history.append(SettledRange(offset, offset + 1, OUTCOMES[how]))

    def touch(self) -> None:
        """Note that rows beside the cursor changed, so that the next flush writes them."""
        self.version += 1

    def _pass(self, low: int, high: int) -> int:
        """Add [low, high) to the passed offsets, and raise the floor if it can rise."""
        if low == self.floor and not len(self._ranges):
            new = high - low
            self.floor = high
        else:
            new = self._ranges.add(low, high)
            if low == self.floor:
                self.floor = self._ranges.drop_first_if_at(self.floor)
        return new

    def _remember(self, low: int, high: int, how: Settled) -> None:
        history = self.history
        assert history is not None
        outcome = OUTCOMES[how]
        while low < high:
            low, end = self.gap_at(low, high)
            if low >= high:
                return
            if history and history[-1].high == low and history[-1].outcome == outcome:
                history[-1] = SettledRange(history[-1].low, end, outcome)
            else:
                history.append(SettledRange(low, end, outcome))
            low = end

    def settle_all(self, offsets: Sequence[int], how: Settled) -> int:
        """Settle ascending offsets, repeats allowed; return how many were not passed before."""
        new = 0
        low = high = -1
        for offset in offsets:
            if offset == high:
                high += 1
            elif offset != high - 1:
                if low >= 0:
                    new += self.settle(low, high, how)
                low, high = offset, offset + 1
        if low >= 0:
            new += self.settle(low, high, how)
        return new

    def update(self) -> CursorUpdate:
        """Return the whole row for a flush to write; the caller remembers `version` beside it.

        Raises CursorDamaged if memory is out of order, for no such row may be written.
        """
        if not self.ordered:
            raise CursorDamaged(
                f"cursor {self.key} came out of order: {self._counts}, {self.floor}"
            )
        return CursorUpdate(
            key=self.key,
            epoch=self.epoch,
            generation=self.generation,
            floor=self.floor,
            read_to=self.read_to,
            acked=self._ranges.ranges(),
            counters=self.counters(),
            exceptions=self.exceptions,
        )

    def covers(self, row: CursorState) -> bool:
        """Return whether this memory already has everything in the row, of the same generation."""
        return (
            self.generation == row.generation
            and self.start == row.start
            and self.floor >= row.floor
            and self.read_to >= row.read_to
            and all(self.gap_at(low, high)[0] >= high for low, high in row.acked)
        )
