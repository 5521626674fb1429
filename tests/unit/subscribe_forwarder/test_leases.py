"""The lease table against a dictionary of states."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from subscribe_forwarder.delivery.state import leases as module
from subscribe_forwarder.delivery.state.leases import LeaseTable

NEVER = 10**9
OFFSETS = st.integers(0, 25)


class LeaseMachine(RuleBasedStateMachine):
    """The twin: offset → (leased until) or (waiting until); None: held; NEVER: not written."""

    def __init__(self) -> None:
        super().__init__()
        module._SLACK = 4  # so that compaction happens all the time
        self.table = LeaseTable()
        self.table.on_outstanding = self._tell
        self.told = False
        self.now_ms = 0
        self.leased: dict[int, int] = {}
        self.waiting: dict[int, int | None] = {}

    def _tell(self) -> None:
        self.told = True

    def teardown(self) -> None:
        module._SLACK = 1024

    @rule(offsets=st.sets(OFFSETS, min_size=1, max_size=6), lasts_ms=st.integers(1, 50))
    def lease_new(self, offsets: set[int], lasts_ms: int) -> None:
        new = sorted(offsets - set(self.leased) - set(self.waiting))
        if new:
            self._grant(new, self.now_ms + lasts_ms)

    @rule(count=st.integers(1, 4), lasts_ms=st.integers(1, 50))
    def lease_again(self, count: int, lasts_ms: int) -> None:
        taken: list[int] = []
        due = sorted(o for o, at in self.waiting.items() if at is not None and at <= self.now_ms)
        while len(taken) < count and (offset := self.table.peek_ready()) is not None:
            assert offset == due[len(taken)], "the lowest first"
            assert self.table.take_ready() == offset
            taken.append(offset)
        assert taken == due[:count]
        for offset in taken:
            del self.waiting[offset]
        if taken:
            self._grant(taken, self.now_ms + lasts_ms)

    def _grant(self, offsets: list[int], deadline_ms: int) -> None:
        self.table.lease(list(offsets), deadline_ms, epoch_n=1)
        self.leased |= dict.fromkeys(offsets, deadline_ms)

    @rule(passed_ms=st.integers(0, 30))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        due = self.table.next_due_ms()
        delayed = [at for at in self.waiting.values() if at is not None and at < NEVER]
        ends = [*self.leased.values(), *(at for at in delayed if at > self.now_ms)]
        assert due is None or not ends or due <= min(ends), "early, never late"
        assert due is not None or not self.leased
        over = [o for o, at in self.leased.items() if at <= self.now_ms]
        assert sorted(offset for offset, _ in self.table.due(self.now_ms)) == sorted(over)
        for offset in over:
            del self.leased[offset]
            self.waiting[offset] = NEVER

    @rule(offsets=st.lists(OFFSETS, max_size=8))
    def settle(self, offsets: list[int]) -> None:
        self.table.settle(offsets)
        for offset in offsets:
            self.leased.pop(offset, None)
            self.waiting.pop(offset, None)

    @rule(offset=OFFSETS)
    def end(self, offset: int) -> None:
        grant = self.table.grant_of(offset)
        assert self.table.end(offset) is grant
        if self.leased.pop(offset, None) is not None:
            assert grant is not None
            self.waiting[offset] = NEVER

    @rule(offset=OFFSETS, delay_ms=st.none() | st.integers(1, 40))
    def written(self, offset: int, delay_ms: int | None) -> None:
        assert self.table.is_unwritten(offset) is (self.waiting.get(offset) == NEVER)
        if self.waiting.get(offset) == NEVER and delay_ms is None:
            self.table.make_ready(offset)
            self.waiting[offset] = self.now_ms
        elif self.waiting.get(offset) == NEVER and delay_ms is not None:
            self.table.delay(offset, self.now_ms + delay_ms)
            self.waiting[offset] = self.now_ms + delay_ms

    @rule(offset=OFFSETS)
    def hold(self, offset: int) -> None:
        if offset not in self.leased:
            self.table.hold(offset)
            self.waiting[offset] = None

    @rule(offset=OFFSETS)
    def offer(self, offset: int) -> None:
        held = offset in self.waiting and self.waiting[offset] is None
        assert self.table.offer(offset) is held
        if held:
            self.waiting[offset] = self.now_ms

    @rule(offset=OFFSETS, lasts_ms=st.integers(1, 60))
    def extend(self, offset: int, lasts_ms: int) -> None:
        assert self.table.extend(offset, self.now_ms + lasts_ms) is (offset in self.leased)
        if offset in self.leased:
            self.leased[offset] = self.now_ms + lasts_ms

    @rule(offset=OFFSETS)
    def give_back(self, offset: int) -> None:
        assert self.table.give_back(offset) is (offset in self.leased)
        if self.leased.pop(offset, None) is not None:
            self.waiting[offset] = self.now_ms

    @rule(bound=OFFSETS)
    def below(self, bound: int) -> None:
        assert self.table.below(bound) == sorted(
            o for o in (*self.leased, *self.waiting) if o < bound
        )

    @invariant()
    def is_told_of(self) -> None:
        assert self.told or not self.table.outstanding
        self.told = bool(self.table.outstanding)

    @invariant()
    def agrees(self) -> None:
        table = self.table
        assert table.leased == len(self.leased)
        assert table.waiting == len(self.waiting)
        assert all((table.grant_of(o) is not None) is (o in self.leased) for o in range(26))
        assert all(table.is_waiting(o) is (o in self.waiting) for o in range(26))
        heaps = table._granted + len(table._ready) + len(table._delayed)
        assert heaps <= 3 * (2 * table.outstanding + 4) + 12, "what is gone leaves the heaps"


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_a_grant_acked_whole_leaves_no_trace_before_its_deadline() -> None:
    table = LeaseTable()
    for first in range(0, 100_000, 10):
        offsets = list(range(first, first + 10))
        table.lease(offsets, 12 * 3_600_000)
        table.settle(offsets)
    assert table.outstanding == 0
    assert len(table._deadlines) < 200
    assert table.next_due_ms() is None


def test_what_is_given_back_is_leased_again() -> None:
    table = LeaseTable()
    table.lease([0, 1], 1_000)
    assert table.give_back(0)
    assert table.peek_ready() == table.take_ready() == 0
    table.lease([0], 1_000)
    assert (table.leased, table.waiting) == (2, 0)


def test_an_ack_while_a_nack_delay_runs_ends_it() -> None:
    table = LeaseTable()
    table.lease([4], 1000)
    assert table.end(4) is not None
    table.delay(4, 500)
    table.settle([4])
    table.due(600)
    assert table.peek_ready() is None
