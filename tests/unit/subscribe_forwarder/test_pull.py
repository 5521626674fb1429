"""Pulling: what is there at once, what comes while waiting, and whose turn it is."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterable

import pytest
from crc32c import crc32c

from edge.problem import Problem
from metadata.types import CursorState, Unit
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.state import cursor
from subscribe_forwarder.delivery.wait_list import PullWaiter, Want
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    subscription,
    topic,
    world,
)


async def test_messages_arrive_in_order_with_their_ids() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        w.store.publish(b"c")
        messages = await w.pulled()
        assert [m["data"] for m in messages] == ["a", "b", "c"]
        assert [m["offset"] for m in messages] == [0, 1, 2]
        assert {m["attempt"] for m in messages} == {1}
        assert await w.pulled() == []


async def test_the_answer_is_never_stored() -> None:
    async with world() as w:
        assert (await w.pull()).headers[b"cache-control"] == b"no-store"


async def test_an_empty_pull_asks_the_store_whether_it_is_empty() -> None:
    async with world() as w:
        await asyncio.sleep(0.01)
        w.store.silent = True
        w.store.publish(b"unannounced")
        assert [m["data"] for m in await w.pulled()] == ["unannounced"]


async def test_max_messages() -> None:
    async with world() as w:
        w.store.publish(*[b"%d" % i for i in range(10)])
        assert [m["data"] for m in await w.pulled(4)] == ["0", "1", "2", "3"]
        assert len(await w.pulled(1000)) == 6


async def test_max_bytes_but_always_one() -> None:
    async with world() as w:
        w.store.publish(b"x" * 100, b"x" * 100, b"x" * 100)
        for expected in (1, 2):
            query = f"max_bytes={100 * expected + 50}"
            answer = await w.pull(query=query)
            assert len(answer.json()["messages"]) == expected
        w.store.publish(b"x" * 1000)
        assert len((await w.pull(query="max_bytes=1")).json()["messages"]) == 1


async def test_all_partitions_are_served() -> None:
    async with world(partitions=4) as w:
        for number in range(4):
            w.store.publish(b"%d" % number, partition=number)
        got = []
        while batch := await w.pulled(2):
            got += [m["data"] for m in batch]
        assert sorted(got) == ["0", "1", "2", "3"]


async def test_a_long_poll_wakes_at_once() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        began = time.perf_counter()
        w.store.publish(b"late")
        assert [m["data"] for m in await pull] == ["late"]
        assert time.perf_counter() - began < 0.05


async def test_a_long_poll_ends_empty() -> None:
    async with world() as w:
        began = time.perf_counter()
        assert await w.pulled(wait_s=0.1) == []
        assert 0.09 < time.perf_counter() - began < 0.5


async def test_waiting_pulls_are_served_in_the_order_they_came() -> None:
    async with world() as w:
        pulls = []
        for _ in range(3):
            pulls.append(asyncio.create_task(w.pulled(max_messages=2, wait_s=20)))
            await asyncio.sleep(0.005)
        w.store.publish(*[b"%d" % i for i in range(6)])
        got = [[m["data"] for m in await pull] for pull in pulls]
        assert got == [["0", "1"], ["2", "3"], ["4", "5"]]


async def test_a_pull_that_comes_later_does_not_overtake() -> None:
    async with world() as w:
        first = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        w.store.delay_s = 0.02
        w.store.publish(b"one")
        assert await w.pulled() == []
        assert len(await first) == 1


async def test_a_client_that_left_leaves_nothing_leased() -> None:
    async with world() as w:
        answer = await w.pull(wait_s=20, gone_after_s=0.02)
        assert answer.status == 499
        w.store.publish(b"x")
        (message,) = await w.pulled()
        assert message["attempt"] == 1


async def test_a_client_that_leaves_in_the_same_moment_leaves_nothing_leased() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pull(wait_s=20, gone_after_s=0.02))
        await asyncio.sleep(0.01)
        w.store.delay_s = 0.009
        w.store.publish(b"x")
        await pull
        if pull.result().status == 499:
            (message,) = await w.pulled()
            assert message["attempt"] == 1


async def test_a_caller_that_may_not_go_on_is_told_and_leaves_nothing_leased() -> None:
    async with world() as w:
        refusal = Problem(401, "unauthenticated", "Authentication required")
        answer = await w.pull(wait_s=20, gone_after_s=0.02, refusal=refusal)
        assert answer.status == 401
        w.store.publish(b"x")
        (message,) = await w.pulled()
        assert message["attempt"] == 1


async def test_a_cancelled_wait_leaves_nothing_leased() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        pull.cancel()
        await asyncio.gather(pull, return_exceptions=True)
        w.store.publish(b"x")
        assert len(await w.pulled()) == 1


@pytest.mark.parametrize("turns", range(12))
async def test_a_pull_that_is_cancelled_as_its_message_comes_keeps_none(turns: int) -> None:
    """The turn of the loop does not matter. At most once would lose a message that is kept."""
    async with world() as w:
        pull = asyncio.create_task(w.pull(wait_s=20))
        await asyncio.sleep(0.02)
        w.store.publish(b"a")
        hub = w.forwarder.open_hub(SUBSCRIPTION_UID)
        assert hub is not None
        while not hub.outstanding:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        pull.cancel()
        (answer,) = await asyncio.gather(pull, return_exceptions=True)
        if isinstance(answer, asyncio.CancelledError):
            assert hub.leased() == 0
            assert [m["data"] for m in await w.pulled()] == ["a"]


async def test_a_response_that_could_not_leave_gives_its_messages_back() -> None:
    async with world() as w:
        w.store.publish(b"x", b"y")
        with pytest.raises(ConnectionResetError):
            await w.pull(send_fails=True)
        messages = await w.pulled()
        assert [(m["data"], m["attempt"]) for m in messages] == [("x", 1), ("y", 1)]


async def test_one_fetch_serves_all_subscriptions_and_reads_ahead() -> None:
    async with world(fetch_bytes=600) as w:
        for i in range(50):
            w.store.publish(b"x" * 100 + b"%d" % i)
        got = []
        while batch := await w.pulled(7):
            got += [m["offset"] for m in batch]
        assert got == list(range(50))
        assert len(w.store.fetches) == len(set(w.store.fetches)) < 20


async def test_a_small_cache_delivers_everything_all_the_same() -> None:
    async with world(cache_bytes=5000, fetch_bytes=2000) as w:
        for i in range(200):
            w.store.publish(b"x" * 50 + b"%d" % i)
        got = []
        while batch := await w.pulled(9):
            got += [m["offset"] for m in batch]
        assert got == list(range(200))
        assert w.forwarder._tails.cached_bytes <= 5000


async def test_messages_past_their_time_to_live_are_counted_and_not_delivered() -> None:
    async with world() as w:
        past, future = 1, 365 * 24 * 3_600_000 * 50
        w.store.publish(Message(b"gone", ttl_ms=past), Message(b"kept", ttl_ms=future))
        w.store.publish(Message(b"gone too", ttl_ms=past))
        (message,) = await w.pulled()
        assert message["offset"] == 1
        await w.ack(message)
        row = w.metadata.row()
        assert (row.floor, row.counters.acked, row.counters.expired) == (3, 1, 2)


async def test_what_the_store_truncated_is_counted_as_expired() -> None:
    store = FakeStore()
    store.publish(b"a", b"b", b"c")
    store.publish(b"d")
    store.truncate(3)
    async with world(store, fetch_bytes=10) as w:
        (message,) = await w.pulled()
        assert message["offset"] == 3
        await w.ack(message)
        assert w.metadata.row().counters.expired == 3
        assert w.metadata.row().floor == 4


async def test_a_store_that_does_not_answer_is_503_and_heals() -> None:
    async with world(fetch_timeout_s=0.2) as w:
        w.store.publish(b"x")
        await asyncio.sleep(0.01)
        w.store.failure = Unavailable("no leader")
        assert (await w.pull()).status == 503
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        w.store.failure = None
        assert len(await pull) == 1


async def test_a_store_that_failed_for_a_moment_is_forgotten() -> None:
    async with world() as w:
        w.store.publish(b"x")
        assert len(await w.pulled()) == 1
        w.store.failure = Unavailable("no leader")
        assert await w.pulled() == [], "nothing is known to wait"
        w.store.failure = None
        assert await w.pulled() == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["partitions"][0]["failure"] is None


async def test_an_unreadable_batch_holds_its_readers_and_says_so() -> None:
    async with world() as w:
        w.store.publish(b"x")
        w.store.publish(b"y")
        broken = w.store.queues[QueueId(TOPIC_UID, 0)].entries[1]
        body = b"\x91\xc1"
        head = struct.pack("<2sBBIQI", b"PB", 1, 0, 1, 0, len(body))
        broken.batch = head + struct.pack("<I", crc32c(body, crc32c(head))) + body
        assert [m["data"] for m in await w.pulled()] == ["x"]
        assert await w.pulled() == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["partitions"][0]["failure"] == "BadBatch"


async def test_a_damaged_batch_is_fetched_again() -> None:
    async with world() as w:
        await asyncio.sleep(0.01)
        w.store.publish(b"x")
        entry = w.store.queues[QueueId(TOPIC_UID, 0)].entries[0]
        good, entry.batch = entry.batch, entry.batch[:-1] + b"?"
        assert (await w.pull()).status == 503
        entry.batch = good
        assert len(await w.pulled(wait_s=5)) == 1


async def test_too_many_ranges_pause_new_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "MAX_RANGES", 3)
    async with world() as w:
        w.store.publish(*[b"%d" % i for i in range(12)])
        messages = await w.pulled(9)
        await w.ack(*messages[1::2])
        assert await w.pulled() == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["paused"] == "too_many_ranges"
        await w.post("release", {"ack_ids": [messages[0]["ack_id"], messages[2]["ack_id"]]})
        again = await w.pulled()
        assert [m["offset"] for m in again] == [0, 2]
        await w.ack(*again)
        assert [m["offset"] for m in await w.pulled()] == [9, 10, 11]


async def test_too_many_outstanding_pause_new_messages() -> None:
    async with world(max_outstanding=5) as w:
        w.store.publish(*[b"%d" % i for i in range(20)])
        messages = await w.pulled(100)
        assert len(messages) == 5
        assert await w.pulled(100) == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["paused"] == "too_many_outstanding"
        assert answer.json()["messages"] == 20
        await w.ack(*messages[:2])
        assert len(await w.pulled(100)) == 2


async def test_an_ack_ends_a_pause_for_those_who_wait() -> None:
    async with world(max_outstanding=1) as w:
        w.store.publish(b"a", b"b")
        (message,) = await w.pulled()
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await w.ack(message)
        assert [m["data"] for m in await pull] == ["b"]


async def test_the_line_is_bounded() -> None:
    async with world(max_waiting_pulls=2) as w:
        pulls = [asyncio.create_task(w.pull(wait_s=20)) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert pulls[2].result().status == 503
        w.forwarder.drain()
        assert [(await p).json() for p in pulls[:2]] == [{"messages": []}] * 2


async def test_post_pull() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        path = "/subscriptions/{name}:pull"
        answer = await w.call("POST", path, {"max_messages": 1}, name="reader")
        assert len(answer.json()["messages"]) == 1
        assert len((await w.call("POST", path, name="reader")).json()["messages"]) == 1


async def test_pull_under_the_topic() -> None:
    async with world() as w:
        w.store.publish(b"a")
        path = "/topics/{topic}/subscriptions/{name}/messages"
        assert (await w.call("GET", path, topic="other", name="reader")).status == 404
        answer = await w.call("GET", path, topic="orders", name="reader")
        assert len(answer.json()["messages"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("max_messages=0", "max_messages"),
        ("max_messages=1001", "max_messages"),
        ("max_messages=1.5", "max_messages"),
        ("max_messages=x", "max_messages"),
        ("max_messages=", "max_messages"),
        ("max_messages=1e2", "max_messages"),
        ("wait_seconds=61", "wait_seconds"),
        ("wait_seconds=-1", "wait_seconds"),
        ("wait_seconds=nan", "wait_seconds"),
        ("max_bytes=0", "max_bytes"),
        ("max_bytes=9000000000", "max_bytes"),
    ],
)
async def test_limits_out_of_range_are_named(query: str, field: str) -> None:
    async with world() as w:
        answer = await w.pull(query=query)
        assert answer.status == 400
        assert [e["field"] for e in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"\xff", 400, None),
        (b"[]", 422, "body"),
        (b'{"max": 1}', 422, "max"),
        (b'{"max_messages": "1"}', 422, "max_messages"),
        (b'{"max_messages": 0}', 422, "max_messages"),
        (b'{"wait_seconds": 99}', 422, "wait_seconds"),
    ],
)
async def test_bodies_that_do_not_fit(body: bytes, status: int, field: str | None) -> None:
    async with world() as w:
        answer = await w.call("POST", "/subscriptions/{name}:pull", body, name="reader")
        assert answer.status == status
        if field is not None:
            assert [e["field"] for e in answer.json()["errors"]] == [field]


async def test_unknown_and_foreign_subscriptions_are_404() -> None:
    async with world() as w:
        assert (await w.pull(name="nobody")).status == 404
        assert (await w.pull(tenant=b"\x09" * 16)).status == 404


async def test_an_event_costs_the_same_however_many_pulls_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    ask = PullWaiter.ask

    def counted(waiter: PullWaiter) -> Want | None:
        nonlocal asked
        asked += 1
        return ask(waiter)

    monkeypatch.setattr(PullWaiter, "ask", counted)
    async with world(max_waiting_pulls=500) as w:
        pulls = [asyncio.create_task(w.pulled(wait_s=20)) for _ in range(300)]
        await asyncio.sleep(0.1)
        asked = 0
        for number in range(10):
            w.store.publish(b"%d" % number)
            [message] = await pulls[number]
            await w.ack(message)
        assert asked <= 50
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)


async def test_an_ack_serves_the_wait_list_only_where_something_is_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = 0
    dispatch = Hub.dispatch

    def counted(hub: Hub) -> None:
        nonlocal served
        served += 1
        dispatch(hub)

    monkeypatch.setattr(Hub, "dispatch", counted)
    async with world(max_outstanding=1) as w:
        w.store.publish(b"a")
        [message] = await w.pulled()
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        served = 0
        await w.ack(message)
        assert served == 0
        w.store.publish(b"b", b"c")
        [message] = await pull
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await w.ack(message)
        assert [m["data"] for m in await pull] == ["c"]


async def test_a_pull_that_is_cancelled_before_it_is_served_leaves_its_turn() -> None:
    async with world() as w:
        first, second = [asyncio.create_task(w.pulled(wait_s=20)) for _ in range(2)]
        await asyncio.sleep(0.01)
        first.cancel()
        w.store.publish(b"a", here=True)
        assert [m["data"] for m in await second] == ["a"]
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_pulls_that_come_at_the_first_use_share_one_reading_of_its_cursors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """400 pulls at the first use once made 417 operations of Postgres."""
    metadata = FakeMetadata(topic(2), subscription())
    load, loads = metadata.load, 0

    async def counted(keys: Iterable[Unit]) -> list[CursorState]:
        nonlocal loads
        loads += 1
        await asyncio.sleep(0.01)
        return await load(keys)

    async with world(metadata=metadata, max_waiting_pulls=50) as w:
        await w.ready()
        await w.pulled()
        metadata.add_rows(subscription("later", bytes(15) + b"2"), topic(2))
        monkeypatch.setattr(metadata, "load", counted)
        pulls = [asyncio.create_task(w.pull(wait_s=20, name="later")) for _ in range(40)]
        await asyncio.sleep(0)
        pulls[0].cancel()
        await asyncio.sleep(0.05)
        assert loads == 2, "one for each partition"
        w.store.publish(b"a")
        [message] = (await pulls[1]).json()["messages"]
        assert message["data"] == "a"
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
