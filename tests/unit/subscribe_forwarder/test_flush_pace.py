"""Flushes wait for company where acks of many cursors come one by one, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from metadata.types import CursorKey
from subscribe_forwarder.delivery import flush_pace
from subscribe_forwarder.delivery.flush_pace import MAX_WAIT_S, SHARE, FlushPace
from tests.unit.subscribe_forwarder.subscribe_support import (
    TENANT,
    FakeMetadata,
    World,
    subscription,
    topic,
    world,
)

FLUSH_S = 0.001
MANY = 200


def key(number: int) -> CursorKey:
    return CursorKey(TENANT, number.to_bytes(16), 0, 0)


class Loop:
    """The flush loop of `FlushPace`, in a time of its own."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pace = FlushPace(clock=lambda: self.now_s)
        self.flushes = 0
        self.longest_s = 0.0

    def run(self, arrivals: Iterable[tuple[float, CursorKey]]) -> None:
        """Acks at these times, ascending, after now."""
        began_s = self.now_s
        coming = [(began_s + at_s, cursor) for at_s, cursor in arrivals]
        waiting: list[tuple[float, CursorKey]] = []
        while coming or waiting:
            while coming and coming[0][0] <= self.now_s:
                waiting.append(coming.pop(0))
            distinct = {cursor for _, cursor in waiting}
            wait_s = self.pace.wait_s(len(distinct)) if waiting else 1e9
            if wait_s > 0:
                next_s = coming[0][0] if coming else 1e18
                self.now_s = min(self.now_s + wait_s + 1e-9, next_s)
                continue
            self.longest_s = max(self.longest_s, self.now_s - waiting[0][0])
            self.now_s += FLUSH_S
            self.flushes += 1
            self.pace.ended(distinct)
            waiting = []


def every(apart_s: float, count: int, cursor: Callable[[int], CursorKey]) -> Iterable:  # type: ignore[type-arg]
    return [(n * apart_s, cursor(n)) for n in range(count)]


def test_a_thousand_cursors_one_after_the_other_share_flushes() -> None:
    loop = Loop()
    loop.run(every(0.001, 4000, lambda n: key(n % 1000)))
    assert loop.flushes < 400, "not one each"
    assert loop.longest_s <= MAX_WAIT_S + FLUSH_S


@pytest.mark.parametrize("cursors", [1, SHARE])
def test_a_few_cursors_never_wait(cursors: int) -> None:
    loop = Loop()
    loop.run(every(0.002, 2000, lambda n: key(n % cursors)))
    assert loop.flushes == 2000
    assert loop.longest_s == 0.0


def test_after_a_pause_nothing_waits() -> None:
    loop = Loop()
    loop.run(every(0.0001, 2000, key))
    assert loop.pace.wait_s(1) > 0
    loop.now_s += MAX_WAIT_S
    assert loop.pace.wait_s(1) == 0.0


def test_a_crowd_is_forgotten() -> None:
    loop = Loop()
    loop.run(every(0.0001, 2000, key))
    for _ in range(2):
        loop.now_s += flush_pace.PERIOD_S
        loop.pace.ended([key(1)])
    assert loop.pace.wait_s(1) == 0.0


def test_those_who_all_came_again_do_not_wait() -> None:
    """Many consumers are at work, and each waits for its ack."""
    loop = Loop()
    everybody = [key(n) for n in range(MANY)]
    for _ in range(10):
        loop.now_s += 0.005
        loop.pace.ended(everybody)
    assert loop.pace.wait_s(MANY // SHARE) > 0
    assert loop.pace.wait_s(MANY // SHARE + 1) == 0.0


def crowd() -> FakeMetadata:
    readers = [subscription(f"reader-{n}", n.to_bytes(16)) for n in range(1, MANY + 1)]
    return FakeMetadata(topic(1), *readers)


async def acked_in_turn(w: World, pause_s: float) -> int:
    """Each subscription acks one message, one after the other; the flushes that took."""
    held = {}
    for name in w.metadata.subscriptions:
        answer = await w.call("GET", "/subscriptions/{name}/messages", name=name)
        held[name] = answer.json()["messages"][0]["ack_id"]
    before = len(w.metadata.flushes)
    acks = []
    for name, ack_id in held.items():
        acks.append(asyncio.ensure_future(w.post("ack", {"ack_ids": [ack_id]}, name)))
        await asyncio.sleep(pause_s)
    answers = await asyncio.gather(*acks)
    assert {answer.json()["acked"] for answer in answers} == {1}
    return len(w.metadata.flushes) - before


async def test_acks_that_trickle_in_are_all_answered_in_few_flushes() -> None:
    async with world(metadata=crowd(), lazy_flush_s=60.0) as w:
        await w.ready()
        w.store.publish(b"a")
        assert await acked_in_turn(w, 0.0005) < MANY // 2


async def test_the_same_cursor_is_flushed_at_once_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flush_pace, "MAX_WAIT_S", 60.0)
    async with world() as w:
        w.store.publish(*[b"%d" % n for n in range(50)])
        async with asyncio.timeout(30):
            for message in await w.pulled(50, wait_s=5):
                assert (await w.ack(message)).json()["acked"] == 1


async def test_a_flush_that_waits_for_company_goes_as_the_process_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(metadata=crowd(), lazy_flush_s=60.0) as w:
        await w.ready()
        w.store.publish(b"a")
        await acked_in_turn(w, 0.0)
        w.store.publish(b"b")
        monkeypatch.setattr(flush_pace, "MAX_WAIT_S", 60.0)
        answer = await w.call(
            "GET", "/subscriptions/{name}/messages", name="reader-1", query="wait_seconds=5"
        )
        body = {"ack_ids": [message["ack_id"] for message in answer.json()["messages"]]}
        ack = asyncio.ensure_future(w.post("ack", body, "reader-1"))
        await asyncio.sleep(0.05)
        assert not ack.done()
        await w.forwarder.flusher.close(5)
        assert (await ack).json()["acked"] == 1


async def test_a_flush_that_is_under_way_ends_before_the_flusher_is_closed() -> None:
    async with world() as w:
        await w.ready()
        w.store.publish(b"a")
        (message,) = await w.pulled()
        w.metadata.flush_gate = asyncio.Event()
        ack = asyncio.ensure_future(w.ack(message))
        while not w.metadata.flushes:
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(w.forwarder.flusher.close(5))
        await asyncio.sleep(0)
        w.metadata.flush_gate.set()
        await closing
        assert (await ack).json()["acked"] == 1
