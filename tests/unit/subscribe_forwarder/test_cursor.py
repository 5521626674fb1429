"""The cursor against a dictionary of offsets: the books balance after every step."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from metadata.types import Counters, CursorKey, CursorState, Epoch
from subscribe_forwarder.delivery.state import cursor as module
from subscribe_forwarder.delivery.state.cursor import Cursor, CursorDamaged, Settled

KEY = CursorKey(b"t" * 16, b"s" * 16, 3)
EPOCH = Epoch(0, 5)


def state(start: int = 0, **changes: object) -> CursorState:
    fields: dict[str, object] = {
        "key": KEY,
        "topic_uid": b"u" * 16,
        "epoch": EPOCH,
        "generation": 1,
        "start": start,
        "floor": start,
        "read_to": start,
    }
    return CursorState(**(fields | changes))  # type: ignore[arg-type]


class CursorMachine(RuleBasedStateMachine):
    """The dumb twin keeps how each offset was settled, and how far was read."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = Cursor(state(10), EPOCH)
        self.settled: dict[int, Settled] = {}
        self.read_to = 10

    @rule(upto=st.integers(0, 60))
    def classify(self, upto: int) -> None:
        self.cursor.classify(upto)
        self.read_to = max(self.read_to, upto)

    @rule(low=st.integers(10, 60), size=st.integers(1, 9), how=st.sampled_from(Settled))
    def settle(self, low: int, size: int, how: Settled) -> None:
        new = set(range(low, low + size)) - set(self.settled)
        assert self.cursor.settle(low, low + size, how) == len(new)
        self.settled |= dict.fromkeys(new, how)
        self.read_to = max(self.read_to, low + size)

    @rule(offsets=st.lists(st.integers(10, 60), max_size=12))
    def settle_all(self, offsets: list[int]) -> None:
        new = set(offsets) - set(self.settled)
        assert self.cursor.settle_all(sorted(offsets), Settled.ACKED) == len(new)
        self.settled |= dict.fromkeys(new, Settled.ACKED)
        self.read_to = max([self.read_to, *(o + 1 for o in offsets)])

    @rule()
    def reload(self) -> None:
        update = self.cursor.update()
        row = state(
            10,
            floor=update.floor,
            read_to=update.read_to,
            acked=update.acked,
            counters=update.counters,
        )
        assert self.cursor.covers(row)
        assert row.pending() == self.cursor.pending()
        self.cursor = Cursor(row, EPOCH)

    @rule(offset=st.integers(0, 70), end=st.integers(0, 70))
    def gap(self, offset: int, end: int) -> None:
        low, high = self.cursor.gap_at(offset, end)
        open_ = [o for o in range(max(offset, 10), end) if o not in self.settled]
        if open_:
            assert low == open_[0]
            assert not any(o in self.settled for o in range(low, high))
        else:
            assert low >= high

    @invariant()
    def agrees(self) -> None:
        cursor = self.cursor
        floor = 10
        while floor in self.settled:
            floor += 1
        assert (cursor.floor, cursor.read_to) == (floor, self.read_to)
        assert cursor.pending() == self.read_to - 10 - len(self.settled)
        totals = [sum(how is h for how in self.settled.values()) for h in Settled]
        assert cursor.counters() == Counters(*totals)
        assert all(cursor.is_passed(o) is (o in self.settled) for o in range(10, 70))
        assert cursor.balanced()


TestCursorMachine = CursorMachine.TestCase
TestCursorMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_row_that_is_out_of_order_is_refused() -> None:
    with pytest.raises(CursorDamaged):
        Cursor(state(0, floor=9, read_to=5), EPOCH)


def test_a_row_that_does_not_balance_is_kept_and_says_so() -> None:
    cursor = Cursor(state(0, floor=5, read_to=9), EPOCH)
    assert not cursor.balanced()
    assert cursor.update().floor == 5


def test_a_row_with_a_range_at_its_floor_is_refused() -> None:
    with pytest.raises(CursorDamaged):
        Cursor(state(0, read_to=9, acked=((0, 3),), counters=Counters(acked=3)), EPOCH)


def test_a_repeated_ack_changes_nothing() -> None:
    cursor = Cursor(state(), EPOCH)
    cursor.settle_all([0, 1, 1, 2], Settled.ACKED)
    version = cursor.version
    assert cursor.settle_all([0, 2], Settled.ACKED) == 0
    assert cursor.version == version


def test_too_many_ranges_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RANGES", 5)
    cursor = Cursor(state(), EPOCH)
    cursor.settle_all(list(range(1, 14, 2)), Settled.ACKED)
    assert cursor.paused
    cursor.settle_all([2, 4], Settled.ACKED)
    assert not cursor.paused


def test_another_generation_is_not_covered() -> None:
    cursor = Cursor(state(), EPOCH)
    assert not cursor.covers(state(generation=2))
    assert not cursor.covers(state(read_to=1))


def test_a_row_with_more_acked_is_not_covered() -> None:
    row = state(read_to=9, acked=((2, 4),), counters=Counters(acked=2))
    cursor = Cursor(state(read_to=9), EPOCH)
    assert not cursor.covers(row)
    cursor.settle(2, 3, Settled.ACKED)
    assert not cursor.covers(row)
    cursor.settle(3, 4, Settled.ACKED)
    assert cursor.covers(row)
