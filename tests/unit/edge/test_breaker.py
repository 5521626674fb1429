"""The breaker, step by step and in any order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.breaker import SEEN_AGAIN_S, Breaker, Ended, Limits, State

LIMITS = Limits(failures=3, silent_s=2.0, open_first_s=0.5, open_most_s=4.0, probe_every_s=0.25)
CLOSED, HALF_OPEN, OPEN = State.CLOSED, State.HALF_OPEN, State.OPEN


class NoJitter(random.Random):
    def random(self) -> float:
        return 0.0


@pytest.fixture
def breaker() -> Breaker:
    return Breaker(LIMITS, rng=NoJitter())


def fail(breaker: Breaker, now_s: float) -> None:
    breaker.ended(breaker.began(now_s), Ended.FAILURE, now_s)


def opened(breaker: Breaker, now_s: float = 0.0) -> Breaker:
    for _ in range(LIMITS.failures):
        fail(breaker, now_s)
    assert breaker.state is OPEN
    return breaker


def test_failures_in_a_row_open_it(breaker: Breaker) -> None:
    for _ in range(2):
        fail(breaker, 0.0)
        assert breaker.admit(0.0)
    fail(breaker, 0.0)
    assert not breaker.admit(0.0)
    assert breaker.retry_after_s(0.0) == 0.5


def test_a_success_between_them_does_not_and_neither_says_nothing(breaker: Breaker) -> None:
    for how in (Ended.SUCCESS, Ended.NEITHER):
        breaker.ended(breaker.began(0.0), Ended.SUCCESS, 0.0)
        fail(breaker, 0.0)
        fail(breaker, 0.0)
        breaker.ended(breaker.began(0.0), how, 0.0)
    assert breaker.state is CLOSED
    fail(breaker, 0.0)
    assert breaker.state is OPEN


def test_calls_that_wait_without_any_answer_open_it(breaker: Breaker) -> None:
    breaker.began(0.0)
    assert breaker.admit(1.9)
    assert breaker.admit(2.1)  # seen once
    assert not breaker.admit(2.11 + SEEN_AGAIN_S)


def test_calls_made_all_the_same_notice_it_too(breaker: Breaker) -> None:
    for now_s in (0.0, 1.0, 2.0, 3.0):
        breaker.began(now_s)
    assert breaker.state is OPEN


def test_an_answer_to_another_ends_the_silence(breaker: Breaker) -> None:
    breaker.began(0.0)
    breaker.ended(breaker.began(1.5), Ended.SUCCESS, 1.6)
    assert breaker.admit(3.5)
    assert breaker.admit(3.55)
    assert breaker.admit(3.61)  # seen once
    assert not breaker.admit(3.7)


def test_after_a_pause_of_our_own_the_answers_are_read_first(breaker: Breaker) -> None:
    call = breaker.began(0.0)
    assert breaker.admit(10.0)
    breaker.ended(call, Ended.SUCCESS, 10.01)
    assert breaker.admit(10.1)
    assert breaker.state is CLOSED


def test_a_call_that_never_ends_opens_it_once(breaker: Breaker) -> None:
    breaker.began(0.0)
    breaker.admit(2.1)
    assert not breaker.admit(2.2)
    breaker.ended(breaker.began(3.0), Ended.SUCCESS, 3.0)
    for now_s in (5.0, 6.0, 7.0, 8.0):
        assert breaker.admit(now_s)


def test_half_open_lets_one_call_try_at_a_time(breaker: Breaker) -> None:
    opened(breaker)
    assert not breaker.admit(0.49)
    assert breaker.admit(0.5)
    assert breaker.state is HALF_OPEN
    assert not breaker.admit(0.6)
    assert breaker.admit(0.75)  # the first try still waits: another may
    assert not breaker.admit(0.8)


def test_the_open_time_doubles_up_to_its_bound_and_begins_anew(breaker: Breaker) -> None:
    opened(breaker)
    now_s, waits = 0.0, []
    for _ in range(5):
        waits.append(breaker.retry_after_s(now_s))
        now_s += waits[-1] + 1e-9
        assert breaker.admit(now_s)
        fail(breaker, now_s)
    assert waits == pytest.approx([0.5, 1.0, 2.0, 4.0, 4.0])
    breaker.ended(breaker.began(now_s), Ended.SUCCESS, now_s)
    assert breaker.state is CLOSED
    assert opened(breaker, now_s).retry_after_s(now_s) == pytest.approx(0.5)


def test_any_success_closes_it_at_once(breaker: Breaker) -> None:
    early = breaker.began(0.0)
    opened(breaker)
    breaker.ended(early, Ended.SUCCESS, 0.1)
    assert breaker.admit(0.1)


def test_what_is_known_to_be_back_is_tried_at_once_and_has_its_time_again(
    breaker: Breaker,
) -> None:
    breaker.began(0.0)
    opened(breaker).reset(5.0, "another leads")
    assert breaker.state is CLOSED
    assert breaker.admit(6.9)
    assert breaker.admit(6.99)
    assert breaker.admit(7.0)
    assert not breaker.admit(7.1)


def test_failures_of_calls_made_all_the_same_do_not_lengthen_the_open_time(
    breaker: Breaker,
) -> None:
    opened(breaker)
    fail(breaker, 0.3)
    assert breaker.retry_after_s(0.3) == pytest.approx(0.25)  # it was a try as well
    assert not breaker.admit(0.5)
    assert breaker.admit(0.56)


def test_each_change_is_told() -> None:
    told: list[State] = []
    breaker = Breaker(LIMITS, on_change=lambda state, _: told.append(state), rng=NoJitter())
    opened(breaker)
    breaker.admit(1.0)
    fail(breaker, 1.0)
    breaker.ended(breaker.began(1.1), Ended.SUCCESS, 1.1)
    breaker.ended(breaker.began(1.2), Ended.SUCCESS, 1.2)
    assert told == [OPEN, HALF_OPEN, OPEN, CLOSED]


STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "began", *Ended]), st.floats(0, 3)), max_size=80
)


@given(STEPS, st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_whatever_happens(steps: list[tuple[str | Ended, float]], seed: int) -> None:
    breaker = Breaker(LIMITS, rng=random.Random(seed))
    now_s, calls, tried_s = 0.0, [], float("-inf")
    for step, pause_s in steps:
        now_s += pause_s
        before = breaker.state
        if step == "admit":
            wait_s = breaker.retry_after_s(now_s)
            admitted = breaker.admit(now_s)
            if before is not CLOSED:
                # It never keeps anybody off longer than it said, nor than the bound.
                assert admitted is (wait_s == 0)
                assert not admitted or now_s - tried_s >= LIMITS.probe_every_s
                tried_s = now_s if admitted else tried_s
            assert breaker.state is not HALF_OPEN or before is not CLOSED
        elif step == "began":
            calls.append(breaker.began(now_s))
            tried_s = now_s
        elif isinstance(step, Ended) and calls:
            breaker.ended(calls.pop(0), step, now_s)
            if step is Ended.SUCCESS:
                assert breaker.state is CLOSED
            if step is Ended.NEITHER:
                assert breaker.state is before
        assert breaker.retry_after_s(now_s) <= LIMITS.open_most_s
    if breaker.state is not CLOSED:
        assert breaker.admit(now_s + LIMITS.open_most_s + LIMITS.probe_every_s)
