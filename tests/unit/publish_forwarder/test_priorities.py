"""A topic with priorities: which lane a message goes to, what all lanes of a partition share."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import pytest

from edge import message_id
from edge.asgi import Receive
from edge.partition import partition_of
from metadata.types import Partition, SealedPartition, Topic
from publish_forwarder.outcomes import StoredRange
from publish_forwarder.routes import routes
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeQueue,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)

UID = topic().uid
KEY = "customer-17"
HOME = partition_of(KEY, 4)


def lane(store: FakeStore, number: int, of: int, generation: int = 0) -> FakeQueue:
    return store.queues[QueueId(UID, number, of, generation)]


def catalog(priorities: int) -> FakeCatalog:
    return FakeCatalog(topic(priorities=priorities))


@pytest.mark.parametrize(
    ("priorities", "lanes"),
    [(1, [0] * 10), (3, [0, 1, *[2] * 8]), (10, list(range(10)))],
)
async def test_a_message_goes_to_the_lane_of_its_priority(
    priorities: int, lanes: list[int]
) -> None:
    store = FakeStore()
    async with running(store, catalog(priorities)) as forwarder:
        for priority, expected in enumerate(lanes):
            headers = {"Packetboat-Key": KEY, "Packetboat-Priority": str(priority)}
            receipt = (await post(forwarder, b"%d" % priority, headers)).json()
            stored_as = message_id.parse(receipt["message_id"])
            assert (receipt["partition"], stored_as.lane) == (HOME, expected)
            last = lane(store, HOME, expected).log[-1]
            assert (last.data, last.priority) == (b"%d" % priority, priority)


async def test_a_batch_of_all_priorities_is_answered_in_order() -> None:
    store = FakeStore()
    async with running(store, catalog(3)) as forwarder:
        items = [
            {"data": str(n), "priority": n % 4, "key": KEY if n % 2 else None} for n in range(40)
        ]
        results = (await post_batch(forwarder, items)).json()["results"]
        for n, result in enumerate(results):
            at = message_id.parse(result["message_id"])
            assert at.lane == min(n % 4, 2)
            assert lane(store, at.partition, at.lane).log[at.number].data == b"%d" % n
        keyed = [int(m.data) for m in lane(store, HOME, 1).log if m.key == KEY]
        assert keyed == sorted(keyed)


async def test_a_delayed_message_waits_in_its_lane() -> None:
    store = FakeStore()
    async with running(store, catalog(3)) as forwarder:
        headers = {
            "Packetboat-Key": KEY,
            "Packetboat-Priority": "1",
            "Packetboat-Delay": "60",
            "Packetboat-TTL": "5",
        }
        receipt = (await post(forwarder, b"later", headers)).json()
        assert message_id.parse(receipt["message_id"]).lane == 1
        ((message, _),) = lane(store, HOME, 1).staged
        assert (message.data, message.ttl_ms) == (b"later", 5000)
        path = {"topic": "orders", "id": receipt["message_id"]}
        handler = next(r.handler for r in routes(forwarder) if r.method == "DELETE")
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"packetboat.tenant": TENANT, "path_params": path}
        await handler(scope, cast(Receive, None), send)
        assert sent[0]["status"] == 204
        assert lane(store, HOME, 1).fates == {0: ("discarded", None)}


@pytest.mark.parametrize("in_flight", [False, True])
async def test_a_known_key_is_known_whatever_priority_it_comes_with(in_flight: bool) -> None:
    store = FakeStore()
    async with running(store, catalog(3)) as forwarder:
        ways = await forwarder.routes_of(TENANT, "orders")
        share = forwarder.budget.share(TENANT)
        number = partition_of("once", 4)
        lane(store, number, 0).held = in_flight
        futures = []
        for priority in (0, 2):
            message = Message(b"x", idempotency_key="once", priority=priority)
            request = forwarder.publish_nowait(ways, share, message, Durability.QUORUM)
            assert request.future is not None
            futures.append(request.future)
            await run_ready()
        lane(store, number, 0).release()
        first, again = [await future for future in futures]
        assert isinstance(first, StoredRange)
        assert isinstance(again, StoredRange)
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.receipts.lane, again.base_offset) == (0, first.base_offset)
        assert store.stored() == [b"x"]


async def test_a_producers_batch_of_all_priorities_is_stored_once() -> None:
    store = FakeStore()
    async with running(store, catalog(3)) as forwarder:
        headers = {"Packetboat-Producer": "ab" * 16, "Packetboat-Sequence": "7"}
        items = [{"data": str(n), "priority": n % 3} for n in range(6)]
        first = (await post_batch(forwarder, items, headers)).json()["results"]
        again = (await post_batch(forwarder, items, headers)).json()["results"]
        assert [each | {"duplicate": True} for each in first] == again
        assert sorted(store.stored()) == [b"%d" % n for n in range(6)]


async def test_each_priority_sticks_to_a_partition_of_its_own() -> None:
    async with running(FakeStore(), catalog(2)) as forwarder:
        ways = await forwarder.routes_of(TENANT, "orders")
        low, high = ways.partitioners
        low.unkeyed(1, 100, 1000)
        assert low.unkeyed(1, 100, 1000).partition == 1
        assert high.unkeyed(1, 100, 1000).partition == 0


def moved(before: Topic, number: int, group: int) -> Topic:
    """Return the topic after all lanes of a partition were moved to another group."""
    sealed_us = time.time_ns() // 1000
    gone = [one for one in before.partitions if one.number == number]
    sealed = tuple(
        SealedPartition(number, one.group, one.lane, 0, 0, 100 + one.lane, sealed_us, 4)
        for one in gone
    )
    partitions = tuple(
        Partition(number, group, one.lane, 1, 100 + one.lane) if one in gone else one
        for one in before.partitions
    )
    return replace(before, partitions=partitions, sealed=sealed)


async def test_the_lanes_of_a_moved_partition_take_their_messages_along() -> None:
    old = topic(priorities=2)
    new = moved(old, HOME, 9)
    store, known = FakeStore(), FakeCatalog(old)
    async with running(store, known) as forwarder:
        share = forwarder.budget.share(TENANT)

        async def publish(n: int, key: str | None = None) -> None:
            ways = await forwarder.routes_of(TENANT, "orders")
            message = Message(b"%d" % n, key=KEY, priority=n % 2, idempotency_key=key)
            forwarder.publish_nowait(ways, share, message, Durability.QUORUM)

        await publish(0, "first")
        await run_ready()
        for of in (0, 1):
            lane(store, HOME, of).held = True
        for n in range(2, 6):
            await publish(n)
        await run_ready()
        for of in (0, 1):
            successor = QueueId(UID, HOME, of, 1)
            store.appender(9, successor)
            lane(store, HOME, of).successors = ((9, successor.pack()),)
        known.behind[TENANT, "orders"] = new
        for of in (0, 1):
            lane(store, HOME, of).release()
        await publish(6)
        await forwarder.budget.until_idle()
        for of in (0, 1):
            data = [int(m.data) for m in lane(store, HOME, of, 1).log]
            assert data == sorted(data)
            assert {n % 2 for n in data} == {of}
        known_before = Message(b"0", key=KEY, priority=1, idempotency_key="first")
        again = await forwarder.publish(TENANT, "orders", known_before)
        assert isinstance(again, StoredRange)
        assert (again.duplicate, again.receipts.lane) == (True, 0), "the old group knows it"
        assert sorted(map(int, store.stored())) == [0, 2, 3, 4, 5, 6]
