"""Test how many requests an endpoint is sent, against modelled endpoints in simulated time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.breaker import State
from subscribe_forwarder.push import limiter as limiter_module
from subscribe_forwarder.push.limiter import LEAST, MOST, START, Limiter, Load
from tests.unit.subscribe_forwarder.push_model import (
    Failing,
    Model,
    Outage,
    Queueing,
    RateLimited,
    Refusing,
    Sent,
    Told,
    made,
    run,
)

WARM_S = 10.0
CAPACITIES = [(1, 0.1), (4, 0.05), (10, 0.2), (50, 0.05), (100, 0.2)]
DOWN = [
    Told(0.001, None, "refused"),
    Told(10.0, None, "timeout"),
    Told(0.01, 503),
    Told(0.01, 500),
]


def warm(model: Model, until_s: float = 60.0) -> list[Sent]:
    return [one for one in run(model, until_s) if one.began_s >= WARM_S]


def per_second(sent: list[Sent], span_s: float = 50.0) -> float:
    return sum(one.well for one in sent) / span_s


def succeeded(sent: list[Sent]) -> float:
    return sum(one.well for one in sent) / len(sent)


@pytest.mark.parametrize(("capacity", "latency_s"), CAPACITIES)
def test_one_that_queues_is_kept_busy_and_not_flooded(capacity: int, latency_s: float) -> None:
    sent = warm(Queueing(capacity, latency_s, random.Random(1)))
    mean_s = latency_s * 1.046  # of the jitter
    assert per_second(sent) > 0.9 * capacity / mean_s
    assert max(one.in_flight for one in sent) <= max(4 * capacity, 3 * START)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("capacity", "latency_s"), CAPACITIES)
def test_one_that_refuses_is_kept_busy_and_seldom_asked_too_much(
    capacity: int, latency_s: float, status: int
) -> None:
    sent = warm(Refusing(capacity, latency_s, status))
    assert per_second(sent) > 0.8 * capacity / latency_s
    assert succeeded(sent) > 0.95


@pytest.mark.parametrize(("rate", "latency_s"), [(10, 0.005), (100, 0.01), (1000, 0.02)])
def test_a_rate_that_nobody_told_is_found(rate: float, latency_s: float) -> None:
    sent = warm(RateLimited(rate, latency_s))
    assert per_second(sent) > 0.8 * rate
    assert succeeded(sent) > 0.9


@pytest.mark.parametrize("how", DOWN, ids=lambda told: told.failure or told.status)
@pytest.mark.parametrize("kind", [Queueing, Refusing])
def test_an_outage_of_a_minute_ends_without_a_stampede(how: Told, kind: type) -> None:
    inner = Queueing(20, 0.02, random.Random(5)) if kind is Queueing else Refusing(20, 0.02)
    sent = run(Outage(inner, 20.0, 80.0, how), 200.0)
    during = [one for one in sent if 20.0 <= one.began_s < 80.0]
    after = [one for one in sent if one.began_s >= 80.0]
    assert len(during) < 60, "what it was asked while it was away"
    assert succeeded(after) > 0.95
    began_s = after[0].began_s
    assert began_s < 80.0 + 31.0
    first = [one for one in after if one.began_s < began_s + 10.0]
    assert per_second(first, 10.0) > 0.3 * 20 / 0.02, "it is back within seconds"


FACTOR = 2.0
"""An endpoint that fails up to 20 % of its requests takes at least a healthy one's rate by this
(docs/operations/webhooks.md)."""


@pytest.mark.parametrize("status", [503, 429, 500])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
@pytest.mark.parametrize(("capacity", "latency_s"), [(12, 0.005), (50, 0.05)])
def test_one_that_fails_a_share_of_its_requests_is_kept_busy(
    capacity: int, latency_s: float, share: float, status: int
) -> None:
    rng = random.Random(1)
    healthy = Queueing(capacity, latency_s, rng)
    sent = [
        one
        for one in run(Failing(healthy, share, rng, status), WARM_S + 10.0)
        if one.began_s >= WARM_S
    ]
    assert per_second(sent, 10.0) > capacity / (latency_s * 1.046) / FACTOR
    assert max(one.in_flight for one in sent) <= 6 * capacity, "and it is not flooded"


def test_a_share_that_is_refused_however_little_is_sent_is_learned() -> None:
    endpoint = made()
    model = Failing(Queueing(12, 0.005, random.Random(1)), 0.2, random.Random(2))
    run(model, 2.0, endpoint=endpoint)
    assert 0.1 < endpoint.limiter.background < 0.35
    endpoint = made()
    run(Refusing(20, 0.02), 20.0, endpoint=endpoint)
    assert endpoint.limiter.background == 0.0


def test_more_capacity_is_found() -> None:
    class Grows:
        def __init__(self) -> None:
            self.few, self.many = Refusing(5, 0.05), Refusing(100, 0.05)

        def asked(self, now_s: float) -> Told:
            return (self.few if now_s < 30 else self.many).asked(now_s)

    sent = [one for one in run(Grows(), 120.0) if one.began_s > 90.0]
    assert per_second(sent, 30.0) > 0.7 * 100 / 0.05


def test_one_that_became_slower_for_good_is_measured_anew() -> None:
    class Slower:
        def __init__(self) -> None:
            rng = random.Random(1)
            self.before, self.after = Queueing(40, 0.02, rng), Queueing(40, 0.1, rng)

        def asked(self, now_s: float) -> Told:
            return (self.before if now_s < 30 else self.after).asked(now_s)

    sent = [one for one in run(Slower(), 300.0) if one.began_s > 200.0]
    assert per_second(sent, 100.0) > 0.7 * 40 / 0.1


@given(
    events=st.lists(
        st.tuples(st.sampled_from(list(Load)), st.floats(0.0, 5.0), st.integers(1, 40)),
        max_size=200,
    )
)
@settings(max_examples=200, deadline=None)
def test_whatever_happens_the_limit_holds(events: list[tuple[Load, float, int]]) -> None:
    limiter, now_s = Limiter(0.0), 0.0
    out: list[float] = []
    for load, pause_s, ends in events:
        were_out = len(out)
        for _ in range(limiter.room(now_s)):
            limiter.began()
            out.append(now_s)
        assert limiter.in_flight == len(out) <= max(were_out, 1, int(limiter.limit))
        now_s += pause_s
        before = limiter.limit
        for began_s in out[:ends]:
            limiter.ended(began_s, load, now_s)
        if load is not Load.TAKEN:
            assert limiter.limit <= before or limiter.limit <= START
        del out[:ends]
        assert LEAST <= limiter.limit <= MOST
        assert limiter.room(now_s) <= max(1, int(limiter.limit))
        if not out and not limiter.room(now_s):
            due_s = limiter.due_s(now_s)
            assert due_s is not None
            assert due_s <= now_s + limiter_module.MAX_GAP_S


def test_one_busy_answer_of_many_on_their_way_is_enough() -> None:
    limiter = Limiter(0.0)
    for _ in range(4):
        limiter.began()
    for _ in range(4):
        limiter.ended(0.0, Load.TOO_MUCH, 0.1)
    assert limiter.limit == START / 2


def test_the_limit_of_who_uses_little_does_not_grow() -> None:
    limiter = Limiter(0.0)
    for second in range(1000):
        limiter.began()
        limiter.ended(float(second), Load.TAKEN, second + 0.1)
    assert limiter.limit == START


def test_an_endpoint_that_works_is_never_shut() -> None:
    endpoint = made()
    run(Queueing(10, 0.05, random.Random(2)), 60.0, endpoint=endpoint)
    assert endpoint.breaker.state is State.CLOSED
