"""The books of one subscription in one lane of a partition: what is settled, and what is out.

It joins the cursor (what is settled), the leases (who has what until when) and the exceptions (what
the cursor stepped over). Whoever hands out asks here what may go out again; acks, failures and ends
of leases are told here. Pure: no clock, no I/O; times are milliseconds of the caller's monotonic
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metadata.types import CursorState, Epoch
from subscribe_forwarder.state.cursor import Cursor, Settled
from subscribe_forwarder.state.leases import Grant, LeaseTable


class Ledger:
    """Changed by its partition's owner only."""

    def __init__(self, state: CursorState, epoch: Epoch) -> None:
        self.cursor = Cursor(state, epoch)
        """Read it; it changes through the ledger."""
        self._leases = LeaseTable()
        self.on_settled: Callable[[Sequence[int]], None] | None = None
        """Told of offsets that were settled one by one, also those that were never handed out."""

    @property
    def leased(self) -> int:
        return self._leases.leased

    @property
    def waiting(self) -> int:
        """Read and unsettled, and leased to nobody: to be handed out again, or held."""
        return self._leases.waiting

    @property
    def outstanding(self) -> int:
        """Leased and waiting: what is held in memory."""
        return self._leases.outstanding

    @property
    def has_failures(self) -> bool:
        return self._leases.has_failures

    def attempt(self, offset: int) -> int:
        """The number of this offset's present attempt, or of its next one; from 1."""
        return self._leases.attempt(offset)

    def grant_of(self, offset: int) -> Grant | None:
        """The lease it is under."""
        return self._leases.grant_of(offset)

    def is_waiting(self, offset: int) -> bool:
        return self._leases.is_waiting(offset)

    def paused_reason(self) -> str | None:
        """Why nothing new may be handed out, if so."""
        return "too_many_ranges" if self.cursor.paused else None

    # Handing out.

    def peek_ready(self) -> int | None:
        """The lowest offset to be handed out again, after `expire`."""
        return self._leases.peek_ready()

    def take_ready(self) -> int:
        """Takes what `peek_ready` just named out of the waiting ones, to be leased or settled."""
        return self._leases.take_ready()

    def next_due_ms(self) -> int | None:
        """When a deadline or a delay ends next, if any; may be early, never late."""
        return self._leases.next_due_ms()

    def classify(self, upto: int) -> None:
        """All below `upto` is now settled or pending."""
        self.cursor.classify(upto)

    def lease(self, offsets: list[int], deadline_ms: int) -> Grant:
        """Offsets that are neither leased nor waiting."""
        return self._leases.lease(offsets, deadline_ms, self.cursor.epoch.n)

    def release(self, grant: Grant) -> int:
        """The response never left: its messages are ready again and no attempt counts."""
        return self._leases.release(grant)

    # Ends of leases.

    def settle(self, offsets: Sequence[int], how: Settled) -> int:
        """`offsets` ascending; how many were not settled before."""
        new = self.cursor.settle_all(offsets, how)
        self._leases.settle(offsets)
        if self.on_settled is not None:
            self.on_settled(offsets)
        return new

    def settle_below(self, bound: int, how: Settled) -> int:
        """All below `bound`: leased, waiting, and never handed out alike."""
        self._leases.settle_below(bound)
        return self.cursor.settle(self.cursor.floor, bound, how)

    def fail(self, offset: int, due_ms: int | None) -> bool:
        """The attempt counts; handed out again at `due_ms`. False when it is not leased."""
        return self._leases.fail(offset, due_ms)

    def give_back(self, offset: int) -> bool:
        """Ready again at once; no attempt counts. False when it is not leased."""
        return self._leases.give_back(offset)

    def extend(self, offset: int, deadline_ms: int) -> bool:
        """Moves the deadline of a leased offset. False when it is not leased."""
        return self._leases.extend(offset, deadline_ms)

    def expire(self, now_ms: int) -> int:
        """Ends the leases whose deadline has come; how many."""
        return self._leases.expire(now_ms)
