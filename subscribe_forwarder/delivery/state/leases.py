"""Keeps the delivered and not yet settled messages of one (subscription, partition).

A delivered offset is *leased* until its deadline, then *waiting* until it is leased again or
settled. A waiting offset is ready, delayed until a time, held until a call offers it, or unwritten:
its failure is not durable yet. One grant has the messages of one pull: its deadline is one heap
entry, so a message costs only one dict entry. Pure: times are milliseconds of the caller's
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

_SLACK = 1024
_READY = -1
_HELD = -2
_UNWRITTEN = -3


class Grant:
    """Messages leased together; `live` counts those that still are."""

    __slots__ = ("count", "deadline_ms", "epoch_n", "holder", "leased_us", "live", "offsets")

    def __init__(
        self, offsets: list[int], deadline_ms: int, epoch_n: int, leased_us: int = 0
    ) -> None:
        """Begin the lease of messages that are delivered together."""
        self.offsets = offsets
        self.deadline_ms = deadline_ms
        self.epoch_n = epoch_n
        self.leased_us = leased_us
        """The time of their delivery, by the wall clock."""
        self.count = self.live = len(offsets)
        self.holder: object | None = None
        """The limit that counts the leased messages of the grant (window.py); passed on
        when a lease is extended.
        """

    def __lt__(self, other: Grant) -> bool:
        """Return whether this lease ends first."""
        return self.deadline_ms < other.deadline_ms


class LeaseTable:
    """Keeps where each offset is that was read and is not settled."""

    def __init__(self) -> None:
        self.on_outstanding: Callable[[], None] | None = None
        """Called when a first offset is outstanding."""
        self._leased: dict[int, Grant] = {}
        self._deadlines: list[Grant] = []
        self._granted = 0  # offsets in `_deadlines`, also those no longer leased
        self._waiting: dict[int, int] = {}  # offset → when it is due, or one of the states
        self._ready: list[int] = []
        self._delayed: list[tuple[int, int]] = []

    @property
    def leased(self) -> int:
        return len(self._leased)

    @property
    def waiting(self) -> int:
        """The number of offsets that were read, and are neither settled nor leased."""
        return len(self._waiting)

    @property
    def outstanding(self) -> int:
        """The number of leased and waiting offsets."""
        return len(self._leased) + len(self._waiting)

    def grant_of(self, offset: int) -> Grant | None:
        """Return the grant under which an offset is leased, or None."""
        return self._leased.get(offset)

    def is_waiting(self, offset: int) -> bool:
        return offset in self._waiting

    def is_unwritten(self, offset: int) -> bool:
        return self._waiting.get(offset) == _UNWRITTEN

    def leased_now(self) -> list[int]:
        """Return each leased offset."""
        return list(self._leased)

    # Leases.

    def lease(
        self, offsets: list[int], deadline_ms: int, epoch_n: int = 0, leased_us: int = 0
    ) -> Grant:
        """Lease offsets that are neither leased nor waiting; `take_ready` ends their waiting."""
        grant = Grant(offsets, deadline_ms, epoch_n, leased_us)
        self._tell_if_first()
        assert self._leased.keys().isdisjoint(offsets), f"leased twice, of {offsets}"
        assert self._waiting.keys().isdisjoint(offsets), f"leased while it waits, of {offsets}"
        self._leased.update(dict.fromkeys(offsets, grant))
        heappush(self._deadlines, grant)
        self._granted += len(offsets)
        return grant

    def extend(self, offset: int, deadline_ms: int) -> bool:
        """Move the deadline of a leased offset; return False if it is not leased."""
        old = self._leased.pop(offset, None)
        if old is None:
            return False
        old.live -= 1
        extended = self.lease([offset], deadline_ms, old.epoch_n, old.leased_us)
        extended.holder = old.holder
        self._compact()
        return True

    def end(self, offset: int) -> Grant | None:
        """End the lease of an offset, which is unwritten now, and return its grant."""
        grant = self._leased.pop(offset, None)
        if grant is None:
            return None
        grant.live -= 1
        self._waiting[offset] = _UNWRITTEN
        self._compact()
        return grant

    def due(self, now_ms: int) -> list[tuple[int, Grant]]:
        """End leases whose deadline has come, and make offsets ready whose delay is over.

        Returns the offsets of the ended leases, which are unwritten now.
        """
        ended: list[tuple[int, Grant]] = []
        while self._deadlines and (
            self._deadlines[0].deadline_ms <= now_ms or not self._deadlines[0].live
        ):
            grant = heappop(self._deadlines)
            self._granted -= len(grant.offsets)
            if not grant.live:
                continue
            for offset in grant.offsets:
                if self._leased.get(offset) is grant:
                    del self._leased[offset]
                    grant.live -= 1
                    self._waiting[offset] = _UNWRITTEN
                    ended.append((offset, grant))
        while self._delayed and self._delayed[0][0] <= now_ms:
            due_ms, offset = heappop(self._delayed)
            if self._waiting.get(offset) == due_ms:
                self.make_ready(offset)
        return ended

    def settle(self, offsets: Sequence[int]) -> None:
        """Remove offsets that are acked, expired or dead-lettered."""
        leased, waiting = self._leased, self._waiting
        for offset in offsets:
            grant = leased.pop(offset, None)
            if grant is not None:
                grant.live -= 1
            elif waiting:
                waiting.pop(offset, None)
        self._compact()

    def below(self, bound: int) -> list[int]:
        """Return the offsets below `bound`, ascending."""
        return sorted([o for o in (*self._leased, *self._waiting) if o < bound])

    # Waiting.

    def give_back(self, offset: int) -> bool:
        """Make an offset ready again at once; return False if it is not leased."""
        grant = self._leased.pop(offset, None)
        if grant is None:
            return False
        grant.live -= 1
        self.make_ready(offset)
        return True

    def make_ready(self, offset: int) -> None:
        self._tell_if_first()
        self._waiting[offset] = _READY
        heappush(self._ready, offset)

    def delay(self, offset: int, due_ms: int) -> None:
        self._tell_if_first()
        self._waiting[offset] = max(0, due_ms)
        heappush(self._delayed, (max(0, due_ms), offset))
        self._compact()

    def hold(self, offset: int) -> None:
        """Keep an offset that was read from delivery until it is offered."""
        self._tell_if_first()
        self._waiting[offset] = _HELD

    def hold_unwritten(self, offset: int) -> None:
        self._tell_if_first()
        self._waiting[offset] = _UNWRITTEN

    def offer(self, offset: int) -> bool:
        """Make a held offset ready; return False if it is not held."""
        if self._waiting.get(offset) != _HELD:
            return False
        self.make_ready(offset)
        return True

    def peek_ready(self) -> int | None:
        """Return the lowest offset to deliver again, after `due`."""
        while self._ready:
            if self._waiting.get(self._ready[0]) == _READY:
                return self._ready[0]
            heappop(self._ready)
        return None

    def take_ready(self) -> int:
        """Remove the offset that `peek_ready` just named from the waiting ones, to lease, hold or
        settle it."""
        offset = heappop(self._ready)
        del self._waiting[offset]
        return offset

    def next_due_ms(self) -> int | None:
        """Return the time at which a deadline or a delay ends next, or None.

        It may be early, never late.
        """
        while self._deadlines and not self._deadlines[0].live:
            self._granted -= len(heappop(self._deadlines).offsets)
        due = self._deadlines[0].deadline_ms if self._deadlines else None
        if self._delayed and (due is None or self._delayed[0][0] < due):
            due = self._delayed[0][0]
        return due

    def _tell_if_first(self) -> None:
        """Report the first outstanding offset of an empty table."""
        if self.on_outstanding is not None and not self._leased and not self._waiting:
            self.on_outstanding()

    def _compact(self) -> None:
        """Rebuild heaps that have more entries of settled offsets than of present ones."""
        if self._granted > 2 * len(self._leased) + _SLACK:
            kept = [grant for grant in self._deadlines if grant.live]
            for grant in kept:
                if grant.live < len(grant.offsets):
                    grant.offsets = [o for o in grant.offsets if self._leased.get(o) is grant]
            self._granted = sum(grant.live for grant in kept)
            heapify(kept)
            self._deadlines = kept
        if len(self._ready) + len(self._delayed) > 2 * len(self._waiting) + _SLACK:
            waiting = self._waiting
            self._ready = sorted({o for o in self._ready if waiting.get(o) == _READY})
            self._delayed = [pair for pair in self._delayed if waiting.get(pair[1]) == pair[0]]
            heapify(self._delayed)
