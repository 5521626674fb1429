from __future__ import annotations

from collections import Counter

import pytest

from edge.partition import partition_of
from publish_forwarder.outcomes import StoredRange
from publish_forwarder.partitioner import routing_key
from publish_forwarder.router import TopicRoutes
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeStore,
    run_ready,
    running,
    topic,
)


@pytest.mark.parametrize(
    ("key", "partitions", "partition"),
    [("customer-17", 4, 1), ("customer-17", 7, 4), ("ü", 4, 3), ("", 5, 1)],
)
def test_the_partition_of_a_key_never_changes(key: str, partitions: int, partition: int) -> None:
    assert partition_of(key, partitions) == partition


def test_keys_spread_evenly() -> None:
    counts = Counter(partition_of(f"key-{n}", 8) for n in range(8000))
    assert min(counts.values()) > 850
    assert max(counts.values()) < 1150


def test_the_ordering_key_decides_before_the_idempotency_key() -> None:
    assert routing_key(Message(b"", key="k", idempotency_key="i")) == "k"
    assert routing_key(Message(b"", idempotency_key="i")) == "i"
    assert routing_key(Message(b"")) is None


async def routes_of(store: FakeStore, count: int, messages: int = 1) -> list[int]:
    """Return the partitions that `count` unkeyed append requests go to."""
    async with running(store) as forwarder:
        routes: TopicRoutes = await forwarder.routes_of(TENANT, "orders")
        store.hold(*range(4))
        share = forwarder.budget.share(TENANT)
        for key in map(str, range(99)):  # in each partition something is under way
            message = Message(b"", key=key)
            forwarder.publish_nowait(routes, share, message, Durability.QUORUM)
        await run_ready()
        return [routes.partitioners[0].unkeyed(messages, 100, 1000).partition for _ in range(count)]


async def test_unkeyed_messages_stick_to_a_partition_and_then_turn() -> None:
    partitions = await routes_of(FakeStore(), 1024)
    runs = [set(partitions[at : at + 256]) for at in range(0, 1024, 256)]
    assert all(len(run) == 1 for run in runs)
    assert set.union(*runs) == {0, 1, 2, 3}


async def test_a_slow_publisher_reaches_all_partitions() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        placed = [await forwarder.publish(TENANT, "orders", Message(b"")) for _ in range(8)]
        assert [one.partition for one in placed if isinstance(one, StoredRange)] == [0, 1, 2, 3] * 2


async def test_a_slow_publisher_passes_over_what_has_no_leader() -> None:
    store = FakeStore()
    store.leaderless = {1, 2}
    async with running(store) as forwarder:
        placed = [await forwarder.publish(TENANT, "orders", Message(b"")) for _ in range(4)]
        assert [one.partition for one in placed if isinstance(one, StoredRange)] == [0, 3] * 2


async def test_a_large_batch_takes_one_partition_each() -> None:
    assert len(set(await routes_of(FakeStore(), 4, messages=256))) == 4


async def test_partitions_without_a_leader_are_passed_over() -> None:
    store = FakeStore()
    store.leaderless = {0, 1, 3}
    assert set(await routes_of(store, 200)) == {2}


async def test_without_any_leader_a_partition_is_still_named() -> None:
    store = FakeStore()
    store.leaderless = {0, 1, 2, 3}
    assert len(await routes_of(store, 3)) == 3


async def test_the_topic_of_one_partition() -> None:
    store = FakeStore()
    store.leaderless = {0}
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        routes = await forwarder.routes_of(TENANT, "orders")
        assert {routes.partitioners[0].unkeyed(64, 1, 1).partition for _ in range(5)} == {0}


async def test_while_few_wait_a_message_takes_an_idle_partition() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store) as forwarder:
        share = forwarder.budget.share(TENANT)
        requests = []
        for _ in range(4):
            routes = await forwarder.routes_of(TENANT, "orders")
            message = Message(b"")
            requests.append(forwarder.publish_nowait(routes, share, message, Durability.QUORUM))
            await run_ready()
        assert [len(store.partition(number).sent) for number in range(4)] == [1, 1, 1, 1]
        share.reserve(0, 100)
        for _ in range(3):
            forwarder.publish_nowait(routes, share, Message(b""), Durability.QUORUM)
        senders = routes.partitioners[0].senders
        assert sorted(len(sender.pending) for sender in senders) == [0, 0, 0, 3]
        share.release(0, 100)
        for number in range(4):
            store.partition(number).release()
        await run_ready()
