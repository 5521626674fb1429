"""Each rule of limits.py has a test: the end of truncation, and when a topic is full."""

from __future__ import annotations

import pytest

from metadata.types import Retention
from openapi.topics import Mode, OnLimit
from scheduler.limits import (
    DEFAULT_AGE_S,
    OUTRUN,
    TENANT_FULL,
    TOPIC_FULL,
    Wanted,
    plan,
    tenant_full,
    topic_full,
)

CONSUME, RETAIN = "consume", "retain"
REFUSE, EXPIRE = "refuse", "expire_oldest"


@pytest.mark.parametrize(
    ("mode", "policy", "pinned", "wanted", "target", "past_pins"),
    [
        # Within its limits: consume goes with the pins, retain keeps all.
        (CONSUME, REFUSE, 40, 0, 40, False),
        (RETAIN, REFUSE, 40, 0, 0, False),
        (CONSUME, EXPIRE, 40, 0, 40, False),
        (RETAIN, EXPIRE, 40, 0, 0, False),
        # A limit below the lowest pin: nobody loses anything.
        (CONSUME, REFUSE, 40, 30, 40, False),
        (RETAIN, REFUSE, 40, 30, 30, False),
        (CONSUME, EXPIRE, 40, 30, 40, False),
        (RETAIN, EXPIRE, 40, 30, 30, False),
        # A limit above it.
        (CONSUME, REFUSE, 40, 50, 40, False),
        (RETAIN, REFUSE, 40, 50, 40, False),
        (CONSUME, EXPIRE, 40, 50, 50, True),
        (RETAIN, EXPIRE, 40, 50, 50, True),
        # Nothing pins: the limits alone.
        (CONSUME, REFUSE, None, 0, 0, False),
        (CONSUME, REFUSE, None, 50, 50, False),
        (RETAIN, REFUSE, None, 50, 50, False),
        (RETAIN, EXPIRE, None, 50, 50, False),
    ],
)
def test_how_far(
    mode: Mode,
    policy: OnLimit,
    pinned: int | None,
    wanted: int,
    target: int,
    past_pins: bool,
) -> None:
    for both in (Wanted(wanted, 0), Wanted(0, wanted)):
        planned = plan(Retention(mode, on_limit=policy), pinned, both)
        assert (planned.target, planned.past_pins) == (target, past_pins)
        blocked = policy is REFUSE and pinned is not None and wanted > pinned
        assert (planned.age_blocked, planned.bytes_blocked) == (
            blocked and both.by_age > 0,
            blocked and both.by_bytes > 0,
        )


def full(stored: int, *, blocked: bool = True, age: bool = False, limit: int | None = 1000):
    return lambda before=None: topic_full(
        Retention(bytes=limit), stored, age_blocked=age, bytes_blocked=blocked, before=before
    )


def test_a_topic_is_full_at_its_limit_and_takes_messages_again_a_tenth_below() -> None:
    assert full(999)() is None
    found = full(1000)()
    assert found is not None
    assert found.reason == TOPIC_FULL
    assert "1,000 bytes" in found.detail
    assert full(950, blocked=False)(found) == found
    assert full(900, blocked=False)(found) == found
    assert full(899)(found) is None


def test_what_can_be_trimmed_is_not_full_unless_publishing_outruns_it() -> None:
    assert full(1500, blocked=False)() is None
    assert full(OUTRUN * 1000, blocked=False)() is not None


def test_without_a_byte_limit_only_age_can_fill_a_topic() -> None:
    assert full(10**12, limit=None)() is None
    found = full(0, age=True, limit=None)()
    assert found is not None
    assert found.reason == TOPIC_FULL
    assert f"{DEFAULT_AGE_S:,} seconds" in found.detail
    assert full(0, age=False, limit=None)(found) is None


def test_a_tenant_is_full_over_all_of_its_topics() -> None:
    assert tenant_full(0, 10**12, before=False) is None
    assert tenant_full(1000, 999, before=False) is None
    found = tenant_full(1000, 1000, before=False)
    assert found is not None
    assert found.reason == TENANT_FULL
    assert tenant_full(1000, 950, before=True) == found
    assert tenant_full(1000, 899, before=True) is None
