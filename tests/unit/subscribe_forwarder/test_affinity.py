"""Consumers with partitions of their own: at most one works a partition at a time, and none is
left alone while somebody is there."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscribe_forwarder.api import stream_parts
from subscribe_forwarder.delivery.state.affinity import MAX_DEALT, Affinity
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import World, world

names = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=20, unique=True)


def among(*consumers: str, partitions: int = 8) -> Affinity:
    affinity = Affinity()
    affinity.partitions = partitions
    for consumer in consumers:
        affinity.attend(consumer, 10.0)
    return affinity


def dealt(affinity: Affinity) -> dict[int, str | None]:
    return {partition: affinity.owner(partition) for partition in range(affinity.partitions)}


# Consumers and their partitions.


@given(names, st.integers(1, 40))
def test_every_partition_is_somebodys_and_nobody_has_more_than_its_number(
    consumers: list[str], partitions: int
) -> None:
    owners = dealt(among(*consumers, partitions=partitions))
    assert set(owners.values()) <= set(consumers)
    assert max(Counter(owners.values()).values()) <= -(-partitions // len(consumers))


@given(names, st.integers(1, 40))
def test_the_order_in_which_they_come_changes_nothing(consumers: list[str], count: int) -> None:
    one, other = among(*consumers, partitions=count), among(*consumers[::-1], partitions=count)
    assert dealt(one) == dealt(other)


def test_few_partitions_move_when_one_comes() -> None:
    consumers = [f"worker-{number}" for number in range(9)]
    before = dealt(among(*consumers, partitions=200))
    after = dealt(among(*consumers, "new", partitions=200))
    moved = sum(1 for partition in before if before[partition] != after[partition])
    assert Counter(after.values())["new"] >= 10
    assert moved <= 60


def test_a_topic_that_grows_is_dealt_anew() -> None:
    affinity = among("a", "b", partitions=2)
    assert affinity.owner(3) is None
    affinity.partitions = 4
    assert {affinity.owner(3), affinity.owner(2)} <= {"a", "b"}


def test_who_is_not_heard_of_is_gone() -> None:
    affinity = among("a")
    affinity.attend("b", 20.0)
    assert affinity.due_s() == 10.0
    assert not affinity.expire(9.9)
    assert affinity.expire(10.0)
    assert set(dealt(affinity).values()) == {"b"}
    assert affinity.depart("b")
    assert not affinity.depart("b")
    assert set(dealt(affinity).values()) == {None}
    assert affinity.due_s() is None


def test_who_says_so_again_stays() -> None:
    affinity = among("a")
    assert not affinity.attend("a", 30.0)
    assert not affinity.attend("a", 5.0)
    assert not affinity.expire(29.0)


def test_those_that_came_first_have_partitions_where_there_are_too_many() -> None:
    consumers = [f"c{number}" for number in range(MAX_DEALT + 5)]
    owners = set(dealt(among(*consumers, partitions=2000)).values())
    assert owners == set(consumers[:MAX_DEALT])


def test_what_the_former_has_leased_keeps_the_next_away() -> None:
    affinity = among("a", partitions=1)
    affinity.took("a", 0)
    affinity.depart("a")
    affinity.attend("b", 10.0)
    assert not affinity.may_take("a", 0, leased=False)
    assert not affinity.may_take("b", 0, leased=True)
    assert affinity.may_take("b", 0, leased=False)
    affinity.took("b", 0)
    assert affinity.may_take("b", 0, leased=True)


# Pulls.


def query(consumer: str, wait_s: float = 0, max_messages: int = 10, more: str = "") -> str:
    return (
        f"max_messages={max_messages}&wait_seconds={wait_s:g}&consumer={consumer}"
        f"&affinity=true{more}"
    )


async def pulled(w: World, asked: str) -> list[dict[str, Any]]:
    answer = await w.pull(query=asked)
    assert answer.status == 200, answer.body
    return list(answer.json()["messages"])


def publish_each(w: World, count: int = 3, partitions: int = 4) -> None:
    for partition in range(partitions):
        w.store.publish(*(b"%d" % number for number in range(count)), partition=partition)


async def test_only_the_partitions_that_are_named() -> None:
    async with world(partitions=4) as w:
        publish_each(w)
        messages = await pulled(w, "max_messages=100&partitions=1,3")
        assert Counter(m["partition"] for m in messages) == {1: 3, 3: 3}
        answer = await w.call(
            "POST", "/subscriptions/{name}:pull", {"partitions": [0]}, name="reader"
        )
        assert {m["partition"] for m in answer.json()["messages"]} == {0}


async def test_one_that_waits_for_nothing_in_its_partitions_holds_up_nobody() -> None:
    async with world(partitions=2) as w:
        first = asyncio.create_task(pulled(w, "wait_seconds=5&partitions=1"))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(pulled(w, "wait_seconds=5"))
        third = asyncio.create_task(pulled(w, "wait_seconds=5&partitions=0&max_messages=1"))
        await asyncio.sleep(0.02)
        w.store.publish(b"a", b"b", b"c")
        await asyncio.sleep(0.02)
        assert (await pulled(w, "")) == []  # all are given to earlier callers
        w.store.publish(b"d")
        async with asyncio.timeout(2):
            await asyncio.gather(second, third)
        assert not first.done()
        w.store.publish(b"e", partition=1)
        assert [m["data"] for m in await first] == ["e"]


async def test_those_who_wait_keep_their_turns() -> None:
    async with world(partitions=2) as w:
        waits = [
            asyncio.create_task(pulled(w, f"wait_seconds=5&partitions={n % 2}&max_messages=1"))
            for n in range(4)
        ]
        await asyncio.sleep(0.02)
        for number in range(2):
            w.store.publish(b"even-%d" % number)
            await asyncio.sleep(0.02)
        w.store.publish(b"odd-0", partition=1)
        w.store.publish(b"odd-1", partition=1)
        got = [(await one)[0]["data"] for one in waits]
        assert got == ["even-0", "odd-0", "even-1", "odd-1"]


async def test_one_without_a_turn_goes_before_those_who_came_later() -> None:
    async with world(partitions=2) as w:
        asked = ["wait_seconds=5&partitions=1", "wait_seconds=0.3"]
        named, any_ = [asyncio.create_task(pulled(w, one)) for one in asked]
        await asyncio.sleep(0.05)
        w.store.publish(b"a", partition=1)
        assert [m["data"] for m in await named] == ["a"]
        assert await any_ == []


async def test_two_consumers_share_the_partitions() -> None:
    async with world(partitions=4) as w:
        one = asyncio.create_task(pulled(w, query("one", 5, 100)))
        two = asyncio.create_task(pulled(w, query("two", 5, 100)))
        await asyncio.sleep(0.02)
        publish_each(w)
        await asyncio.gather(one, two)
        taken = {"one": one.result(), "two": two.result()}
        for name in taken:
            taken[name] += await pulled(w, query(name, 0, 100))
        partitions = {name: {m["partition"] for m in some} for name, some in taken.items()}
        assert partitions["one"] | partitions["two"] == {0, 1, 2, 3}
        assert not partitions["one"] & partitions["two"]
        assert len(partitions["one"]) == 2


async def test_the_next_gets_a_partition_once_nothing_of_it_is_leased() -> None:
    async with world(partitions=1) as w:
        publish_each(w, 3, 1)
        first = await pulled(w, query("first", 0, 1))
        w.clock.added_s += 11  # it is not heard of any more
        wait = asyncio.create_task(pulled(w, query("second", 5)))
        await asyncio.sleep(0.05)
        assert not wait.done()
        await w.ack(*first)
        async with asyncio.timeout(2):
            assert [m["offset"] for m in await wait] == [1, 2]


async def test_a_lease_that_is_over_frees_the_partition() -> None:
    async with world(partitions=1, ack_deadline_s=30.0) as w:
        publish_each(w, 1, 1)
        await pulled(w, query("first"))
        w.clock.added_s += 31
        async with asyncio.timeout(2):
            (again,) = await pulled(w, query("second", 5))
        assert again["attempt"] == 2


async def test_one_that_goes_on_gets_more_while_it_has_leases() -> None:
    async with world(partitions=1) as w:
        publish_each(w, 3, 1)
        assert len(await pulled(w, query("one", 0, 1))) == 1
        assert len(await pulled(w, query("one", 0, 1))) == 1


@pytest.mark.parametrize(
    "asked",
    [
        "partitions=",
        "partitions=a",
        "partitions=1,,2",
        "partitions=-1",
        "partitions=70000",
        "affinity=1&consumer=a",
        "affinity=true",
        "affinity=true&consumer=a&partitions=1",
    ],
)
async def test_what_does_not_fit_is_refused(asked: str) -> None:
    async with world() as w:
        assert (await w.pull(query=asked)).status == 400


@pytest.mark.parametrize("body", [{"partitions": []}, {"affinity": True}, {"partitions": [-1]}])
async def test_a_body_that_does_not_fit_is_refused(body: object) -> None:
    async with world() as w:
        answer = await w.call("POST", "/subscriptions/{name}:pull", body, name="reader")
        assert answer.status == 422


# Streams.


async def test_a_stream_has_its_partitions_while_it_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_parts, "TICK_S", 0.01)
    async with world(partitions=4) as w, stream(w, "affinity=true&consumer=one") as one:
        async with stream(w, "affinity=true&consumer=two") as two:
            w.clock.added_s += 5
            await asyncio.sleep(0.05)
            w.clock.added_s += 9  # both have said meanwhile that they are there
            publish_each(w)
            await one.until(6)
            await two.until(6)
            mine = {m["partition"] for m in one.messages}
            assert mine.isdisjoint({m["partition"] for m in two.messages})
            await w.ack(*two.messages)
        publish_each(w, 1)
        await one.until(10)  # at once, for the other has closed its stream


async def test_a_stream_of_partitions_that_are_named() -> None:
    async with world(partitions=4) as w:
        publish_each(w)
        async with stream(w, "partitions=2") as s:
            assert {m["partition"] for m in await s.until(3)} == {2}


# All of it, at random.


@pytest.mark.parametrize("seed", range(4))
async def test_never_two_in_one_partition_and_all_of_them_are_served(seed: int) -> None:
    random_ = random.Random(seed)
    partitions, each = 5, 20
    held: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    async with world(partitions=partitions, ack_deadline_s=600) as w:
        publish_each(w, each, partitions)
        acked: Counter[int] = Counter()
        consumers: list[str] = ["a"]
        for step in range(400):
            if random_.random() < 0.05:
                consumers = random_.sample("abcdef", random_.randint(1, 5))
                w.clock.added_s += 11
            name = random_.choice(consumers)
            asked = query(name, 0, random_.randint(1, 4))
            for message in await pulled(w, asked):
                here = held[message["partition"]]
                others = [other for other, ids in here.items() if ids and other != name]
                assert not others, f"seed {seed}, step {step}: {name} beside {others}"
                here[name].add(msgspec.json.encode(message).decode())
            for partition, here in held.items():
                for owner, some in here.items():
                    if owner in consumers and random_.random() < 0.7:
                        continue
                    for text in list(some)[: random_.randint(0, 3)]:
                        await w.ack(msgspec.json.decode(text))
                        some.discard(text)
                        acked[partition] += 1
            if acked.total() == partitions * each:
                break
        for _ in range(200):  # the last consumer finishes it
            w.clock.added_s += 11
            for message in await pulled(w, query("last", 0, 100)):
                acked[message["partition"]] += 1
                await w.ack(message)
            for partition, here in held.items():
                for some in here.values():
                    for text in list(some):
                        await w.ack(msgspec.json.decode(text))
                        some.discard(text)
                        acked[partition] += 1
        assert acked == dict.fromkeys(range(partitions), each), f"seed {seed}"
