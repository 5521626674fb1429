from __future__ import annotations

import asyncio

import pytest

from gateway.http.round_robin import AT_ONCE, RoundRobin


class Connection:
    """Notes whose turn it was in which pass of the loop."""

    def __init__(self, turns: RoundRobin, name: bytes, seen: list[bytes]) -> None:
        self._turns, self._name, self._seen = turns, name, seen

    def arrive(self) -> None:
        if self._turns.admits(self.take_turn, self._name):
            self._seen.append(self._name)

    def take_turn(self) -> None:
        self._seen.append(self._name)


async def test_so_many_of_a_pass_are_looked_at_and_the_others_in_their_order() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    names = [b"%d" % number for number in range(3 * AT_ONCE)]
    for name in names:
        if turns.admits(Connection(turns, name, seen).take_turn, b"one tenant"):
            seen.append(name)
    assert seen == names[:AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names[: 2 * AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names
    await asyncio.sleep(0)
    Connection(turns, b"later", seen).arrive()
    assert seen[-1] == b"later"


async def test_a_tenant_with_few_does_not_wait_for_one_with_many() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    for _ in range(50 * AT_ONCE):
        Connection(turns, b"flood", seen).arrive()
    Connection(turns, b"calm", seen).arrive()
    await asyncio.sleep(0)
    assert seen.count(b"calm") == 1
    assert len(seen) == 2 * AT_ONCE
    for _ in range(60):
        await asyncio.sleep(0)
    assert len(seen) == 50 * AT_ONCE + 1
    await asyncio.sleep(0)
    assert not turns._scheduled


async def test_more_tenants_than_a_pass_takes_have_turns_too() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    tenants = [b"%d" % number for number in range(2 * AT_ONCE)]
    for _ in range(10):
        for tenant in tenants:
            Connection(turns, tenant, seen).arrive()
    Connection(turns, b"calm", seen).arrive()
    for _ in range(3):
        await asyncio.sleep(0)
    assert b"calm" in seen


async def test_a_turn_that_fails_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bytes] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_exception_handler", lambda _: None)
    turns = RoundRobin(loop)

    class Failing(Connection):
        def take_turn(self) -> None:
            raise RuntimeError("a defect")

    for _ in range(AT_ONCE):
        Connection(turns, b"one", seen).arrive()
    Failing(turns, b"one", seen).arrive()
    for _ in range(3):
        Connection(turns, b"one", seen).arrive()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(seen) == AT_ONCE + 3
