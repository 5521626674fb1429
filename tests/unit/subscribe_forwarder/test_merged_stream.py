"""Test the promises of a merged stream while parts of it grow, shrink, come and go."""

from __future__ import annotations

import asyncio

import pytest

from subscribe_forwarder.api import stream as streams
from subscribe_forwarder.api import stream_lines
from subscribe_forwarder.api.stream import Stream
from subscribe_forwarder.api.stream_parts import NONE, Amount
from tests.unit.subscribe_forwarder.linked_fleet import linked
from tests.unit.subscribe_forwarder.stream_support import REFUSAL, stream


async def test_no_part_grows_into_what_another_still_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TICK_S", 0.02)
    resize, checked = Stream._resize, set[int]()

    async def watched(self: Stream, limits: dict[bytes, Amount]) -> None:
        sizes = [p.reserved.most(limits.get(o, NONE)).messages for o, p in self._parts.items()]
        assert sum(sizes) <= 12, sizes
        checked.update(limit.messages for limit in limits.values())
        await resize(self, limits)

    monkeypatch.setattr(Stream, "_resize", watched)
    async with linked(0, 1, 2) as fleet:
        front = fleet.members[0]
        async with stream(front, "max_outstanding_messages=12") as opened:
            acked = goal = 0
            for owners, busy in [((0, 1, 2), 1), ((0, 1, 2), 2), ((0, 1, 1), 0), ((0, 1, 2), 2)]:
                await fleet.spread(*owners)
                fleet.store.publish(*[b"x"] * 40, partition=busy)
                goal += 40
                async with asyncio.timeout(20):
                    while acked < goal:
                        await asyncio.sleep(0.01)
                        if fresh := opened.messages[acked:]:
                            acked += (await front.ack(*fresh)).json()["acked"]
    assert len(checked) > 2, "parts were of different sizes"


async def test_a_front_without_its_lease_passes_nothing_on() -> None:
    async with linked(0, 1) as fleet:
        await fleet.spread(1, 1)
        async with stream(fleet.members[0]) as opened:
            fleet.store.publish(b"a")
            await opened.until(1)
            fleet.routings[0].holds_lease = lambda: False
            fleet.store.publish(b"b")
            end = await opened.ended()
            assert end["reason"] != "draining"
            assert opened.data == ["a"]


async def test_a_front_that_stops_ends_the_parts_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STOP_WAITING_S", 60.0)
    async with linked(0, 1) as fleet, stream(fleet.members[0]) as opened:
        fleet.store.publish(b"a", partition=1)
        await opened.until(1)
        fleet.routings[0].drain()
        end = await opened.ended()
        assert end["reason"] == "draining"


async def test_a_caller_that_may_not_go_on_gets_the_reason_and_nothing_more() -> None:
    async with linked(0, 1) as fleet, stream(fleet.members[0]) as opened:
        fleet.store.publish(b"a", partition=1)
        await opened.until(1)
        opened.refusal.set_result(REFUSAL)
        end = await opened.ended()
        assert (end["reason"], end["problem"]["status"]) == ("problem", 401)
        fleet.store.publish(b"b", partition=1)
        (message,) = await fleet.members[0].pulled(wait_s=5)
        assert (message["data"], message["attempt"]) == ("b", 1)
        assert opened.data == ["a"]


async def test_a_stream_that_another_goes_on_with_is_in_no_hurry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_lines, "STOP_WAITING_S", 0.02)
    async with linked(0, 1) as fleet:
        await fleet.spread(0, 0)
        async with stream(fleet.members[0]) as opened:
            fleet.store.publish(b"a", partition=1)
            await opened.until(1)
            await fleet.spread(0, 1)
            fleet.store.publish(b"b", partition=1)
            await opened.until(2)
            opened.readable.clear()
            fleet.store.publish(b"c", partition=1)
            await asyncio.sleep(0.2)
            assert not opened.task.done()
            opened.readable.set()
            fleet.store.publish(b"d", partition=1)
            await opened.until(4)
