"""The limiter in simulated time: the amounts that pass, and the refusals."""

from __future__ import annotations

import re

import pytest

from edge.quota import (
    IN_FLIGHT,
    PUBLISH_BYTES,
    PUBLISH_MESSAGES,
    PUBLISH_QUOTAS,
    PUSH_CONCURRENCY,
    REQUESTS,
    STORED_BYTES,
    QuotaRefusal,
    rate_limited,
)
from gateway.quotas.bucket import BURST_S, policy_of
from gateway.quotas.limiter import PRESENCE, Limiter
from gateway.quotas.shares import share_of
from metadata.tenancy.quota_demands import Demand
from metadata.tenancy.quotas import TenantQuota
from metadata.tenancy.tenants import PLATFORM_ID
from openapi.usage import QUOTA_NAMES

ONE, OTHER = b"1" * 16, b"2" * 16
ALL = (*PUBLISH_QUOTAS, REQUESTS, IN_FLIGHT, PUSH_CONCURRENCY)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def limiter_of(clock: Clock, defaults: dict[str, float] | None = None, **own: float) -> Limiter:
    limiter = Limiter(ALL, defaults or {}, clock)
    limiter.follow([TenantQuota(ONE, own)] if own else [], all_of_them=True)
    return limiter


def passing(limiter: Limiter, clock: Clock, seconds: float, size: int = 1) -> int:
    """Return how many pass of twice as many as may."""
    passed = 0
    for _ in range(round(seconds * 200)):
        clock.now_s += 0.005
        passed += size * (limiter.take_publish(ONE, size, 10) is None)
    return passed


def test_the_names_are_those_of_the_limits() -> None:
    assert {*ALL, STORED_BYTES, "topics", "subscriptions"} == set(QUOTA_NAMES)


def test_who_has_no_limits_is_never_refused_and_leaves_nothing_behind() -> None:
    limiter = limiter_of(Clock(), publish_messages_per_second=1)
    for _ in range(1000):
        assert limiter.take_publish(OTHER, 1000, 10**9) is None
        assert limiter.take(OTHER, REQUESTS, 1) is None
    assert limiter.headers(OTHER, PUBLISH_QUOTAS) == ()
    assert limiter.share(OTHER, IN_FLIGHT, 5, 5) is None
    assert not [one for one in limiter.look(1.0) if one.tenant_id == OTHER]


def test_the_mean_is_the_rate() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=100)
    assert passing(limiter, clock, 10) == pytest.approx(1000 + 100 * BURST_S, abs=2)


def test_of_two_limits_both_are_taken_or_neither() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=100, publish_bytes_per_second=1000)
    assert limiter.take_publish(ONE, 1, 5000) is None
    refusal = limiter.take_publish(ONE, 10, 1)
    assert refusal is not None
    assert refusal.quota == PUBLISH_BYTES
    assert refusal.retry_after_s == pytest.approx((5000 - 1000 * BURST_S) / 1000)
    (_, left), *_ = [one for one in refusal.headers if one[0] == b"ratelimit"]
    assert f'"publish_messages_per_second";r={100 * BURST_S - 1:.0f};t=1'.encode() in left
    clock.now_s += refusal.retry_after_s + 0.01
    assert limiter.take_publish(ONE, 1, 1) is None


def test_what_is_larger_than_a_second_passes_and_is_made_up_for() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=100)
    assert limiter.take_publish(ONE, 1000, 1) is None
    refusal = limiter.take_publish(ONE, 1, 1)
    assert refusal is not None
    assert refusal.retry_after_s == pytest.approx(10 - BURST_S)
    clock.now_s += refusal.retry_after_s - 0.1
    assert limiter.take_publish(ONE, 1, 1) is not None
    clock.now_s += 0.2
    assert limiter.take_publish(ONE, 1, 1) is None


def test_requests_have_a_limit_of_their_own() -> None:
    limiter = limiter_of(Clock(), requests_per_second=40)
    refused = [limiter.take(ONE, REQUESTS, 1) is not None for _ in range(20)]
    assert refused == [False] * 10 + [True] * 10


def test_the_platforms_limits_hold_for_who_has_none_of_its_own() -> None:
    clock = Clock()
    limiter = limiter_of(clock, {PUBLISH_MESSAGES: 10.0}, publish_messages_per_second=0)
    for _ in range(100):
        assert limiter.take_publish(ONE, 1, 1) is None, "0 is no limit"
        assert limiter.take_publish(PLATFORM_ID, 1, 1) is None
    assert limiter.take_publish(OTHER, 100, 1) is None
    assert limiter.take_publish(OTHER, 1, 1) is not None


