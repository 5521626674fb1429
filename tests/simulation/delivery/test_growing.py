"""That the rules of growing topics find what they are there to find."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.chaos.delivery import keyed
from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.caller import Caller, Reply
from tests.chaos.sometimes import Sometimes
from tests.simulation.delivery import growing
from tests.simulation.delivery.growing import Delayed, Ordered

ACKED, LOST, CANCELLED, PUBLISHED = 200, 0, 204, 409
SITUATIONS = (*keyed.SITUATIONS, *growing.SITUATIONS)


class Server(Caller):
    """Hands out what it is told to (offset and payload), and answers all else as it is told to."""

    def __init__(self, *steps: tuple[int, str] | int) -> None:
        self._steps = list(steps)

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        now_s = asyncio.get_running_loop().time()
        step = self._steps.pop(0) if self._steps else (0, "")
        if isinstance(step, int):
            return Reply(step, {"results": []}, now_s)
        offset, payload = step
        message: dict[str, Any] = {
            "ack_id": "a",
            "message_id": str(offset),
            "data": payload,
            "key": "k",
            "attempt": 1,
            "partition": 0,
            "offset": offset,
        }
        return Reply(200, {"messages": [message] if payload else []}, now_s)

    def close(self) -> None:
        """There is nothing to close."""


def dice() -> random.Random:
    made = random.Random(1)
    made.random = lambda: 0.5  # type: ignore[method-assign]  # it changes each, and cancels it
    made.uniform = lambda low, high: low  # type: ignore[method-assign]
    return made


async def ordered(*steps: tuple[int, str] | int) -> Ordered:
    actor = Ordered(Site(0, ""), dice(), Sometimes(SITUATIONS))
    actor.published = {"k 1": 201, "k 2": 201}
    server = Server(*steps)
    while server._steps:
        await asyncio.sleep(0.01)
        await actor.handle(server, await actor.pull(server, 1))
    await actor.check(server)
    return actor


async def test_what_was_given_up_comes_again_before_a_later_one_of_its_key_only() -> None:
    fine = await ordered((1, "k 1"), LOST, (1, "k 1"), ACKED, (2, "k 2"), ACKED)
    assert fine.broken == []
    assert fine.done()
    broken = await ordered((1, "k 1"), LOST, (2, "k 2"), ACKED, (1, "k 1"), ACKED)
    assert broken.broken == ["ordered: 'k 1' came again after a later one of its key"]


async def test_what_is_out_as_the_topic_grows_is_acked_once_it_has_grown() -> None:
    actor = Ordered(Site(0, ""), dice(), Sometimes(SITUATIONS))
    server = Server((1, "k 1"), ACKED)
    actor.caller = lambda: server  # type: ignore[method-assign]
    actor.published = {"k 1": 201}
    actor._acks_go.clear()
    await actor.handle(server, await actor.pull(server, 1))
    assert actor._out == 1
    assert not actor.done()
    actor._acks_go.set()
    await asyncio.gather(*actor._late_acks)
    assert actor.done()


async def delayed(answer: int, *came: tuple[int, str]) -> Delayed:
    """A change of message `m` is answered so, and these come."""
    server = Server(answer)
    actor = Delayed(Site(0, ""), dice(), Sometimes(SITUATIONS))
    actor.caller = lambda: server  # type: ignore[method-assign]
    actor._due_s = {"m": 0.0}
    actor.published = {"m": 0}
    actor.answered("m", {"message_id": "id"})
    await asyncio.gather(*actor._changes)
    for one in came:
        server._steps = [one, ACKED]
        await actor.handle(server, await actor.pull(server, 1))
    await actor.check(server)
    return actor


async def test_what_was_withdrawn_does_not_come() -> None:
    assert (await delayed(CANCELLED)).broken == []
    assert (await delayed(CANCELLED)).done()
    broken = (await delayed(CANCELLED, (3, "m"))).broken
    assert broken == ["delayed: 'm' was cancelled, and came from {(0, 3)}"]


async def test_what_could_not_be_withdrawn_comes_from_one_place() -> None:
    assert not (await delayed(PUBLISHED)).done(), "it is published, and did not come"
    fine = await delayed(PUBLISHED, (3, "m"), (3, "m"))
    assert fine.broken == []
    assert fine.done()
    broken = (await delayed(PUBLISHED, (3, "m"), (4, "m"))).broken
    assert broken == ["delayed: 'm' was published at each of [(0, 3), (0, 4)]"]
