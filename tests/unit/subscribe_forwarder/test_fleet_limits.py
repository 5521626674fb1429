"""Limits and partitions of consumers' own, over several owners and real links."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest

from subscribe_forwarder.fleet.proxy.owner_order import OwnerOrder
from tests.unit.subscribe_forwarder.fleet_support import eventually
from tests.unit.subscribe_forwarder.linked_fleet import LinkedFleet, linked
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import World

BACKLOG = "/subscriptions/{name}/backlog"


def publish(fleet: LinkedFleet, count: int) -> None:
    for partition in range(fleet.partitions):
        fleet.store.publish(*[b"x"] * count, partition=partition)


async def drained(
    fleet: LinkedFleet, *, at_once: int = 100, least: int = 0
) -> list[dict[str, Any]]:
    """Pull from all owner proxies until none of them has more to give.

    On a busy machine that may be so for a moment before there are `least` messages.
    """
    got: list[dict[str, Any]] = []
    quiet = 0
    async with asyncio.timeout(20):
        while quiet < 2 or len(got) < least:
            some = [one for front in fleet.members for one in await front.pulled(at_once)]
            got += some
            quiet = 0 if some else quiet + 1
    return got


# Limits of outstanding messages.


@pytest.mark.parametrize("limit", [1, 2, 7, 12])
async def test_the_outstanding_of_all_owners_keep_to_the_limit(limit: int) -> None:
    async with linked(0, 1, 2, 2, max_outstanding=limit) as fleet:
        publish(fleet, 20)
        got = await drained(fleet)
        assert limit - 3 < len(got) < limit + 3, "at least one each; what does not divide is lost"
        assert {m["partition"] for m in got} >= {0, 1}
        assert (await fleet.members[1].ack(*got)).json()["acked"] == len(got)
        more = await drained(fleet, least=len(got))
        assert len(more) == len(got)


async def test_an_owner_that_gets_all_of_it_has_all_of_the_limit() -> None:
    async with linked(0, 1, 2, max_outstanding=9) as fleet:
        publish(fleet, 20)
        assert len(await drained(fleet, least=9)) == 9
        await fleet.spread(0, 0, 0)
        assert await drained(fleet) == [], "what was handed out before counts"
        backlog = (await fleet.members[2].call("GET", BACKLOG, name="reader")).json()
        assert (backlog["forwarders"], backlog["paused"]) == (1, "too_many_outstanding")
        fleet.metadata.clock.added_s += 31  # nobody acked: the leases are over
        again = await drained(fleet, least=9)
        assert len(again) == 9
        assert {m["attempt"] for m in again} == {2}


# Rates.


class Meter:
    """A count of messages with the time in which they came, which includes the time of a
    busy machine.
    """

    def __init__(self, fleet: LinkedFleet) -> None:
        self._fleet = fleet
        self._looked_s = fleet.metadata.clock()

    async def read(self, least: int = 0) -> tuple[int, float]:
        """Return how many messages came since the last call, and in how many seconds."""
        count = len(await drained(self._fleet, least=least))
        before_s, self._looked_s = self._looked_s, self._fleet.metadata.clock()
        return count, self._looked_s - before_s


async def test_the_rates_of_all_owners_add_up_to_the_limit() -> None:
    async with linked(0, 1, 2, rate_limit=9.0) as fleet:
        publish(fleet, 400)
        meter = Meter(fleet)
        count, took_s = await meter.read()
        assert count <= 9 * (1 + took_s) + 3, "a second's worth, at first"
        for _ in range(5):
            fleet.metadata.clock.added_s += 1.0
            count, took_s = await meter.read(9 - 3)
            assert 9 - 3 <= count <= 9 * took_s + 3


async def test_a_rate_that_is_low_is_no_more_than_one_each() -> None:
    async with linked(0, 1, 2, rate_limit=1.0) as fleet:
        publish(fleet, 150)
        meter = Meter(fleet)
        count, took_s = await meter.read(3)
        assert 3 <= count <= 3 + took_s
        got = waited_s = 0.0
        for _ in range(9):
            fleet.metadata.clock.added_s += 1.0
            count, took_s = await meter.read()
            got, waited_s = got + count, waited_s + took_s
        assert 9 - 3 <= got <= waited_s + 3


async def test_a_rate_grows_back_with_the_partitions() -> None:
    async with linked(0, 1, 2, rate_limit=9.0) as fleet:
        publish(fleet, 400)
        await drained(fleet)
        await fleet.spread(0, 0, 0)
        await drained(fleet)
        hub = await fleet.members[0].forwarder.hub(fleet.members[0].tenant_id, "reader")
        assert hub.share == 1.0
        meter = Meter(fleet)
        for _ in range(4):
            fleet.metadata.clock.added_s += 1.0
            count, took_s = await meter.read(9 - 1)
            assert 9 - 1 <= count <= 9 * took_s + 1


# Partitions of their own.


def affine(consumer: str, wait_s: float = 0, max_messages: int = 100) -> str:
    return f"max_messages={max_messages}&wait_seconds={wait_s:g}&consumer={consumer}&affinity=true"


async def taken(front: World, query: str) -> list[dict[str, Any]]:
    answer = await front.pull(query=query)
    assert answer.status == 200, answer.body
    return list(answer.json()["messages"])


async def test_all_owners_deal_to_the_same_consumers() -> None:
    async with linked(0, 0, 1, 1, 2, 2) as fleet:
        consumers = {name: fleet.members[n % 3] for n, name in enumerate("abc")}
        await asyncio.gather(*(taken(one, affine(name)) for name, one in consumers.items()))
        publish(fleet, 1)
        worked: defaultdict[str, set[int]] = defaultdict(set)
        async with asyncio.timeout(20):
            while sum(map(len, worked.values())) < 6:
                for name, front in consumers.items():
                    some = await taken(front, affine(name, 0.2))
                    worked[name] |= {m["partition"] for m in some}
                    if some:
                        await front.ack(*some)
        assert {name: len(some) for name, some in worked.items()} == {"a": 2, "b": 2, "c": 2}
        assert set.union(*worked.values()) == set(range(6))


async def test_who_is_busy_with_one_owner_keeps_its_partitions_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The consumer is answered here each time, and asks nothing elsewhere; the other owners
    are told.
    """
    async with linked(0, 0, 1, 1) as fleet:
        busy, idle = fleet.members
        await asyncio.gather(taken(busy, affine("busy")), taken(idle, affine("idle")))
        mine = {n for n in range(4) if dealt(idle, n) == "busy"}
        assert len(mine) == 2
        assert mine & {0, 1}, "something is here"
        monkeypatch.setattr(OwnerOrder, "elsewhere_first", lambda *_: False)
        for partition in (0, 1):
            fleet.store.publish(*[b"x"] * 10, partition=partition)
        assert len(await taken(busy, affine("busy", 2, 1))) == 1, "they are in memory from now on"
        for _ in range(4):
            fleet.metadata.clock.added_s += 6.0
            await taken(idle, affine("idle"))
            assert len(await taken(busy, affine("busy", 0, 1))) == 1
            await eventually(lambda: {n for n in range(4) if dealt(idle, n) == "busy"} == mine)


