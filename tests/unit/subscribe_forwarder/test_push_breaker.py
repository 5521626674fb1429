"""The breaker of an endpoint."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from edge.breaker import State
from subscribe_forwarder.push.breaker import (
    FAILURES,
    JITTER,
    OF_LAST,
    OF_MOST,
    PAUSE_FIRST_S,
    PAUSE_MOST_S,
    PAUSE_TIMES,
    TRIES,
    EndpointBreaker,
)


def opened(breaker: EndpointBreaker, now_s: float = 0.0) -> EndpointBreaker:
    for _ in range(FAILURES):
        breaker.began(now_s)
        breaker.ended(now_s, well=False, now_s=now_s)
    assert breaker.state is State.OPEN
    return breaker


def test_failures_in_a_row_open_it() -> None:
    breaker = EndpointBreaker(random.Random(1))
    for _ in range(FAILURES - 1):
        breaker.ended(0.0, well=False, now_s=0.0)
    breaker.ended(0.0, well=True, now_s=0.0)
    assert breaker.state is State.CLOSED
    opened(breaker)
    assert "in a row" in breaker.reason


def test_half_of_the_last_open_it() -> None:
    breaker = EndpointBreaker(random.Random(1))
    for n in range(OF_LAST):
        assert breaker.state is State.CLOSED
        breaker.ended(float(n), well=n % 2 == 0, now_s=float(n))
    assert breaker.state is State.OPEN
    assert "of 20" in breaker.reason


def test_a_few_failures_by_chance_do_not_open_it() -> None:
    rng = random.Random(1)
    breaker = EndpointBreaker(random.Random(1))
    for n in range(50_000):
        breaker.ended(float(n), well=rng.random() >= 0.2, now_s=float(n))
        assert breaker.state is State.CLOSED, breaker.reason


def test_one_that_fails_now_and_then_is_shut_when_it_is_away() -> None:
    breaker = EndpointBreaker(random.Random(1))
    for n in range(OF_MOST):
        breaker.ended(float(n), well=n % 5 > 0, now_s=float(n))
    tried = 0
    while breaker.state is State.CLOSED:
        breaker.ended(200.0, well=False, now_s=200.0)
        tried += 1
    assert FAILURES < tried <= 2 * FAILURES
    assert "in a row" in breaker.reason


def test_half_of_many_open_it() -> None:
    breaker = EndpointBreaker(random.Random(1))
    for n in range(OF_MOST):
        breaker.ended(float(n), well=n % 5 > 0, now_s=float(n))
    for n in range(2 * OF_MOST):
        breaker.ended(200.0, well=n % 3 == 0, now_s=200.0)
    assert breaker.state is State.OPEN
    assert f"of {OF_MOST} requests" in breaker.reason


def test_what_tells_nothing_is_nothing() -> None:
    breaker = EndpointBreaker(random.Random(1))
    for n in range(100):
        breaker.ended(float(n), well=None, now_s=float(n))
    assert breaker.state is State.CLOSED


def test_one_tries_at_a_time_and_two_close_it() -> None:
    breaker = opened(EndpointBreaker(random.Random(1)))
    assert breaker.room(0.1) == 0
    due_s = breaker.due_s(0.1)
    assert due_s is not None
    assert PAUSE_FIRST_S * (1 - JITTER) <= due_s <= PAUSE_FIRST_S
    for n in range(TRIES):
        assert breaker.room(due_s) == 1
        breaker.began(due_s)
        assert (breaker.state, breaker.room(due_s)) == (State.HALF_OPEN, 0)
        assert breaker.ended(due_s, well=True, now_s=due_s) is (n == TRIES - 1)
    assert (breaker.state, breaker.room(due_s), breaker.reason) == (State.CLOSED, None, "")


def test_pauses_grow_up_to_the_most() -> None:
    breaker, now_s, pauses = opened(EndpointBreaker(random.Random(1))), 0.0, []
    for _ in range(30):
        due_s = breaker.due_s(now_s)
        assert due_s is not None
        pauses.append(due_s - now_s)
        now_s = due_s
        breaker.began(now_s)
        breaker.ended(now_s, well=False, now_s=now_s)
    for n, pause_s in enumerate(pauses):
        full_s = min(PAUSE_MOST_S, PAUSE_FIRST_S * PAUSE_TIMES**n)
        assert full_s * (1 - JITTER) <= pause_s <= full_s


def test_what_began_before_it_opened_counts_no_more() -> None:
    breaker = opened(EndpointBreaker(random.Random(1)), now_s=10.0)
    due_s = breaker.due_s(10.0)
    assert breaker.ended(9.0, well=True, now_s=11.0) is False
    breaker.ended(9.0, well=False, now_s=11.0)
    assert (breaker.state, breaker.due_s(10.0)) == (State.OPEN, due_s)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 20.0)), max_size=100), st.integers())
def test_it_never_waits_for_ever(events: list[tuple[bool, float]], seed: int) -> None:
    breaker, now_s = EndpointBreaker(random.Random(seed)), 0.0
    for well, pause_s in events:
        now_s += pause_s
        if breaker.room(now_s) == 0:
            due_s = breaker.due_s(now_s)
            assert due_s is not None
            assert due_s <= now_s + PAUSE_MOST_S
            continue
        breaker.began(now_s)
        breaker.ended(now_s, well=well, now_s=now_s)
