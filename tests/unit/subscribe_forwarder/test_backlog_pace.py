"""Changes are told at once the first time, and together after that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from subscribe_forwarder.fleet.backlogs.pace import Pace

A, B = b"a", b"b"


def test_the_first_change_is_due_at_once() -> None:
    pace = Pace(1.0)
    assert pace.next_s() is None
    pace.changed(A)
    assert pace.next_s() == 0
    assert pace.due(10.0) == {A}
    assert pace.due(10.0) == set()


def test_later_changes_are_due_together_once_the_interval_is_over() -> None:
    pace = Pace(1.0)
    pace.changed(A)
    pace.due(10.0)
    for _ in range(5):
        pace.changed(A)
    assert pace.due(10.9) == set()
    assert pace.next_s() == 11.0
    assert pace.due(11.0) == {A}


def test_what_rested_without_a_change_is_due_at_once_again() -> None:
    pace = Pace(1.0)
    pace.changed(A)
    pace.due(10.0)
    assert pace.next_s() is None
    pace.due(12.0)
    pace.changed(A)
    assert pace.due(12.0) == {A}


def test_keys_do_not_wait_for_each_other() -> None:
    pace = Pace(1.0)
    pace.changed(A)
    pace.due(10.0)
    pace.changed(B)
    assert pace.due(10.5) == {B}


def test_what_is_forgotten_is_not_due() -> None:
    pace = Pace(1.0)
    pace.changed(A)
    pace.forget(A)
    assert pace.due(10.0) == set()
    pace.changed(A)
    pace.due(10.0)
    pace.changed(A)
    pace.forget(A)
    assert pace.due(20.0) == set()


@given(st.lists(st.tuples(st.sampled_from([A, B, b"c"]), st.integers(0, 30)), max_size=60))
def test_nothing_is_lost_and_nothing_comes_too_often(steps: list[tuple[bytes, int]]) -> None:
    """A change is due within the interval after it, and two dues of a key are that far apart."""
    pace, now = Pace(10), 0
    waits: dict[bytes, int] = {}
    last: dict[bytes, int] = {}
    for key, pause in [*steps, (A, 0), (B, 0)]:
        pace.changed(key)
        waits.setdefault(key, now)
        for _ in range(pause + 1):
            for due in pace.due(now):
                assert now - waits.pop(due) <= 10
                assert now - last.get(due, -10) >= 10
                last[due] = now
            next_s = pace.next_s()
            assert next_s is not None or not waits
            now += 1
