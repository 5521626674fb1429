"""Tests that the checker of deliveries finds each fault."""

from __future__ import annotations

import random
from typing import Any

from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.caller import Caller, Reply
from tests.chaos.delivery.counted import SITUATIONS, Counted, Cut, Sent
from tests.chaos.sometimes import Sometimes


class Answers(Caller):
    """Gives the answers it was made with."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = replies

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        return self._replies.pop(0)


def counted() -> Counted:
    return Counted(Site(0, ""), random.Random(1), Sometimes(SITUATIONS))


def pulled(*offsets: int, sent_s: float = 0.0) -> Reply:
    messages: list[dict[str, Any]] = [
        {
            "message_id": f"m{offset}",
            "ack_id": f"a{offset}",
            "data": f"d{offset}",
            "key": None,
            "attempt": 1,
            "partition": 0,
            "offset": offset,
        }
        for offset in offsets
    ]
    return Reply(200, {"messages": messages}, sent_s)


ACKED = Reply(200, {"results": []}, 0.0)


async def test_a_message_again_after_its_ack_is_found() -> None:
    actor = counted()
    caller = Answers([pulled(1), ACKED, pulled(1, sent_s=1e12)])
    await actor.handle(caller, await actor.pull(caller, 10))
    actor.fault()
    await actor.pull(caller, 10)
    await actor.check(caller)
    assert any("again after its ack" in each for each in actor.broken)


async def test_repeats_are_counted_against_what_was_open() -> None:
    for faults, broken in ((1, False), (0, True)):
        actor = counted()
        caller = Answers([pulled(1, 2), pulled(1, 2)])
        await actor.pull(caller, 10)
        for _ in range(faults):
            actor.fault()
        await actor.pull(caller, 10)
        await actor.check(caller)
        assert bool(actor.broken) is broken


async def test_what_was_sent_was_received_or_cut() -> None:
    actor = counted()
    await actor.pull(Answers([pulled(1, 2)]), 10)
    received, lost = Sent(5.0, ((0, 1), (0, 2))), Sent(7.0, ((0, 3),))
    assert actor.unexplained([received]) == []
    assert actor.unexplained([received, received]) == [received]
    assert actor.unexplained([received, lost]) == [lost]
    actor.cuts.append(Cut(6.0, 8.0))
    assert actor.unexplained([received, lost]) == []
    assert actor.unexplained([lost, lost]) == [lost]


async def test_a_lost_answer_is_a_cut_and_a_refusal_is_none() -> None:
    actor = counted()
    for status, cuts in ((0, 1), (502, 2), (503, 2), (200, 2)):
        await actor.pull(Answers([Reply(status, {"messages": []}, 0.0)]), 10)
        assert len(actor.cuts) == cuts
