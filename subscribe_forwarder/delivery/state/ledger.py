"""Keeps the delivery state of one subscription in one lane: settled and delivered messages.

It joins the cursor (settled offsets), the leases (delivered messages and their deadlines), the
exceptions (offsets that the cursor stepped over) and, for exactly-once, the leases as they are
written. Deliveries ask here for messages to deliver again; acks, failures and ends of leases are
reported here.

Order of durability: a failure (nack, expiry, reject), a parking and a resumption are committed
before their message is delivered again or goes to the dead letters: `wrote` is told of each commit
and releases the message only then. If keys are in order, a settled message frees its key once that
is committed: `on_settled` is told of the offsets that a flush wrote, never of offsets that are
settled only in memory. Leases of an exactly-once subscription are committed before the response
leaves, which is up to its sender.

Pure: no clock, no I/O; deadlines are milliseconds of the caller's monotonic clock.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from metadata.delivery.deliveries import DeadLetter, OpenDelivery, Publication, Reason
from metadata.types import CursorState, CursorUpdate, Epoch
from subscribe_forwarder.delivery.state import failures
from subscribe_forwarder.delivery.state.ages import Ages
from subscribe_forwarder.delivery.state.cursor import Cursor, Settled
from subscribe_forwarder.delivery.state.exact_leases import ExactLeases
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.flushes import Durable, Flushes
from subscribe_forwarder.delivery.state.held_leases import HeldLeases
from subscribe_forwarder.delivery.state.holes import OLD_MS
from subscribe_forwarder.delivery.state.inherited import Inherited, InheritedLease
from subscribe_forwarder.delivery.state.leases import Grant, LeaseTable
from subscribe_forwarder.delivery.state.pending_dead_letters import PendingDeadLetters
from subscribe_forwarder.delivery.state.retry import Now, Policy

__all__ = ["Grant", "Ledger", "Now", "Policy"]


class Ledger:
    """Keeps the delivery state of one lane; only the owner of its partition changes it."""

    def __init__(
        self,
        state: CursorState,
        epoch: Epoch,
        policy: Policy | None = None,
        random: Callable[[], float] = random_module.random,
        handed: Sequence[InheritedLease] = (),
    ) -> None:
        """Take over the open deliveries of `state`; `handed` are leases of the owner before."""
        self.cursor = Cursor(state, epoch)
        """Offsets of deliveries are settled through the ledger; ranges that were never delivered,
        in the cursor itself."""
        self.policy = policy or Policy()
        self.on_settling: Callable[[Sequence[int]], None] | None = None
        """Called with offsets that are settled one by one, also those never delivered."""
        self.on_settled: Callable[[Sequence[int]], None] | None = None
        """Told of the same offsets once that is committed."""
        self.awaited = False
        """Somebody waits for the commit of what is settled: the next flush is not to be put off."""
        self.on_parked: Callable[[OpenDelivery], None] | None = None
        """Told of messages that are parked, once that is committed."""
        self.key_hash_of: Callable[[int], int | None] | None = None
        self._acked_late: list[InheritedLease] | None = None
        self._random = random
        self.leases = LeaseTable()
        """Callers read it, take ready offsets and hold offsets; leases begin and end through the
        ledger."""
        self._open = Exceptions(state.stepped_over)
        self.held = HeldLeases(state.leases)
        """The leases that are flushed with the cursor: those of exactly-once."""
        self.exact = ExactLeases(self.cursor, self._open, self.held)
        self.pending_dead_letters = PendingDeadLetters(self._open)
        self._now = Now(0, 0)
        self._ages = Ages(self.cursor.floor)
        self._flushes = Flushes(
            self.cursor, self.leases, self._open, self.held, self._ages, self._key_hash
        )
        self._inherited = Inherited(self.cursor, self.leases, self._open, self.held, handed)

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """Take the policy of the subscription; keep a history of acks only if it asks for one."""
        self._policy = policy
        if not policy.history:
            self.cursor.history = None
        elif self.cursor.history is None:
            self.cursor.history = []

    @property
    def exceptions(self) -> Mapping[int, OpenDelivery]:
        """The open deliveries, also those no flush has carried yet."""
        return self._open.rows

    @property
    def has_failures(self) -> bool:
        """Whether `attempt` or `exact.turn` may be more than 1 for any message."""
        return bool(self._open) or self.exact.any_given_back

    def attempt(self, offset: int) -> int:
        """Return the number of this offset's present attempt, or of its next one; from 1."""
        return self._open.attempts(offset) + 1

    def paused_reason(self) -> str | None:
        """Return the reason for which no new message may be delivered, if there is one."""
        if self.cursor.paused:
            return "too_many_ranges"
        if len(self._open) >= self.policy.max_exceptions:
            return "too_many_exceptions"
        return None

    # Deliveries.

    def next_due_ms(self) -> int | None:
        """Return the time at which a deadline or a delay ends next, or None.

        It may be early, never late.
        """
        return 0 if self._inherited.waits else self.leases.next_due_ms()

    def classify(self, upto: int) -> None:
        """Note that all messages below `upto` are settled, leased, waiting or held."""
        self.cursor.classify(upto)
        self._ages.out_to(upto)

    def lease(self, offsets: list[int], now: Now, deadline_ms: int) -> Grant:
        """Lease offsets that are neither leased nor waiting; return the grant."""
        self._now = now
        grant = self.leases.lease(offsets, deadline_ms, self.cursor.epoch.n, now.us)
        if self.policy.exactly_once and offsets:
            self.exact.grant(offsets, now.wall_us(deadline_ms))
        return grant

    def spend(self, grant: Grant) -> bool:
        """Ack all messages of a grant before the response leaves, for at-most-once delivery.

        Returns False if some are leased no longer. Then nothing is settled, and the response must
        not be sent.
        """
        if grant.live < grant.count:
            return False
        self.settle(sorted(grant.offsets), Settled.ACKED)
        return True

    def offer(self, offset: int) -> bool:
        """Make a held message ready; return False if it is not held, or not to be delivered."""
        row = self._open.rows.get(offset)
        if row is not None and row.reason not in (Reason.HOLE, Reason.FAILED):
            return False
        return self.leases.offer(offset)

    def release(self, grant: Grant) -> int:
        """Make the messages of a response that never left ready again; no attempt counts."""
        return sum(
            self.give_back(offset)
            for offset in list(grant.offsets)
            if self.leases.grant_of(offset) is grant
        )

    @property
    def leaving(self) -> bool:
        """Whether the ledger is being given away.

        `to_hand` then also names offsets that are acked meanwhile. If no flush carries such an ack,
        it is not answered, and the message comes again at the next owner.
        """
        return self._acked_late is not None

    @leaving.setter
    def leaving(self, leaving: bool) -> None:
        self._acked_late = [] if leaving else None

    def to_hand(self) -> list[InheritedLease]:
        """Return the present leases for the next owner: none if they are durable, or if
        nobody is to ack.
        """
        if self.policy.exactly_once:
            return []
        leased = self._leases_of(self.leases.leased_now())
        return leased + self._inherited.not_leased() + (self._acked_late or [])

    # Ends of leases.

    def settle(self, offsets: Sequence[int], how: Settled) -> int:
        """Settle ascending offsets; return how many were not settled before."""
        if self.on_settling is not None:
            fresh = [offset for offset in offsets if not self.is_settled(offset)]
            self._flushes.settled += fresh
            self.on_settling(fresh)
        new = self.cursor.settle_all(offsets, how)
        if self._acked_late is not None and how is Settled.ACKED:
            self._acked_late += self._leases_of(offsets)
        self.leases.settle(offsets)
        if self._open:
            new += self._close(offsets, how)
        self.exact.settled(offsets, how, self._now.us)
        return new

    def settle_below(self, bound: int, how: Settled) -> int:
        """Settle all offsets below `bound` but open deliveries: leased, waiting and
        undelivered ones.
        """
        below = [o for o in self.leases.below(bound) if not self._open.stepped_over(o)]
        new = self.settle(below, how) if below else 0
        return new + self.cursor.settle(self.cursor.floor, bound, how)

    def fail(self, offset: int, now: Now, delay_ms: int | None, detail: str | None) -> bool:
        """Count a failed attempt of a message; return False if it is not leased.

        It is delivered again after the delay (None: the back-off of the policy), and not before
        that is committed.
        """
        self._now = now
        grant = self.leases.end(offset)
        if grant is None:
            return False
        self._failed(offset, grant.leased_us, delay_ms, detail)
        return True

    def reject(self, offset: int, now: Now, detail: str | None) -> bool:
        """Send a leased message to the dead letters, once that is committed; return False
        if it is not leased.
        """
        self._now = now
        grant = self.leases.end(offset)
        if grant is None:
            return False
        self._ended(failures.rejected(self._row(offset), leased_us=grant.leased_us, detail=detail))
        return True

    def give_back(self, offset: int) -> bool:
        """Make a message ready again at once, without counting an attempt; return False if
        it is not leased.
        """
        if not self.leases.give_back(offset):
            return False
        if self.policy.exactly_once:
            self.exact.give_back(offset, self._now.us)
        return True

    def extend(self, offset: int, deadline_ms: int) -> bool:
        """Move the deadline of a leased offset; return False if it is not leased."""
        if not self.leases.extend(offset, deadline_ms):
            return False
        if self.policy.exactly_once:
            self.exact.extend(offset, self._now.wall_us(deadline_ms), self._now.us)
        return True

    def expire(self, now: Now) -> int:
        """End the leases and delays whose time is over; return how many leases ended."""
        self._now = now
        self._ages.mark(now.ms)
        if self._inherited.waits:
            self._inherited.lease(now)
            for row in self._open.durable():
                self._let_go(row)
        ended = self.leases.due(now.ms)
        for offset, grant in ended:
            self._failed(offset, grant.leased_us, None, None)
        self.pending_dead_letters.tell(now.ms)
        self.exact.prune(now.us)
        return len(ended)

    # Parked keys and dead letters.

    def step_over(self, offsets: Sequence[int], reason: Reason) -> None:
        """Step over offsets that are held, pending or undelivered: they are open deliveries
        from the next flush on.
        """
        for offset in offsets:
            self._open.put(replace(self._row(offset), reason=reason, not_before_us=None))
            self.leases.hold_unwritten(offset)
        self.cursor.touch()

    def resume(self, offset: int) -> bool:
        """Deliver a parked message again with its attempts counted anew; return False if it
        is not parked.
        """
        row = self._open.rows.get(offset)
        if row is None or row.reason not in failures.PARKED:
            return False
        self._open.put(replace(row, reason=Reason.HOLE, attempts=0, not_before_us=None))
        self.leases.hold_unwritten(offset)
        self.cursor.touch()
        return True

    def skip(self, offset: int) -> bool:
        """Settle a parked message as skipped; return False if it is not parked."""
        row = self._open.rows.get(offset)
        if row is None or row.reason not in failures.PARKED:
            return False
        self.settle((offset,), Settled.SKIPPED)
        return True

    def add_dead_letter(self, dead_letter: DeadLetter) -> bool:
        """Close a message that is stored as a dead letter.

        Returns False if it was settled or resumed meanwhile. Then nothing changes, and a resumed
        message is delivered again.
        """
        row = self._open.rows.get(dead_letter.offset)
        if row is None or row.reason in (Reason.HOLE, Reason.FAILED):
            return False
        self._flushes.dead_letters.append(dead_letter)
        self.settle((dead_letter.offset,), Settled.DEAD_LETTERED)
        return True

    def dead_letter_failed(self, offset: int, detail: str) -> None:
        """Note why a dead letter could not be stored, and report the message again later."""
        row = self._open.rows.get(offset)
        if row is not None and row.reason in failures.TO_DEAD_LETTERS:
            self._open.put(replace(row, detail=detail))
            self.pending_dead_letters.again(offset, self._now.ms)
            self.cursor.touch()

    def publish(self, offsets: Sequence[int], publication: Publication) -> None:
        """Ack unsettled offsets; no flush commits that without the messages that the ack
        publishes.
        """
        self._flushes.publications.append(publication)
        self.settle(offsets, Settled.ACKED)

    def is_settled(self, offset: int) -> bool:
        """Return whether an offset is acked, or settled in another way."""
        return self.cursor.is_passed(offset) and offset not in self._open

    def committed_to(self, end: int) -> bool:
        """Return whether all offsets below `end` are settled, and a flush has written that."""
        return self._flushes.floor >= end and self._open.none_stored_below(end)

    def settled_to(self, end: int) -> bool:
        """Return whether all offsets below `end` are settled in memory."""
        return self.cursor.floor >= end and all(offset >= end for offset in self._open.rows)

    # Flushes.

    @property
    def has_old_hole(self) -> bool:
        """Whether the next flush would step over what holds the floor up, as of the last `expire`;
        it is worth one also when nothing else has changed."""
        return bool(self.cursor.range_count) and self._ages.older(OLD_MS) > self.cursor.floor

    @property
    def urgent(self) -> bool:
        """Whether a message has to wait for the next flush before it is delivered."""
        return self.awaited or self._open.unwritten

    def update(self) -> CursorUpdate:
        """Return all changes for the next flush to write; flushes never overlap."""
        self.awaited = False
        return self._flushes.update()

    def wrote(self, update: CursorUpdate) -> bool:
        """Note that an update is committed; return whether that lets a message be delivered."""
        return self._note_durable(self._flushes.wrote(update))

    def resync(self, state: CursorState, epoch: Epoch) -> bool:
        """Continue under a new epoch with the state in memory, after a flush with an unknown
        outcome.

        Returns False if memory lacks something that the row has, or has an ack whose messages may
        never be published. Then the row must be read again.
        """
        durable = self._flushes.resync(state, epoch)
        if durable is None:
            return False
        self._note_durable(durable)
        self.awaited |= bool(self._flushes.settled)
        return True

    # Within.

    def _note_durable(self, durable: Durable) -> bool:
        """Let messages go that waited for a commit; return whether one may be delivered.

        The settled offsets come after the rows of the same flush: a message that they let go has a
        row that no flush has written yet.
        """
        let_go = sum([self._let_go(row) for row in durable.rows]) > 0
        if self.on_settled is None:
            return let_go
        self.on_settled(durable.settled)
        return True

    def _leases_of(self, offsets: Iterable[int]) -> list[InheritedLease]:
        """Return the leases of those offsets that are leased."""
        return [
            InheritedLease(grant.deadline_ms, grant.epoch_n, offset)
            for offset in offsets
            if (grant := self.leases.grant_of(offset)) is not None
        ]

    def _row(self, offset: int) -> OpenDelivery:
        """Return the open delivery of an offset, or the one that it would have."""
        row = self._open.rows.get(offset) or OpenDelivery(offset, 0, Reason.HOLE)
        # That of a lease of the owner before was made before its message was read.
        return replace(row, key_hash=self._key_hash(offset)) if row.key_hash is None else row

    def _failed(
        self, offset: int, leased_us: int, delay_ms: int | None, detail: str | None
    ) -> None:
        row = failures.failed(
            self._row(offset),
            self.policy,
            leased_us=leased_us,
            now_us=self._now.us,
            delay_ms=delay_ms,
            detail=detail,
            random=self._random,
        )
        self._ended(row)

    def _ended(self, row: OpenDelivery) -> None:
        """Handle the end of a lease without an ack."""
        self._open.put(row)
        self.exact.failed(row.offset, self._now.us)
        self.cursor.touch()

    def _let_go(self, row: OpenDelivery) -> bool:
        """Handle that a row is committed as it is in memory; return whether its message may be
        delivered now.
        """
        offset = row.offset
        assert self._open.is_durable(row), f"offset {offset} let go before its row is committed"
        if self._inherited.waits or not self.leases.is_unwritten(offset):
            return False  # under a lease of before, perhaps: `expire` tells, and asks again
        if row.reason in (Reason.HOLE, Reason.FAILED):
            if row.not_before_us is None:
                self.leases.make_ready(offset)
            else:
                self.leases.delay(offset, self._now.clock_ms(row.not_before_us))
            return True
        self.leases.hold(offset)
        if row.reason is Reason.PARKED and self.on_parked is not None:
            self.on_parked(row)
        if row.reason in failures.TO_DEAD_LETTERS:
            self.pending_dead_letters.add(offset, self._now.ms)
        return False

    def _close(self, offsets: Sequence[int], how: Settled) -> int:
        closed = 0
        for offset in offsets:
            if self._open.close(offset):
                self.cursor.close(offset, how)
                closed += 1
        return closed

    def _key_hash(self, offset: int) -> int | None:
        return None if self.key_hash_of is None else self.key_hash_of(offset)
