"""That the checker of keys in order finds what it is there to find."""

from __future__ import annotations

import asyncio
import random

from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.caller import Caller, Reply
from tests.chaos.delivery.keyed import SITUATIONS, Keyed
from tests.chaos.sometimes import Sometimes

ACKED, LOST = 200, 0


class Server(Caller):
    """Hands out what it is told to, and answers acks as it is told to."""

    def __init__(self, *steps: str | int) -> None:
        """A text is what the next pull brings, a number the status of the answer to an ack."""
        self._steps = list(steps)
        self._now_s = 0.0

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        self._now_s = asyncio.get_running_loop().time()
        step = self._steps.pop(0)
        if isinstance(step, int):
            return Reply(step, {"results": []}, self._now_s)
        message = {
            "ack_id": "a",
            "message_id": step,
            "data": step,
            "key": "k",
            "attempt": 1,
            "partition": 0,
            "offset": int(step.removeprefix("k ")),
        }
        return Reply(200, {"messages": [message]}, self._now_s)


async def broken(*steps: str | int, unanswered: str = "") -> list[str]:
    """Return the checker's words on one worker's life; the publish of `unanswered` was given up."""
    keyed = Keyed(Site(0, ""), random.Random(1), Sometimes(SITUATIONS))
    keyed.dice.random = lambda: 0.5  # type: ignore[method-assign]  # it acks all
    keyed.published = {each: 201 for each in ("k 1", "k 2") if each != unanswered}
    server = Server(*steps)
    while server._steps:
        await asyncio.sleep(0.01)
        await keyed.handle(server, await keyed.pull(server, 1))
    await keyed.check(server)
    return keyed.broken


async def test_what_is_in_order_is_fine() -> None:
    assert await broken("k 1", ACKED, "k 2", ACKED) == []
    assert await broken("k 1", LOST, ACKED, "k 2", ACKED) == [], "an ack that was sent again"


async def test_a_later_one_before_any_ack_of_the_earlier() -> None:
    assert len(await broken("k 2", ACKED, "k 1", ACKED)) == 2


async def test_an_earlier_one_that_comes_again_after_a_later_one() -> None:
    """SET 1, SET 2, SET 1: the first ack was sent, and answered by nobody who had committed it."""
    found = await broken("k 1", ACKED, "k 2", ACKED, "k 1", ACKED)
    assert found == ["keyed: 'k 1' came again after a later one of its key"]


async def test_one_whose_publish_got_no_answer_may_come_late() -> None:
    """A request waits for a process that stands still, while its publisher sends the next one."""
    assert await broken("k 2", ACKED, "k 1", ACKED, unanswered="k 1") == []
    found = await broken("k 2", ACKED, "k 1", ACKED, unanswered="k 2")
    assert len(found) == 2, "the later one was sent after the answer to the earlier"