def dealt(world: World, partition: int) -> str | None:
    """Return the consumer that has a partition, as far as this forwarder knows."""
    hub = world.forwarder.open_hub(world.metadata.subscriptions["reader"].uid)
    assert hub is not None
    hub.open_readers.affinity.expire(world.clock())
    return hub.open_readers.affinity.owner(partition)


async def test_streams_have_partitions_of_their_own_over_all_owners() -> None:
    async with linked(0, 0, 1, 1, 2, 2) as fleet:
        first, second = fleet.members[0], fleet.members[1]
        async with (
            stream(first, "consumer=a&affinity=true") as one,
            stream(second, "consumer=b&affinity=true") as other,
        ):
            await asyncio.sleep(0.3)
            publish(fleet, 3)
            await eventually(lambda: len(one.messages) + len(other.messages) == 18)
            ones = {m["partition"] for m in one.messages}
            others = {m["partition"] for m in other.messages}
            assert (len(ones), len(others)) == (3, 3)
            assert not ones & others


async def test_partitions_that_are_named_are_had_from_their_owners() -> None:
    async with linked(0, 1, 2) as fleet:
        publish(fleet, 2)
        for front in fleet.members:
            answers = [await taken(front, f"partitions={n}&max_messages=1") for n in (1, 2)]
            assert [[m["partition"] for m in one] for one in answers] == [[1], [2]] or (
                front is fleet.members[2] and answers == [[], []]
            )
        async with stream(fleet.members[0], "partitions=0") as opened:
            assert Counter(m["partition"] for m in await opened.until(2)) == {0: 2}
        waiting = asyncio.create_task(taken(fleet.members[0], "partitions=2,9&wait_seconds=5"))
        await asyncio.sleep(0.1)
        fleet.store.publish(b"x", partition=1)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        fleet.store.publish(b"y", partition=2)
        assert [m["data"] for m in await waiting] == ["y"]


async def test_a_partition_that_does_not_exist_is_waited_for() -> None:
    async with linked(0, 1) as fleet:
        publish(fleet, 1)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await taken(fleet.members[0], "partitions=9&wait_seconds=0.5") == []
        assert loop.time() - began_s >= 0.45
