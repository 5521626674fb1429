"""Delivered and not yet acked messages of one (subscription, partition): who waits for what.

An offset that was handed out is *leased* until its deadline, then *waiting* to be handed out again,
until it is settled. One grant is what one pull took: its deadline is one heap entry, so nothing is
paid per message but one dict entry. Pure: times are milliseconds of the caller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

_SLACK = 1024


class Grant:
    """Messages leased together; `live` counts those that still are."""

    __slots__ = ("deadline_ms", "epoch_n", "live", "offsets")

    def __init__(self, offsets: list[int], deadline_ms: int, epoch_n: int) -> None:
        self.offsets = offsets
        self.deadline_ms = deadline_ms
        self.epoch_n = epoch_n
        self.live = len(offsets)

    def __lt__(self, other: Grant) -> bool:
        return self.deadline_ms < other.deadline_ms


class LeaseTable:
    """In memory only: a restart re-delivers what was leased, and may repeat an attempt count."""

    def __init__(self) -> None:
        self._leased: dict[int, Grant] = {}
        self._deadlines: list[Grant] = []
        self._granted = 0  # offsets in `_deadlines`, also those no longer leased
        self._waiting: set[int] = set()
        self._ready: list[int] = []
        self._delayed: list[tuple[int, int]] = []
        self._failures: dict[int, int] = {}  # attempts that ended without an ack

    @property
    def leased(self) -> int:
        return len(self._leased)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def outstanding(self) -> int:
        """Leased and waiting: what this table holds in memory."""
        return len(self._leased) + len(self._waiting)

    def attempt(self, offset: int) -> int:
        """The number of this offset's present attempt, or of its next one; from 1."""
        return self._failures.get(offset, 0) + 1

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    def grant_of(self, offset: int) -> Grant | None:
        return self._leased.get(offset)

    def is_waiting(self, offset: int) -> bool:
        return offset in self._waiting

    def lease(self, offsets: list[int], deadline_ms: int, epoch_n: int = 0) -> Grant:
        """Offsets that are neither leased nor waiting (`next_ready` takes them from waiting)."""
        grant = Grant(offsets, deadline_ms, epoch_n)
        for offset in offsets:
            assert offset not in self._leased
            self._leased[offset] = grant
        heappush(self._deadlines, grant)
        self._granted += len(offsets)
        return grant

    def extend(self, offset: int, deadline_ms: int) -> bool:
        """Moves the deadline of a leased offset; False when it is not leased."""
        old = self._leased.pop(offset, None)
        if old is None:
            return False
        old.live -= 1
        self.lease([offset], deadline_ms, old.epoch_n)
        self._compact()
        return True

    def settle(self, offsets: Sequence[int]) -> None:
        """They are acked, expired or dead-lettered: nothing of them stays."""
        leased, waiting, failures = self._leased, self._waiting, self._failures
        for offset in offsets:
            grant = leased.pop(offset, None)
            if grant is not None:
                grant.live -= 1
            elif waiting:
                waiting.discard(offset)
        if failures:
            for offset in offsets:
                failures.pop(offset, None)
        self._compact()

    def settle_below(self, bound: int) -> None:
        """Settles whatever of it is below `bound`."""
        self.settle([o for o in (*self._leased, *self._waiting) if o < bound])

    def fail(self, offset: int, due_ms: int | None) -> bool:
        """A nack: the attempt counts; handed out again at `due_ms`, or at once when None."""
        if not self._give_back(offset, due_ms):
            return False
        self._failures[offset] = self._failures.get(offset, 0) + 1
        self._compact()
        return True

    def give_back(self, offset: int) -> bool:
        """Ready to be handed out again at once; no attempt counts. False when not leased."""
        return self._give_back(offset, None)

    def release(self, grant: Grant) -> int:
        """The response never left: its messages wait again and no attempt counts."""
        count = 0
        for offset in grant.offsets:
            if self._leased.get(offset) is grant:
                self._give_back(offset, None)
                count += 1
        self._compact()
        return count

    def expire(self, now_ms: int) -> int:
        """Ends the leases whose deadline has come, and the delays that are over; how many leases
        ended."""
        expired = 0
        while self._deadlines and (
            self._deadlines[0].deadline_ms <= now_ms or not self._deadlines[0].live
        ):
            grant = heappop(self._deadlines)
            self._granted -= len(grant.offsets)
            if not grant.live:
                continue
            for offset in grant.offsets:
                if self._leased.get(offset) is grant:
                    self._give_back(offset, None)
                    self._failures[offset] = self._failures.get(offset, 0) + 1
                    expired += 1
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, offset = heappop(self._delayed)
            if offset in self._waiting:
                heappush(self._ready, offset)
        return expired

    def peek_ready(self) -> int | None:
        """The lowest offset to be handed out again, after `expire`."""
        while self._ready:
            if self._ready[0] in self._waiting:
                return self._ready[0]
            heappop(self._ready)
        return None

    def take_ready(self) -> int:
        """Takes what `peek_ready` just named out of the waiting ones."""
        offset = heappop(self._ready)
        self._waiting.remove(offset)
        return offset

    def next_due_ms(self) -> int | None:
        """When a deadline or a delay ends next, if any; may be early, never late."""
        while self._deadlines and not self._deadlines[0].live:
            self._granted -= len(heappop(self._deadlines).offsets)
        due = self._deadlines[0].deadline_ms if self._deadlines else None
        if self._delayed and (due is None or self._delayed[0][0] < due):
            due = self._delayed[0][0]
        return due

    def _give_back(self, offset: int, due_ms: int | None) -> bool:
        grant = self._leased.pop(offset, None)
        if grant is None:
            return False
        grant.live -= 1
        self._waiting.add(offset)
        if due_ms is None:
            heappush(self._ready, offset)
        else:
            heappush(self._delayed, (due_ms, offset))
        return True

    def _compact(self) -> None:
        """Heaps hold what is gone until its time comes; never more of it than what is there."""
        if self._granted > 2 * len(self._leased) + _SLACK:
            kept = [grant for grant in self._deadlines if grant.live]
            for grant in kept:
                if grant.live < len(grant.offsets):
                    grant.offsets = [o for o in grant.offsets if self._leased.get(o) is grant]
            self._granted = sum(grant.live for grant in kept)
            heapify(kept)
            self._deadlines = kept
        if len(self._ready) + len(self._delayed) > 2 * len(self._waiting) + _SLACK:
            self._ready = [o for o in self._ready if o in self._waiting]
            heapify(self._ready)
            self._delayed = [pair for pair in self._delayed if pair[1] in self._waiting]
            heapify(self._delayed)
