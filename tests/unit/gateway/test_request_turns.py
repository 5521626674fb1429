from __future__ import annotations

import asyncio

from gateway.request_turns import AT_ONCE, RequestTurns


class Connection:
    """Notes whose turn it was in which pass of the loop."""

    def __init__(self, turns: RequestTurns, name: bytes, seen: list[bytes]) -> None:
        self._turns, self._name, self._seen = turns, name, seen

    def arrive(self) -> None:
        if self._turns.admits(self, self._name):
            self._seen.append(self._name)

    def take_turn(self) -> None:
        self._seen.append(self._name)


async def test_so_many_of_a_pass_are_looked_at_and_the_others_in_their_order() -> None:
    seen: list[bytes] = []
    turns = RequestTurns(asyncio.get_running_loop())
    names = [b"%d" % number for number in range(3 * AT_ONCE)]
    for name in names:
        if turns.admits(Connection(turns, name, seen), b"one tenant"):
            seen.append(name)
    assert seen == names[:AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names[: 2 * AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names
    Connection(turns, b"later", seen).arrive()
    assert seen[-1] == b"later"


async def test_a_tenant_with_few_does_not_wait_for_one_with_many() -> None:
    seen: list[bytes] = []
    turns = RequestTurns(asyncio.get_running_loop())
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
