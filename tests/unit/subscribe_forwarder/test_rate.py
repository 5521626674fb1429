"""Token buckets and rate limits against what they promise."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from subscribe_forwarder.delivery.state import rate
from subscribe_forwarder.delivery.state.rate import RateLimits, TokenBucket

RATES = st.floats(0.01, 5_000)
STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 2_000)), max_size=60)


@given(RATES, STEPS)
def test_no_window_has_more_than_its_share(
    per_second: float, steps: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(per_second, 0.0)
    times = list(accumulate(seconds for seconds, _ in steps))
    taken = []
    for now_s, (_, wanted) in zip(times, steps, strict=True):
        room = bucket.room(wanted, now_s)
        assert 0 <= room <= wanted
        bucket.take(room, now_s)
        taken.append(room)
    for low in range(len(steps)):
        for high in range(low, len(steps)):
            share = per_second * (times[high] - times[low]) + bucket.burst
            assert sum(taken[low : high + 1]) <= share * (1 + 1e-9) + 1e-6


@given(RATES, STEPS)
def test_whoever_waits_until_it_is_due_gets_something(
    per_second: float, steps: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(per_second, 0.0)
    now_s = 0.0
    for seconds, wanted in steps:
        now_s += seconds
        room = bucket.room(wanted, now_s)
        if not room:
            now_s = bucket.due_s(wanted, now_s) + 1e-6
            room = bucket.room(wanted, now_s)
        assert room
        bucket.take(room, now_s)


@given(RATES, RATES, st.floats(0, 10))
def test_a_new_rate_gives_nothing_away(before: float, after: float, seconds: float) -> None:
    bucket = TokenBucket(before, 0.0)
    bucket.take(bucket.room(1_000_000, 0.0), 0.0)
    bucket.set_rate(after, 0.0)
    most = 1 + after * seconds
    assert bucket.room(1_000_000, seconds) <= min(most, bucket.burst) + 1e-6


def test_a_second_of_quiet_is_all_that_is_saved_up() -> None:
    bucket = TokenBucket(10, 0.0)
    assert bucket.room(100, 1_000.0) == 10


def test_less_than_one_a_second() -> None:
    bucket = TokenBucket(0.1, 0.0)
    assert bucket.room(5, 0.0) == 1
    bucket.take(1, 0.0)
    assert bucket.room(5, 9.9) == 0
    assert bucket.due_s(5, 9.9) == 10.0
    assert bucket.room(5, 10.0) == 1


def test_a_high_rate_comes_in_grains() -> None:
    bucket = TokenBucket(1_000, 0.0)
    bucket.take(1_000, 0.0)
    assert bucket.room(500, 0.01) == 0
    assert bucket.room(5, 0.01) == 5
    assert bucket.room(500, 0.02) == 20


def test_both_limits_hold() -> None:
    limits = RateLimits()
    assert not limits.any
    limits.follow(10, 4, 0.0)
    assert limits.room_of("a", 100, 0.0) == 4
    limits.take("a", 4, 0.0)
    assert (limits.room_of("a", 100, 0.0), limits.room(100, 0.0)) == (0, 6)
    limits.take("b", 4, 0.0)
    assert (limits.room_of("c", 100, 0.0), limits.room(100, 0.0)) == (4, 2)
    limits.follow(None, None, 0.0)
    assert not limits.any
    assert limits.room_of("a", 100, 0.0) == limits.room(100, 0.0) == 100


def test_the_nameless_are_one_consumer() -> None:
    limits = RateLimits()
    limits.follow(None, 4, 0.0)
    limits.take(rate.NAMELESS, 4, 0.0)
    assert limits.room_of(rate.NAMELESS, 1, 0.0) == 0


def test_memory_is_bounded_and_nobody_gets_a_burst_of_it() -> None:
    limits = RateLimits()
    limits.follow(None, 2, 0.0)
    for number in range(rate.MAX_CONSUMERS + 50):
        limits.take(str(number), min(1, limits.room_of(str(number), 1, 0.0)), 0.0)
    assert len(limits._consumers) <= rate.MAX_CONSUMERS + 1
    assert limits.room_of("0", 2, 0.0) == 1  # its token is still counted as taken
    limits.room_of("new", 1, 10.0)  # now all are full again, and may go
    assert len(limits._consumers) == 1
