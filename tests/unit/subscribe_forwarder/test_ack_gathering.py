"""Flushes of a few acks wait for others, unless that keeps consumers from going on."""

from __future__ import annotations

import asyncio
import heapq

import pytest

from subscribe_forwarder.delivery import flush_pace
from subscribe_forwarder.delivery.flush_pace import (
    ENOUGH_MESSAGES,
    MAX_WAIT_S,
    PERIOD_S,
    AckGathering,
)
from tests.unit.subscribe_forwarder.subscribe_support import TENANT, world

FLUSH_S = 0.001


class Consumers:
    """Consumers that ack through one flush loop, in a time of their own."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.gathering = AckGathering(clock=lambda: self.now_s)
        self.acks: list[tuple[float, float]] = []
        """The time at which each ack comes, and the seconds that its consumer works after the
        answer: infinite where it waits for none.
        """
        self.flushes = self.acked = 0
        self.longest_s = 0.0

    def every(self, apart_s: float, seconds: float) -> None:
        """Have consumers ack that wait for no answer."""
        for number in range(int(seconds / apart_s)):
            heapq.heappush(self.acks, (self.now_s + number * apart_s, float("inf")))

    def one_by_one(self, works_s: float) -> None:
        """Have a consumer ack its next message that long after the answer to the last ack."""
        heapq.heappush(self.acks, (self.now_s, works_s))

    def run(self, seconds: float, a_flush: int = 1) -> None:
        """Each ack has `a_flush` messages."""
        until_s = self.now_s + seconds
        waiting: list[tuple[float, float]] = []
        while self.now_s < until_s:
            while self.acks and self.acks[0][0] <= self.now_s:
                waiting.append(heapq.heappop(self.acks))
            next_s = self.acks[0][0] if self.acks else until_s
            if not waiting:
                self.now_s = next_s
                continue
            messages = a_flush * len(waiting)
            wait_s = self.gathering.wait_s(messages)
            if wait_s > 0:
                self.now_s = min(self.now_s + wait_s + 1e-9, max(next_s, self.now_s + 1e-9))
                continue
            self.longest_s = max(self.longest_s, self.now_s - waiting[0][0])
            self.now_s += FLUSH_S
            self.flushes += 1
            self.acked += messages
            self.gathering.ended(messages)
            for _, works_s in waiting:
                if works_s < float("inf"):
                    heapq.heappush(self.acks, (self.now_s + works_s, works_s))
            waiting = []


def test_acks_that_come_anyway_share_flushes() -> None:
    consumers = Consumers()
    consumers.every(0.005, 20)
    consumers.run(20)
    assert consumers.flushes < 0.3 * consumers.acked
    assert consumers.longest_s <= MAX_WAIT_S + FLUSH_S


@pytest.mark.parametrize("count", [1, 2, 5])
def test_consumers_that_wait_for_each_answer_are_hardly_slower(count: int) -> None:
    consumers = Consumers()
    for _ in range(count):
        consumers.one_by_one(0.001)
    consumers.run(120)
    without = Consumers()
    without.gathering.wait_s = lambda _: 0.0  # type: ignore[method-assign]
    for _ in range(count):
        without.one_by_one(0.001)
    without.run(120)
    assert consumers.acked > 0.97 * without.acked


def test_rare_acks_never_wait() -> None:
    consumers = Consumers()
    consumers.every(0.03, 30)
    consumers.run(30)
    assert consumers.flushes == consumers.acked
    assert consumers.longest_s == 0.0


def test_large_acks_never_wait() -> None:
    consumers = Consumers()
    consumers.every(0.005, 10)
    consumers.run(10, a_flush=ENOUGH_MESSAGES)
    assert consumers.longest_s <= FLUSH_S


def test_after_a_pause_all_begins_anew() -> None:
    consumers = Consumers()
    consumers.every(0.005, 2)
    consumers.run(2)
    assert consumers.longest_s > 0
    consumers.now_s += 2 * PERIOD_S
    consumers.longest_s = 0.0
    consumers.every(0.005, PERIOD_S / 2)
    consumers.run(PERIOD_S / 2)
    assert consumers.longest_s <= FLUSH_S


def test_a_rate_that_falls_by_itself_is_gathered_again() -> None:
    consumers = Consumers()
    consumers.every(0.002, 5)
    consumers.run(5)
    consumers.every(0.006, 20)
    consumers.run(10)
    consumers.flushes = consumers.acked = 0
    consumers.run(10)
    assert consumers.flushes < 0.7 * consumers.acked


async def test_acks_are_answered_once_their_shared_flush_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AckGathering, "wait_s", lambda _, messages: 0.05 if messages < 3 else 0.0)
    async with world(lazy_flush_s=60.0) as w:
        w.store.publish(b"a", b"b", b"c")
        messages = await w.pulled()
        before = len(w.metadata.flushes)
        acks = [asyncio.ensure_future(w.ack(message)) for message in messages[:2]]
        await asyncio.sleep(0.01)
        assert not any(ack.done() for ack in acks)
        assert w.metadata.row().floor == 0
        acks.append(asyncio.ensure_future(w.ack(messages[2])))
        assert [(await ack).json()["acked"] for ack in acks] == [1, 1, 1]
        assert len(w.metadata.flushes) == before + 1
        assert w.metadata.row().floor == 3


async def test_a_nack_has_the_acks_that_wait_flushed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AckGathering, "wait_s", lambda _, messages: 60.0)
    async with world(lazy_flush_s=60.0) as w:
        w.store.publish(b"a", b"b")
        first, second = await w.pulled()
        ack = asyncio.ensure_future(w.ack(first))
        await asyncio.sleep(0.01)
        assert not ack.done()
        async with asyncio.timeout(5):
            await w.post("nack", {"ack_id": second["ack_id"]})
            await ack


async def test_a_commit_of_anything_else_has_them_flushed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AckGathering, "wait_s", lambda _, messages: 60.0)
    async with world(lazy_flush_s=60.0) as w:
        w.store.publish(b"a")
        [message] = await w.pulled()
        ack = asyncio.ensure_future(w.ack(message))
        await asyncio.sleep(0.01)
        assert not ack.done()
        hub = await w.forwarder.hub(TENANT, "reader", None)
        async with asyncio.timeout(5):
            await w.forwarder.flusher.commit(hub.readers.values())
            await ack


async def test_no_ack_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush_pace, "PERIOD_S", 0.02)
    monkeypatch.setattr(flush_pace, "LEAST_FLUSHES", 1)
    async with world() as w:
        w.store.publish(*[b"%d" % number for number in range(40)])
        async with asyncio.timeout(20):
            for message in await w.pulled(40, wait_s=5):
                assert (await w.ack(message)).json()["acked"] == 1