def test_limits_that_change_hold_at_once() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=10)
    limiter.take_publish(ONE, 100, 1)
    assert limiter.take_publish(ONE, 1, 1) is not None
    limiter.follow([TenantQuota(ONE, {PUBLISH_MESSAGES: 1000})])
    clock.now_s += 0.2
    assert limiter.take_publish(ONE, 1, 1) is None
    limiter.follow([TenantQuota(ONE, {PUBLISH_MESSAGES: 10})])
    limiter.take_publish(ONE, 100, 1)
    assert limiter.take_publish(ONE, 1, 1) is not None
    limiter.follow([TenantQuota(ONE, {PUBLISH_MESSAGES: None})])
    assert limiter.take_publish(ONE, 1, 1) is None
    limiter.follow([], all_of_them=True)
    assert limiter.take_publish(ONE, 1, 1) is None
    assert limiter.look(1.0) == []


def test_who_has_asked_for_nothing_for_a_while_is_forgotten() -> None:
    clock = Clock()
    limiter = limiter_of(clock, {PUBLISH_MESSAGES: 10.0})
    for number in range(1000):
        limiter.take_publish(number.to_bytes(16, "big"), 1, 1)
    for _ in range(60):
        clock.now_s += 1.0
        limiter.learn({(one.tenant_id, one.quota): one.demand for one in limiter.look(1.0)})
    assert limiter._tenants == {}


def test_what_is_told_is_what_is_asked_for_and_what_is_owed() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=100)
    passing(limiter, clock, 1.0)
    told = {one.quota: one.demand for one in limiter.look(1.0) if one.tenant_id == ONE}
    assert told == {PUBLISH_MESSAGES: 200}
    clock.now_s += 30.0
    for _ in range(10):
        last = [one.demand for one in limiter.look(1.0) if one.tenant_id == ONE]
    assert last == []
    limiter.take_publish(ONE, 5000, 1)
    limiter.look(1.0)
    clock.now_s += 10.0
    (owed,) = [one.demand for one in limiter.look(10.0) if one.tenant_id == ONE]
    assert owed >= 5000 - 11 * 100
    present = [one for one in limiter.look(1.0) if one.tenant_id == PLATFORM_ID]
    assert present == [Demand(PLATFORM_ID, PRESENCE + name, 1.0) for name in ALL]


def test_a_jump_hurries_once() -> None:
    clock = Clock()
    limiter = limiter_of(clock, publish_messages_per_second=100)
    hurried: list[float] = []
    limiter.hurry = lambda: hurried.append(clock())
    passing(limiter, clock, 1.0)
    assert len(hurried) == 1
    limiter.look(1.0)
    passing(limiter, clock, 1.0)
    assert len(hurried) == 1


def test_levels_follow_what_is_held_and_wanted() -> None:
    clock = Clock()
    limiter = limiter_of(clock, in_flight=90)
    assert limiter.share(ONE, IN_FLIGHT, 10, 20) == 90
    (told,) = [one for one in limiter.look(1.0) if one.tenant_id == ONE]
    assert told == Demand(ONE, IN_FLIGHT, 30)
    limiter.learn({(ONE, IN_FLIGHT): 120.0, (PLATFORM_ID, PRESENCE + IN_FLIGHT): 3.0})
    assert limiter.share(ONE, IN_FLIGHT, 10, 0) == pytest.approx(22.5)


def test_shares_of_those_who_ask_add_up() -> None:
    asked = [500.0, 300.0, 200.0, 50.0]
    shares = [share_of(100, one, sum(asked), 4) for one in asked]
    assert sum(shares) == pytest.approx(100)
    assert share_of(100, 0, 1000, 4) == 25
    assert share_of(100, 1, 1000, 4) == 25 * 0.05


def test_policies_are_whole_numbers() -> None:
    assert policy_of(PUBLISH_MESSAGES, 100) == '"publish_messages_per_second";q=100;w=1'
    assert policy_of(REQUESTS, 0.25) == '"requests_per_second";q=1;w=4'
    assert policy_of(PUBLISH_BYTES, 2.5).endswith(';q=2;w=1;qu="content-bytes"')


def test_the_429_says_which_limit_and_when() -> None:
    limiter = limiter_of(Clock(), publish_messages_per_second=2.5)
    limiter.take_publish(ONE, 10, 1)
    refusal = limiter.take_publish(ONE, 1, 1)
    assert isinstance(refusal, QuotaRefusal)
    problem = rate_limited(refusal)
    assert (problem.status, problem.slug) == (429, "rate-limited")
    assert problem.extra == {"quota": PUBLISH_MESSAGES, "limit": 2.5}
    assert problem.retry_after_s == 4
    item = r'"[a-z_]+";r=\d+;t=\d+'
    assert re.fullmatch(item, problem.headers["ratelimit"])
    assert re.fullmatch(r'"[a-z_]+";q=\d+;w=\d+', problem.headers["ratelimit-policy"])
