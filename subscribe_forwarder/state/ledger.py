"""The books of one subscription in one lane of a partition: what is settled, and what is out.

It joins the cursor (what is settled), the leases (who has what until when), the exceptions (what
the cursor stepped over) and, for exactly-once, the leases as they are written down. Whoever hands
out asks here what may go out again; acks, failures and ends of leases are told here.

What must be durable before what: a failure (nack, expiry, reject), a parking and a resumption are
committed before their message is handed out again or goes to the dead letters: `wrote` is told of
each commit and only then lets go. Exactly-once leases are committed before the response leaves,
which is up to whoever sends it.

Pure: no clock, no I/O; deadlines are milliseconds of the caller's monotonic clock.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from metadata.deliveries import DeadLetter, OpenDelivery, Publication, Reason
from metadata.types import CursorState, CursorUpdate, Epoch
from subscribe_forwarder.state.ages import Ages
from subscribe_forwarder.state.cursor import Cursor, Settled
from subscribe_forwarder.state.exceptions import Exceptions
from subscribe_forwarder.state.held_leases import HeldLeases
from subscribe_forwarder.state.holes import step_over_holes
from subscribe_forwarder.state.leases import Grant, LeaseTable
from subscribe_forwarder.state.retry import Now, Policy

__all__ = ["Grant", "Ledger", "Now", "Policy"]

MAX_ROWS = 10_000
"""New open deliveries that one flush carries."""
MAX_TURN = 0xFFFF
_BURY_AGAIN_MS = 30_000
_DOOMED = (Reason.EXHAUSTED, Reason.REJECTED)
_PARKED = (Reason.PARKED, Reason.BEHIND_PARKED)


class Ledger:
    """Changed by its partition's owner only."""

    def __init__(
        self,
        state: CursorState,
        epoch: Epoch,
        policy: Policy | None = None,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.cursor = Cursor(state, epoch)
        """Read it; it changes through the ledger."""
        self.policy = policy or Policy()
        self.on_settled: Callable[[Sequence[int]], None] | None = None
        """Told of offsets that were settled one by one, also those that were never handed out."""
        self.on_doomed: Callable[[OpenDelivery], None] | None = None
        """Told of messages to be dead-lettered, once that is committed; again when it failed."""
        self.on_parked: Callable[[OpenDelivery], None] | None = None
        """Told of messages that are parked, once that is committed."""
        self.key_hash_of: Callable[[int], int | None] | None = None
        self._random = random
        self._leases = LeaseTable()
        self._open = Exceptions(state.stepped_over)
        self._held = HeldLeases(state.leases)
        self._turns: dict[int, int] = {}  # exactly-once: how often it was given back
        self._doomed: list[tuple[int, int]] = []  # (when to tell of it, offset)
        self._dead_letters: list[DeadLetter] = []
        self._publications: list[Publication] = []
        self._now = Now(0, 0)
        self._ages = Ages(self.cursor.floor)
        self._sent: tuple[CursorUpdate, int] | None = None
        self._loaded = bool(state.stepped_over or state.leases)
        if self._loaded:
            self._take_in()

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        if not policy.history:
            self.cursor.history = None
        elif self.cursor.history is None:
            self.cursor.history = []

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
    def exceptions(self) -> Mapping[int, OpenDelivery]:
        """The open deliveries, also those no flush has carried yet."""
        return self._open.rows

    @property
    def has_failures(self) -> bool:
        """Whether `attempt` or `turn` may be more than 1."""
        return bool(self._open) or bool(self._turns)

    def attempt(self, offset: int) -> int:
        """The number of this offset's present attempt, or of its next one; from 1."""
        return self._open.attempts(offset) + 1

    def turn(self, offset: int) -> int:
        """What its ack id says: the attempt, and for exactly-once more than that where a lease was
        given back, so that no two leases share an id."""
        return min(self._open.attempts(offset) + 1 + self._turns.get(offset, 0), MAX_TURN)

    def grant_of(self, offset: int) -> Grant | None:
        """The lease it is under."""
        return self._leases.grant_of(offset)

    def is_waiting(self, offset: int) -> bool:
        return self._leases.is_waiting(offset)

    def paused_reason(self) -> str | None:
        """Why nothing new may be handed out, if so."""
        if self.cursor.paused:
            return "too_many_ranges"
        if len(self._open) >= self.policy.max_exceptions:
            return "too_many_exceptions"
        return None

    # Handing out.

    def peek_ready(self) -> int | None:
        """The lowest offset to be handed out again, after `expire`."""
        return self._leases.peek_ready()

    def take_ready(self) -> int:
        """Takes what `peek_ready` just named out of the waiting ones, to be leased, held or
        settled."""
        return self._leases.take_ready()

    def next_due_ms(self) -> int | None:
        """When a deadline or a delay ends next, if any; may be early, never late."""
        return 0 if self._loaded else self._leases.next_due_ms()

    def classify(self, upto: int) -> None:
        """All below `upto` is now settled or pending: leased, waiting or held."""
        self.cursor.classify(upto)
        self._ages.out_to(upto)

    def lease(self, offsets: list[int], now: Now, deadline_ms: int) -> Grant:
        """Offsets that are neither leased nor waiting."""
        self._now = now
        grant = self._leases.lease(offsets, deadline_ms, self.cursor.epoch.n, now.us)
        if self.policy.exactly_once and offsets:
            by_turn: dict[int, list[int]] = {}
            for offset in offsets:
                by_turn.setdefault(self.turn(offset), []).append(offset)
            for turn, of_turn in by_turn.items():
                self._held.grant(of_turn, self.cursor.epoch, turn, self._wall_us(deadline_ms))
            self.cursor.touch()
        return grant

    def spend(self, grant: Grant) -> bool:
        """At most once: all of it counts as acked, before the response leaves. False when some of
        it is leased no longer: then nothing is settled, and it must not be sent."""
        if grant.live < grant.count:
            return False
        self.settle(sorted(grant.offsets), Settled.ACKED)
        return True

    def hold(self, offset: int) -> None:
        """Read and unsettled, and not to go out before it is offered."""
        self._leases.hold(offset)

    def offer(self, offset: int) -> bool:
        """A held one may go out; False when it is not held, or not to be handed out."""
        row = self._open.rows.get(offset)
        if row is not None and row.reason not in (Reason.HOLE, Reason.FAILED):
            return False
        return self._leases.offer(offset)

    def release(self, grant: Grant) -> int:
        """The response never left: its messages are ready again and no attempt counts."""
        return sum(
            self.give_back(offset)
            for offset in list(grant.offsets)
            if self._leases.grant_of(offset) is grant
        )

    # Ends of leases.

    def settle(self, offsets: Sequence[int], how: Settled) -> int:
        """`offsets` ascending; how many were not settled before."""
        new = self.cursor.settle_all(offsets, how)
        self._leases.settle(offsets)
        if self._open:
            new += self._close(offsets, how)
        if self._held:
            self._end_leases(offsets, how)
        if self.on_settled is not None:
            self.on_settled(offsets)
        return new

    def settle_range(self, low: int, high: int, how: Settled) -> int:
        """Of [low, high), whatever was never handed out; how many were not settled before."""
        return self.cursor.settle(low, high, how)

    def settle_below(self, bound: int, how: Settled) -> int:
        """All below `bound` but open deliveries: leased, waiting, and never handed out alike."""
        below = [o for o in self._leases.below(bound) if not self._open.stepped_over(o)]
        new = self.settle(below, how) if below else 0
        return new + self.cursor.settle(self.cursor.floor, bound, how)

    def fail(self, offset: int, now: Now, delay_ms: int | None, detail: str | None) -> bool:
        """The attempt counts; handed out again after the delay (None: the policy's back-off) and
        not before that is committed. False when it is not leased."""
        self._now = now
        grant = self._leases.end(offset)
        if grant is None:
            return False
        self._failed(offset, grant, delay_ms, detail)
        return True

    def reject(self, offset: int, now: Now, detail: str | None) -> bool:
        """To the dead letters, once that is committed. False when it is not leased."""
        self._now = now
        grant = self._leases.end(offset)
        if grant is None:
            return False
        self._failed(offset, grant, 0, detail, Reason.REJECTED)
        return True

    def give_back(self, offset: int) -> bool:
        """Ready again at once; no attempt counts. False when it is not leased."""
        if not self._leases.give_back(offset):
            return False
        if self.policy.exactly_once:
            self._turns[offset] = self._turns.get(offset, 0) + 1
            self._held.drop(offset, self._now.us)
            self.cursor.touch()
        return True

    def extend(self, offset: int, deadline_ms: int) -> bool:
        """Moves the deadline of a leased offset. False when it is not leased."""
        if not self._leases.extend(offset, deadline_ms):
            return False
        if self.policy.exactly_once:
            self._held.extend(offset, self._wall_us(deadline_ms), self._now.us)
            self.cursor.touch()
        return True

    def expire(self, now: Now) -> int:
        """Ends the leases whose deadline has come, and the delays that are over; how many leases
        ended."""
        self._now = now
        self._ages.mark(now.ms)
        if self._loaded:
            self._loaded = False
            self._schedule_loaded()
        ended = self._leases.due(now.ms)
        for offset, grant in ended:
            self._failed(offset, grant, None, None)
        if self._doomed:
            self._tell_doomed()
        if self._held and self._held.prune(now.us):
            self.cursor.touch()
        return len(ended)

    # Exactly once.

    def holds(self, offset: int, epoch: Epoch, turn: int) -> bool:
        """Whether the offset is under this very lease."""
        return self._held.holds(offset, epoch, turn)

    def acked_under(self, offset: int, epoch: Epoch, turn: int) -> bool:
        """Whether the offset was acked under this very lease."""
        return self._held.acked_under(offset, epoch, turn)

    # Parked keys and dead letters.

    def step_over(self, offsets: Sequence[int], reason: Reason) -> None:
        """Held, pending or never handed out; they are open deliveries from the next flush on."""
        for offset in offsets:
            row = self._open.rows.get(offset)
            if row is None:
                row = OpenDelivery(offset, 0, reason, key_hash=self._key_hash(offset))
            self._open.put(replace(row, reason=reason, not_before_us=None))
            self._leases.hold_unwritten(offset)
        self.cursor.touch()

    def resume(self, offset: int) -> bool:
        """A parked one goes out again, its attempts counted anew. False when it is not parked."""
        row = self._open.rows.get(offset)
        if row is None or row.reason not in _PARKED:
            return False
        self._open.put(replace(row, reason=Reason.HOLE, attempts=0, not_before_us=None))
        self._leases.hold_unwritten(offset)
        self.cursor.touch()
        return True

    def skip(self, offset: int) -> bool:
        """A parked one is settled as skipped. False when it is not parked."""
        row = self._open.rows.get(offset)
        if row is None or row.reason not in _PARKED:
            return False
        self.settle((offset,), Settled.SKIPPED)
        return True

    def bury(self, dead_letter: DeadLetter) -> bool:
        """It is stored as a dead letter. False when it was settled meanwhile."""
        if dead_letter.offset not in self._open:
            return False
        self._dead_letters.append(dead_letter)
        self.settle((dead_letter.offset,), Settled.DEAD_LETTERED)
        return True

    def not_buried(self, offset: int, detail: str) -> None:
        """The dead letter could not be stored: it says why, and is told of again later."""
        row = self._open.rows.get(offset)
        if row is not None and row.reason in _DOOMED:
            self._open.put(replace(row, detail=detail))
            heappush(self._doomed, (self._now.ms + _BURY_AGAIN_MS, offset))
            self.cursor.touch()

    def publish(self, offsets: Sequence[int], publication: Publication) -> None:
        """Acks unsettled offsets; no flush commits that without what it publishes."""
        self._publications.append(publication)
        self.settle(offsets, Settled.ACKED)

    def is_settled(self, offset: int) -> bool:
        """Acked, or done with otherwise."""
        return self.cursor.is_passed(offset) and offset not in self._open

    # Flushes.

    @property
    def dirty(self) -> bool:
        return self.cursor.dirty

    @property
    def version(self) -> int:
        return self.cursor.version

    @property
    def urgent(self) -> bool:
        """Whether a message waits for the next flush to go out again."""
        return self._open.unwritten

    def update(self) -> CursorUpdate:
        """Everything that the next flush has to write. Flushes never overlap."""
        cursor = self.cursor
        for offset in self._open.first_new(MAX_ROWS):
            cursor.step_over(offset)
            self._open.step(offset)
        step_over_holes(cursor, self._leases, self._open, self._ages, self._key_hash)
        rows, closed = self._open.changes()
        leases, ended = self._held.changes()
        update = replace(
            cursor.update(),
            stepped_over=rows,
            closed=closed,
            leases=leases,
            ended_leases=ended,
            dead_letters=tuple(self._dead_letters),
            history=tuple(cursor.history or ()),
            publications=tuple(self._publications),
        )
        # What is left for the next flush is not written by this one.
        self._sent = update, cursor.flushed_version if self._open.new else cursor.version
        return update

    def wrote(self, update: CursorUpdate) -> bool:
        """It is committed; whether a message may go out now that could not before."""
        if self._sent is None or self._sent[0] is not update:
            return False
        cursor = self.cursor
        cursor.flushed_version = max(cursor.flushed_version, self._sent[1])
        self._sent = None
        durable = self._open.wrote(update.stepped_over, update.closed)
        self._held.wrote()
        del self._dead_letters[: len(update.dead_letters)]
        del self._publications[: len(update.publications)]
        if cursor.history is not None:
            del cursor.history[: len(update.history)]
        return sum([self._let_go(row) for row in durable]) > 0

    def resync(self, state: CursorState, epoch: Epoch) -> bool:
        """Goes on under a new epoch with what is in memory, after a flush whose outcome is not
        known. False when memory lacks something that the row has, or has acked what may never be
        published: it must be read anew."""
        if (
            self._publications
            or not self.cursor.covers(state)
            or any(
                row.offset not in self._open and not self.cursor.is_passed(row.offset)
                for row in state.stepped_over
            )
        ):
            return False
        if self._sent is not None and _same(self._sent[0], state):
            self.wrote(self._sent[0])  # so that no history is told twice
        self._sent = None
        self.cursor.epoch = epoch
        for row in self._open.resync(state.stepped_over):
            self._let_go(row)
        self._held.resync(state.leases)
        self.cursor.touch()
        return True

    # Within.

    def _failed(
        self,
        offset: int,
        grant: Grant,
        delay_ms: int | None,
        detail: str | None,
        reason: Reason = Reason.FAILED,
    ) -> None:
        policy, row = self.policy, self._open.rows.get(offset)
        attempts = (0 if row is None else row.attempts) + 1
        if reason is Reason.FAILED and policy.exhausted(attempts):
            if not policy.park:
                reason = Reason.EXHAUSTED
            elif (self._key_hash(offset) if row is None else row.key_hash) is not None:
                reason = Reason.PARKED  # without a key there is nothing to hold back: it goes on
        not_before_us = None
        if reason is Reason.FAILED:
            if delay_ms is None:
                delay_ms = policy.backoff_ms(attempts, self._random)
            not_before_us = self._now.us + delay_ms * 1000 if delay_ms else None
        first_us = None if row is None else row.first_us
        self._open.put(
            OpenDelivery(
                offset,
                attempts,
                reason,
                not_before_us,
                key_hash=self._key_hash(offset) if row is None else row.key_hash,
                detail=row.detail if detail is None and row is not None else detail,
                first_us=grant.leased_us if first_us is None else first_us,
                last_us=grant.leased_us,
            )
        )
        if self._held:
            self._held.drop(offset, self._now.us)
        self.cursor.touch()

    def _let_go(self, row: OpenDelivery) -> bool:
        """The row is committed as it is in memory; whether its message may go out now."""
        offset = row.offset
        if not self._leases.is_unwritten(offset):
            return False
        if row.reason in (Reason.HOLE, Reason.FAILED):
            if row.not_before_us is None:
                self._leases.make_ready(offset)
            else:
                self._leases.delay(offset, self._clock_ms(row.not_before_us))
            return True
        self._leases.hold(offset)
        if row.reason is Reason.PARKED and self.on_parked is not None:
            self.on_parked(row)
        if row.reason in _DOOMED:
            heappush(self._doomed, (self._now.ms, offset))
            self._tell_doomed()
        return False

    def _tell_doomed(self) -> None:
        while self._doomed and self._doomed[0][0] <= self._now.ms and self.on_doomed is not None:
            row = self._open.rows.get(heappop(self._doomed)[1])
            if row is not None and row.reason in _DOOMED:
                self.on_doomed(row)

    def _close(self, offsets: Sequence[int], how: Settled) -> int:
        closed = 0
        for offset in offsets:
            if self._open.close(offset):
                self.cursor.close(offset, how)
                closed += 1
        return closed

    def _end_leases(self, offsets: Sequence[int], how: Settled) -> None:
        end = self._held.acked if how is Settled.ACKED else self._held.drop
        for offset in offsets:
            self._turns.pop(offset, None)
            end(offset, self._now.us)
        self.cursor.touch()

    def _take_in(self) -> None:
        """Open deliveries and leases of the row; their times wait for the first `expire`."""
        for offset, _ in self._held.offsets():
            if not self.cursor.is_passed(offset):
                # So that reading on from the floor does not take it for a new message.
                self._open.put(OpenDelivery(offset, 0, Reason.HOLE))
                self.cursor.step_over(offset)
                self._open.step(offset)
        for row in self._open:
            self._leases.hold_unwritten(row.offset)

    def _schedule_loaded(self) -> None:
        for offset, expires_us in self._held.offsets():
            if offset in self._open and self._leases.is_unwritten(offset):
                self._leases.settle((offset,))
                deadline_ms = self._clock_ms(expires_us)
                self._leases.lease([offset], deadline_ms, leased_us=self._now.us)
            elif offset not in self._open:
                self._held.drop(offset, self._now.us)
        for row in list(self._open):
            self._let_go(row)

    def _key_hash(self, offset: int) -> int | None:
        return None if self.key_hash_of is None else self.key_hash_of(offset)

    def _wall_us(self, ms: int) -> int:
        return self._now.us + (ms - self._now.ms) * 1000

    def _clock_ms(self, us: int) -> int:
        return self._now.ms + -((self._now.us - us) // 1000)


def _same(update: CursorUpdate, state: CursorState) -> bool:
    """Whether the row is what this update wrote, as far as it tells."""
    return (update.floor, update.read_to, update.acked, update.counters, update.exceptions) == (
        state.floor,
        state.read_to,
        state.acked,
        state.counters,
        state.exceptions,
    )
