"""Test the room of a pull beyond its first message, and the rate limits of a subscription."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from metadata.types import ChangeKind
from tests.unit.subscribe_forwarder.subscribe_support import World, world


async def limit(w: World, **limits: float | int | None) -> None:
    """Changes the subscription, and the change feed tells it."""
    reader = w.metadata.subscriptions["reader"]
    w.metadata.subscriptions["reader"] = replace(reader, **limits)  # type: ignore[arg-type]
    await w.metadata.changed(ChangeKind.SUBSCRIPTION, reader.uid, reader.name)


async def count(w: World, query: str, **options: Any) -> int:
    answer = await w.pull(query=query, **options)
    assert answer.status == 200, answer.body
    return len(answer.json()["messages"])


async def paused(w: World) -> object:
    answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
    return answer.json()["paused"]


async def test_it_waits_for_so_many_messages() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pull(query="min_messages=3&wait_seconds=20"))
        for body in (b"a", b"b", b"c"):
            assert not pull.done()
            w.store.publish(body)
            await asyncio.sleep(0.02)
        assert [m["data"] for m in (await pull).json()["messages"]] == ["a", "b", "c"]


async def test_the_end_of_the_wait_gives_what_there_is() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        assert await count(w, "min_messages=3&wait_seconds=0.1") == 2


async def test_without_a_wait_there_is_nothing_to_wait_for() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        assert await count(w, "min_messages=3") == 2


async def test_as_many_bytes_as_fit_are_enough() -> None:
    async with world() as w:
        w.store.publish(b"x" * 100, b"x" * 100)
        assert await count(w, "min_messages=9&max_bytes=200&wait_seconds=20") == 2


async def test_the_same_in_a_body() -> None:
    async with world() as w:
        w.store.publish(b"a")
        body = {"min_messages": 2, "wait_seconds": 0.05, "consumer": "me"}
        answer = await w.call("POST", "/subscriptions/{name}:pull", body, name="reader")
        assert len(answer.json()["messages"]) == 1


async def test_leases_of_what_came_early_begin_with_the_answer() -> None:
    async with world(ack_deadline_s=5) as w:
        w.store.publish(b"a")
        pull = asyncio.create_task(w.pull(query="min_messages=2&wait_seconds=60"))
        await asyncio.sleep(0.02)
        w.clock.added_s += 30
        w.store.publish(b"b")
        messages = (await pull).json()["messages"]
        assert [m["attempt"] for m in messages] == [1, 1]
        w.clock.added_s += 4
        done = await w.post("release", {"ack_id": messages[0]["ack_id"]})
        assert done.json()["done"] == 1
        w.clock.added_s += 2
        done = await w.post("release", {"ack_id": messages[1]["ack_id"]})
        assert done.json()["results"][0]["type"].endswith("/lease-expired")


async def test_who_goes_while_waiting_leaves_nothing_leased() -> None:
    async with world() as w:
        w.store.publish(b"a")
        answer = await w.pull(query="min_messages=2&wait_seconds=20", gone_after_s=0.02)
        assert answer.status == 499
        assert [m["attempt"] for m in await w.pulled()] == [1]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("min_messages=0", "min_messages"),
        ("min_messages=11", "min_messages"),
        ("max_messages=2&min_messages=3", "min_messages"),
        ("consumer=", "consumer"),
        ("consumer=" + "x" * 129, "consumer"),
        ("consumer=a%0Ab", "consumer"),
    ],
)
async def test_what_does_not_fit(query: str, field: str) -> None:
    async with world() as w:
        answer = await w.pull(query=query)
        assert answer.status == 400
        assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_limited_subscription_gives_a_burst_and_then_its_rate() -> None:
    async with world() as w:
        await limit(w, rate_limit=50)
        w.store.publish(*[b"x"] * 200)
        w.clock.stop()
        assert await count(w, "max_messages=1000") == 50
        assert await count(w, "max_messages=1000") == 0
        assert await paused(w) == "rate_limited"
        w.clock.added_s += 0.5
        assert await count(w, "max_messages=1000") == 25
        w.clock.added_s += 100
        assert await count(w, "max_messages=1000") == 50


async def test_a_waiting_pull_wakes_when_tokens_come() -> None:
    async with world() as w:
        await limit(w, rate_limit=20)
        w.store.publish(*[b"x"] * 40)
        assert await count(w, "max_messages=1000") == 20
        assert await count(w, "wait_seconds=20") == 1


async def test_each_consumer_has_its_own_limit_and_holds_up_no_other() -> None:
    async with world() as w:
        await limit(w, consumer_rate_limit=1)
        w.store.publish(*[b"x"] * 10)
        assert await count(w, "consumer=a") == 1
        waiting = asyncio.create_task(w.pull(query="consumer=a&wait_seconds=20"))
        await asyncio.sleep(0.01)
        assert await count(w, "consumer=b") == 1
        assert await count(w, "consumer=b") == 0
        assert await paused(w) is None
        w.clock.added_s += 1
        assert await count(w, "consumer=b") == 1
        w.store.publish(b"y")
        assert len((await waiting).json()["messages"]) == 1


async def test_the_nameless_share_one_limit() -> None:
    async with world() as w:
        await limit(w, consumer_rate_limit=1)
        w.store.publish(*[b"x"] * 10)
        assert await count(w, "") == 1
        assert await count(w, "") == 0
        assert await count(w, "consumer=a") == 1


async def test_limits_change_in_place() -> None:
    async with world() as w:
        await limit(w, rate_limit=1)
        w.store.publish(*[b"x"] * 40)
        assert await count(w, "max_messages=1000") == 1
        await limit(w, rate_limit=10)
        w.clock.added_s += 1
        assert await count(w, "max_messages=1000") == 10
        await limit(w, rate_limit=None)
        assert await count(w, "max_messages=1000") == 29


async def test_max_outstanding_of_the_subscription() -> None:
    async with world() as w:
        await limit(w, max_outstanding=3)
        w.store.publish(*[b"x"] * 10)
        assert await count(w, "") == 3
        assert await count(w, "") == 0
        assert await paused(w) == "too_many_outstanding"
