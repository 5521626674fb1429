"""The ledger against dictionaries: who may get what when, across lost flushes and takeovers.

The twin knows of each offset how it was settled or how often it failed, and what of that is in the
row: what goes out again, and after a takeover what is known, must come from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from metadata.delivery.deliveries import DeadLetter, Reason
from metadata.types import CursorUpdate, Epoch
from subscribe_forwarder.delivery.state import holes
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.inherited import InheritedLease
from subscribe_forwarder.delivery.state.ledger import Ledger, Now, Policy
from tests.unit.subscribe_forwarder.subscribe_support import stored, unbalanced_by
from tests.unit.subscribe_forwarder.test_cursor import EPOCH, state

SIZE = 20
OFFSETS = st.integers(0, SIZE - 1)
LASTS_MS = st.sampled_from([2, 5_000, 90_000])
MAX_ATTEMPTS = 3


@dataclass
class One:
    """The twin's knowledge of an offset that was read."""

    where: str = "held"
    """leased, waiting (ready or in back-off), unwritten, held, doomed, settled"""
    until_ms: int = 0
    attempts: int = 0
    reason: Reason | None = None
    how: Settled | None = None


class LedgerMachine(RuleBasedStateMachine):
    policy = Policy(min_backoff_ms=4, max_backoff_ms=16, max_attempts=MAX_ATTEMPTS)

    def __init__(self) -> None:
        super().__init__()
        holes.MANY_RANGES, holes.ENOUGH_RANGES = 4, 2
        self.row = state(0)
        self.now = Now(1_000_000, 1_700_000_000_000_000)
        self.epoch = EPOCH
        self.doomed: list[int] = []
        self.ledger = self._load()
        self.ones: dict[int, One] = {}
        self.next = 0
        self.update: CursorUpdate | None = None
        self.in_update: dict[int, tuple[int, Reason | None]] = {}
        self.durable_attempts: dict[int, int] = {}
        self.durable_settled: set[int] = set()
        self.settled_in_update: set[int] = set()

    def teardown(self) -> None:
        holes.MANY_RANGES, holes.ENOUGH_RANGES = 256, 192

    def _load(
        self, handed: Sequence[InheritedLease] = (), acked: Sequence[int] | None = None
    ) -> Ledger:
        """`acked`: a flush carries their acks before anybody asks for messages."""
        ledger = Ledger(self.row, self.epoch, self.policy, random=lambda: 1.0, handed=handed)
        ledger.pending_dead_letters.on_due = lambda row: self.doomed.append(row.offset)
        if acked is not None:
            ledger.settle(acked, Settled.ACKED)
            self.settled_in_update = set(acked)
            update = ledger.update()
            self._write(update)
            ledger.wrote(update)
        ledger.expire(self.now)
        return ledger

    # Handing out.

    @rule(count=st.integers(1, 5), lasts_ms=LASTS_MS)
    def lease_new(self, count: int, lasts_ms: int) -> None:
        """Take leases as a reader does, from its position on, and over the offsets that
        it passes.
        """
        offsets: list[int] = []
        while len(offsets) < count and self.next < SIZE:
            if self.ledger.cursor.gap_at(self.next, self.next + 1)[0] == self.next:
                offsets.append(self.next)
            self.next += 1
        self.ledger.classify(self.next)
        if offsets:
            self._lease(offsets, lasts_ms)

    @rule()
    def hold_new(self) -> None:
        if self.next < SIZE:
            offset, self.next = self.next, self.next + 1
            if self.ledger.cursor.gap_at(offset, offset + 1)[0] == offset:
                self.ledger.classify(self.next)
                self.ledger.leases.hold(offset)
                self.ones[offset] = One("held")

    @rule(offset=OFFSETS)
    def offer(self, offset: int) -> None:
        one = self.ones.get(offset)
        offered = one is not None and one.where == "held"
        assert self.ledger.offer(offset) is offered
        if offered and one is not None:
            one.where, one.until_ms = "waiting", self.now.ms

    @rule(count=st.integers(1, 5), lasts_ms=LASTS_MS)
    def lease_again(self, count: int, lasts_ms: int) -> None:
        self._expire()
        ready = sorted(
            o
            for o, one in self.ones.items()
            if one.where == "waiting" and one.until_ms <= self.now.ms
        )
        taken = []
        while len(taken) < count and (offset := self.ledger.leases.peek_ready()) is not None:
            assert self.ledger.leases.take_ready() == offset
            taken.append(offset)
        assert taken == ready[:count]
        for offset in taken:
            one = self.ones[offset]
            assert self.durable_attempts.get(offset, 0) == one.attempts, "failures first, durably"
        if taken:
            self._lease(taken, lasts_ms)

    def _lease(self, offsets: list[int], lasts_ms: int) -> None:
        for offset in offsets:
            one = self.ones.setdefault(offset, One())
            assert one.where != "settled"
            one.where, one.until_ms = "leased", self.now.ms + lasts_ms
            assert self.ledger.attempt(offset) == one.attempts + 1
        self.ledger.lease(offsets, self.now, self.now.ms + lasts_ms)

    # Ends of leases.

    @rule(passed_ms=st.sampled_from([1, 3, 10, 61_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now = Now(self.now.ms + passed_ms, self.now.us + passed_ms * 1000)
        self._expire()

    def _expire(self) -> None:
        over = [o for o, one in self.ones.items() if one.where == "leased"]
        over = [o for o in over if self.ones[o].until_ms <= self.now.ms]
        assert self.ledger.expire(self.now) == len(over)
        for offset in over:
            self._failed(offset, None)

    def _failed(self, offset: int, delay_ms: int | None) -> None:
        one = self.ones[offset]
        one.attempts += 1
        one.where = "unwritten"
        exhausted = one.attempts >= MAX_ATTEMPTS
        one.reason = Reason.EXHAUSTED if exhausted else Reason.FAILED
        if delay_ms is None:
            delay_ms = min(16, 4 * 2 ** (one.attempts - 1))
        one.until_ms = self.now.ms + delay_ms

    @rule(pick=OFFSETS, delay_ms=st.none() | st.sampled_from([0, 0, 7, 400]))
    def nack(self, pick: int, delay_ms: int | None) -> None:
        offset = self._leased(pick)
        leased = self._is(offset, "leased")
        assert self.ledger.fail(offset, self.now, delay_ms, "no") is leased
        if leased:
            self._failed(offset, delay_ms)

    @rule(pick=OFFSETS, delay_ms=st.sampled_from([0, 0, 7]))
    def nack_and_flush(self, pick: int, delay_ms: int) -> None:
        """Call nack and flush, as a consumer causes them."""
        self.nack(pick, delay_ms)
        self.flush_begins()
        self.flush_commits()

    @rule(pick=OFFSETS)
    def reject(self, pick: int) -> None:
        offset = self._leased(pick)
        leased = self._is(offset, "leased")
        assert self.ledger.reject(offset, self.now, "bad") is leased
        if leased:
            one = self.ones[offset]
            one.attempts += 1
            one.where, one.reason = "unwritten", Reason.REJECTED

    @rule(
        offsets=st.sets(OFFSETS, max_size=5), how=st.sampled_from([Settled.ACKED, Settled.EXPIRED])
    )
    def settle(self, offsets: set[int], how: Settled) -> None:
        known = sorted(o for o in offsets if o in self.ones)
        new = [o for o in known if not self._is(o, "settled")]
        assert self.ledger.settle(known, how) == len(new)
        for offset in new:
            self.ones[offset].where, self.ones[offset].how = "settled", how

    @rule(offset=OFFSETS)
    def give_back(self, offset: int) -> None:
        leased = self._is(offset, "leased")
        assert self.ledger.give_back(offset) is leased
        if leased:
            self.ones[offset].where, self.ones[offset].until_ms = "waiting", self.now.ms

    @rule(offset=OFFSETS, lasts_ms=LASTS_MS)
    def extend(self, offset: int, lasts_ms: int) -> None:
        leased = self._is(offset, "leased")
        assert self.ledger.extend(offset, self.now.ms + lasts_ms) is leased
        if leased:
            self.ones[offset].until_ms = self.now.ms + lasts_ms

    @rule(bound=OFFSETS)
    def truncated(self, bound: int) -> None:
        """Open deliveries are kept; all else below is gone."""
        open_ = set(self.ledger.exceptions)
        stepped = {o for o in open_ if self.ledger.cursor.gap_at(o, o + 1)[0] != o}
        self.ledger.settle_below(bound, Settled.EXPIRED)
        for offset in range(bound):
            one = self.ones.setdefault(offset, One())
            if one.where != "settled" and offset not in stepped:
                one.where, one.how = "settled", Settled.EXPIRED
        self.next = max(self.next, bound)

    # Dead letters.

    @rule()
    def bury(self) -> None:
        for offset in self.doomed:
            if self._is(offset, "doomed"):
                assert self.ledger.add_dead_letter(letter(offset))
                self.ones[offset].where = "settled"
                self.ones[offset].how = Settled.DEAD_LETTERED
        self.doomed = []

    # Flushes.

    @rule()
    def flush_begins(self) -> None:
        if self.update is None:
            self.update = self.ledger.update()
            self.in_update = {
                o: (one.attempts, one.reason)
                for o, one in self.ones.items()
                if one.where == "unwritten"
            }
            self.settled_in_update = {o for o, one in self.ones.items() if one.where == "settled"}

    @rule()
    def flush(self) -> None:
        self.flush_begins()
        self.flush_commits()

    @rule()
    def flush_commits(self) -> None:
        if self.update is None:
            return
        self._write(self.update)
        self.ledger.wrote(self.update)
        self.update = None
        self._told()

    @rule()
    def flush_is_refused(self) -> None:
        self.update = None

    def _write(self, update: CursorUpdate) -> None:
        self.row = stored(self.row, update)
        assert unbalanced_by(self.row) == 0
        self.durable_settled |= self.settled_in_update
        self.durable_attempts = {row.offset: row.attempts for row in self.row.stepped_over}

    def _told(self) -> None:
        """Move every unwritten offset on whose state is in the row."""
        for offset, one in self.ones.items():
            known = self.in_update.get(offset)
            if one.where == "unwritten" and known == (one.attempts, one.reason):
                assert self.durable_attempts.get(offset) == one.attempts
                doomed = one.reason is not Reason.FAILED
                one.where = "doomed" if doomed else "waiting"
                if doomed:
                    assert offset in self.doomed, "told of it"

    @rule(happened=st.booleans())
    def outcome_unknown(self, happened: bool) -> None:
        """The partition is claimed again; the row may or may not have the flush."""
        if self.update is None:
            return
        if happened:
            self._write(self.update)
        self.update = None
        self.epoch = Epoch(0, self.epoch.n + 1)
        assert self.ledger.resync(self.row, self.epoch)
        if happened:
            self._told()

    @rule()
    def takeover(self) -> None:
        """Only the row is left: what it says is known, the rest is handed out anew."""
        self._taken_over(())

    @rule(acked=st.none() | st.sets(OFFSETS, max_size=5))
    def hand_over(self, acked: set[int] | None) -> None:
        """The owner flushes, and tells the next one of its leases: they go on. There the acks of
        some may come first."""
        self.flush_is_refused()
        self.flush()
        leased = {o: one.until_ms for o, one in self.ones.items() if one.where == "leased"}
        early = None if acked is None else sorted(acked & leased.keys())
        self._taken_over(self.ledger.to_hand(), early)
        for offset, until_ms in leased.items():
            one = self.ones.setdefault(offset, One())
            if offset in (early or ()):
                one.where, one.how = "settled", Settled.ACKED
            else:
                one.where, one.until_ms = "leased", until_ms
        self._expire()

    @rule(stale=st.lists(st.tuples(OFFSETS, LASTS_MS), max_size=4, unique_by=lambda each: each[0]))
    def handed_nonsense(self, stale: list[tuple[int, int]]) -> None:
        """Leases of long ago: of what is settled, or was never read, none is one."""
        gone = {o for o in range(SIZE) if o >= self.row.read_to or o in self.durable_settled}
        handed = [InheritedLease(self.now.ms + lasts, 1, o) for o, lasts in stale if o in gone]
        self._taken_over(handed)

    def _taken_over(
        self, handed: Sequence[InheritedLease], acked: Sequence[int] | None = None
    ) -> None:
        self.update = None
        self.epoch = Epoch(0, self.epoch.n + 1)
        self.doomed = []
        self.ledger = self._load(handed, acked)
        self.next = self.row.floor
        rows = {row.offset: row for row in self.row.stepped_over}
        before, self.ones = self.ones, {}
        for offset, one in before.items():
            if offset in self.durable_settled:
                self.ones[offset] = one
        for offset, row in rows.items():
            one = self.ones[offset] = One("waiting", attempts=row.attempts, reason=row.reason)
            if row.reason in (Reason.EXHAUSTED, Reason.REJECTED):
                one.where = "doomed"
                assert offset in self.doomed
            elif row.not_before_us is not None:
                one.until_ms = self.now.ms - (self.now.us - row.not_before_us) // 1000

    def _leased(self, pick: int) -> int:
        """Return an offset that is leased, if there is one."""
        leased = sorted(o for o, one in self.ones.items() if one.where == "leased")
        return leased[pick % len(leased)] if leased else pick

    def _is(self, offset: int, where: str) -> bool:
        return offset in self.ones and self.ones[offset].where == where

    @invariant()
    def agrees(self) -> None:
        ledger, ones = self.ledger, self.ones
        assert ledger.cursor.balanced()
        leased = {o for o, one in ones.items() if one.where == "leased"}
        waiting = {o for o, one in ones.items() if one.where not in ("leased", "settled")}
        assert ledger.leases.leased == len(leased)
        assert ledger.leases.waiting == len(waiting)
        assert all(ledger.leases.grant_of(o) is not None for o in leased)
        assert all(ledger.leases.is_waiting(o) for o in waiting)
        failed = {
            o: one.attempts for o, one in ones.items() if one.attempts and o in leased | waiting
        }
        told = {o: row.attempts for o, row in ledger.exceptions.items() if row.attempts}
        assert told == failed
        totals = [
            sum(one.how is how for one in ones.values() if one.where == "settled")
            for how in Settled
        ]
        counters = ledger.cursor.counters()
        assert totals == [
            counters.acked,
            counters.filtered,
            counters.skipped,
            counters.expired,
            counters.dead_lettered,
        ]


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def letter(offset: int) -> DeadLetter:
    return DeadLetter(
        uid=bytes(16),
        offset=offset,
        message_id="m",
        key=None,
        attributes={},
        content_type=None,
        size_bytes=1,
        reason="exhausted",
        detail=None,
        attempts=3,
        first_us=None,
        last_us=None,
        publish_us=0,
        letter_topic_uid=bytes(16),
        letter_partition=0,
        letter_lane=0,
        letter_offset=0,
    )
