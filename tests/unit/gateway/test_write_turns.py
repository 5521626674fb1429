"""Changes of the control plane take turns and have a rate, both by tenant."""

from __future__ import annotations

import asyncio

import pytest

from edge.problem import Problem
from gateway import write_turns
from gateway.write_turns import WriteTurns
from tests.made_up_routes import made_up
from tests.unit.gateway.test_control_writes import ACME, EVIL, Counter, call


async def test_what_waits_is_bounded_and_the_next_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_turns, "MAX_WAITING", 4)
    counter = Counter()
    route = WriteTurns().around(made_up("PUT", "/x", counter.change, "manage", "topic:topic"))
    async with counter.row:
        held = [asyncio.create_task(call(route, EVIL)) for _ in range(4)]
        for _ in range(3):
            await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await call(route, EVIL)
        assert (refused.value.status, refused.value.slug) == (429, "too-many-changes")
        other = asyncio.create_task(call(route, ACME))
        await asyncio.sleep(0)
    await asyncio.gather(other, *held)
    assert len(counter.order) == 5


async def test_a_tenant_that_changes_more_than_its_rate_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(write_turns, "_sleep", sleep)
    counter = Counter()
    turns = WriteTurns(per_second=10.0, clock=lambda: now[0])
    route = turns.around(made_up("PUT", "/x", counter.change, "manage", "topic:topic"))
    for _ in range(3):
        await call(route, EVIL)
    assert now[0] == 0.0, "a burst of a quarter of a second passes"
    for _ in range(20):
        await call(route, EVIL)
    assert 1.9 <= now[0] <= 2.2
    before = now[0]
    await call(route, ACME)
    assert now[0] == before, "another tenant has a rate of its own"


async def test_what_waits_for_the_outside_takes_no_turn() -> None:
    route = made_up("POST", "/subscriptions/{name}:test", Counter().change, "manage", "topic:topic")
    assert WriteTurns().around(route) is route
