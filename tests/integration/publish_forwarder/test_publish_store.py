"""Publishing on three real store nodes whose leaders are killed: one copy, and the first answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from edge.problem import Problem
from harness.cluster import ChaosCluster
from metadata.types import Partition, SealedPartition, Topic
from publish_forwarder.delays import Delay
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.idempotency import Producer
from publish_forwarder.outcomes import Scheduled, Single, StoredRange
from publish_forwarder.partitioner import queue_of
from publish_forwarder.settings import PublishSettings
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.integration.store_nodes.store_cluster import read_texts, ready_client, running_store
from tests.unit.publish_forwarder.publish_support import TENANT, FakeCatalog, topic

GROUP = 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("publish")) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def new_topic(client: StoreClient, *groups: int) -> Topic:
    """Make a topic with one partition in each group."""
    partitions = tuple(Partition(number, group) for number, group in enumerate(groups))
    made = replace(topic(), uid=os.urandom(16), partitions=partitions)
    for number, group in enumerate(groups):
        await client.create(group, queue_of(made, made.partitions[number]), 0, b"test")
    return made


@asynccontextmanager
async def forwarder_of(
    client: StoreClient, catalog: FakeCatalog
) -> AsyncIterator[PublishForwarder]:
    forwarder = PublishForwarder(catalog, client, PublishSettings(), registry=None)
    try:
        yield forwarder
    finally:
        await forwarder.close()


async def kill_leader(cluster: ChaosCluster, client: StoreClient, group: int = GROUP) -> int:
    node = client.leader(group)
    assert node is not None
    cluster.kill_node(node)
    return node


async def keyed(forwarder: PublishForwarder, number: int) -> StoredRange:
    """Publish until the message is known to be stored, as a client with an idempotency key does."""
    message = Message(b"%d" % number, key=f"k{number % 5}", idempotency_key=f"i{number}")
    while True:
        try:
            placed = await forwarder.publish(TENANT, "orders", message)
        except Problem as problem:
            if problem.status not in (503, 504):
                raise
            await asyncio.sleep(0.05)
        else:
            assert isinstance(placed, StoredRange)
            return placed


async def test_the_retry_of_a_killed_leaders_publish_is_a_duplicate_at_the_next_leader(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    made = await new_topic(client, GROUP)
    message = Message(b"once", idempotency_key="order-17")
    async with forwarder_of(client, FakeCatalog(made)) as forwarder:
        first = await forwarder.publish(TENANT, "orders", message)
        # The answer is lost on its way to the client, and the leader dies.
        old = await kill_leader(cluster, client)
        async with forwarder_of(client, FakeCatalog(made)) as another:
            for each in (forwarder, another):
                again = await each.publish(TENANT, "orders", message)
                assert isinstance(first, StoredRange)
                assert isinstance(again, StoredRange)
                assert again.duplicate
                assert (again.base_offset, again.log_time_us) == (
                    first.base_offset,
                    first.log_time_us,
                )
                with pytest.raises(Problem, match="idempotency-key-reused"):
                    await each.publish(
                        TENANT, "orders", Message(b"twice", idempotency_key="order-17")
                    )
        assert client.leader(GROUP) not in (None, old)
    assert await read_texts(client, queue_of(made, made.partitions[0])) == ["once"]


async def test_publishes_under_way_while_leaders_die_are_stored_once_each(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    made = await new_topic(client, 0, 1, 2)
    duplicates = 0
    async with (
        forwarder_of(client, FakeCatalog(made)) as one,
        forwarder_of(client, FakeCatalog(made)) as two,
    ):
        for round_ in range(3):
            numbers = range(round_ * 100, round_ * 100 + 100)
            # Two forwarders send the same messages at the same time, as impatient clients do.
            tasks = [
                asyncio.create_task(keyed(forwarder, number))
                for number in numbers
                for forwarder in (one, two)
            ]
            await asyncio.sleep(0.005 * (round_ + 1))
            node = await kill_leader(cluster, client, round_)
            placed = await asyncio.gather(*tasks)
            for first, second in zip(placed[::2], placed[1::2], strict=True):
                assert (first.partition, first.base_offset) == (
                    second.partition,
                    second.base_offset,
                )
                assert first.duplicate or second.duplicate
                duplicates += first.duplicate + second.duplicate
            cluster.start_node(node)
            await client.wait_ready()
    stored = []
    for partition in made.partitions:
        queue = queue_of(made, partition)
        stored += await read_texts(client, queue, partition.group)
    assert sorted(map(int, stored)) == list(range(300))
    assert duplicates >= 300


async def results(
    forwarder: PublishForwarder, messages: list[Message], producer: Producer
) -> list[Single | str]:
    return await forwarder.publish_batch(TENANT, "orders", messages, producer=producer)


async def test_a_batch_and_its_retry_after_the_leader_died(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    made = await new_topic(client, 0, 1)
    messages = [Message(b"%d" % n, key=f"k{n}" if n % 2 else None) for n in range(50)]
    producer = Producer(os.urandom(16), 1)
    async with forwarder_of(client, FakeCatalog(made)) as forwarder:
        first = await results(forwarder, messages, producer)
        await kill_leader(cluster, client)
        async with forwarder_of(client, FakeCatalog(made)) as another:
            again = await results(another, messages, producer)
        places = [(p.partition, p.base_offset) for p in first if isinstance(p, StoredRange)]
        assert len(places) == 50
        assert [(p.partition, p.base_offset) for p in again if isinstance(p, StoredRange)] == places
        assert all(p.duplicate for p in again if isinstance(p, StoredRange))


async def test_a_delayed_message_is_staged_once_and_can_be_cancelled(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    made = await new_topic(client, GROUP)
    queue = queue_of(made, made.partitions[0])
    message = Message(b"later", idempotency_key="d1")
    hour = Delay(False, 3_600_000_000)
    async with forwarder_of(client, FakeCatalog(made)) as forwarder:
        first = await forwarder.publish(TENANT, "orders", message, delay=hour)
        assert isinstance(first, Scheduled)
        await kill_leader(cluster, client)
        again = await forwarder.publish(TENANT, "orders", message, delay=hour)
        assert isinstance(again, Scheduled)
        assert (again.base_stage, again.duplicate) == (first.base_stage, True)
        page = await client.staged(GROUP, queue)
        assert [(one.stage_number, one.due_us) for one in page.staged] == [
            (0, (first.due_us or (0,))[0])
        ]
        assert await client.discard(GROUP, queue, [0]) == 1
        assert await client.locate(GROUP, queue, 0) == ("discarded", None)


async def test_a_partition_moves_while_it_is_published_to(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    """Seal, successor, news: as a move is made. No publish fails, and each message is stored once,
    in order, also those sent again afterwards."""
    old = await new_topic(client, 0)
    catalog = FakeCatalog(old)
    catalog.behind[TENANT, "orders"] = old
    successor = QueueId(old.uid, 0, 0, 1)
    failed: list[Problem] = []
    sent = 0

    async with forwarder_of(client, catalog) as forwarder:
        done = asyncio.Event()

        async def publisher(name: int) -> None:
            nonlocal sent
            count = 0
            while not done.is_set() or count < 20:
                with_id = f"m{name}-{count}" if count % 2 else None
                message = Message(b"%d:%d" % (name, count), key=f"k{name}", idempotency_key=with_id)
                try:
                    await forwarder.publish(TENANT, "orders", message)
                except Problem as problem:
                    failed.append(problem)
                count += 1
                sent += 1
                await asyncio.sleep(0.002)

        tasks = [asyncio.create_task(publisher(name)) for name in range(6)]
        await asyncio.sleep(0.3)
        end = await client.seal(0, queue_of(old, old.partitions[0]), [(1, successor)])
        await asyncio.sleep(0.2)
        await client.create(1, successor, end, b"test")
        sealed = SealedPartition(0, 0, 0, 0, 0, end, time.time_ns() // 1000, 1)
        catalog.behind[TENANT, "orders"] = replace(
            old, partitions=(Partition(0, 1, 0, 1, end),), sealed=(sealed,)
        )
        await asyncio.sleep(0.3)
        done.set()
        await asyncio.gather(*tasks)
        assert failed == []
        before = await read_texts(client, queue_of(old, old.partitions[0]))
        after = await read_texts(client, successor, 1)
        assert len(before) == end
        texts = before + after
        assert len(texts) == len(set(texts)) == sent
        for name in range(6):
            counts = [int(t.split(":")[1]) for t in texts if t.startswith(f"{name}:")]
            assert counts == sorted(counts)
        for text in (before[-1], after[-1], *(t for t in before if int(t.split(":")[1]) == 1)):
            name, count = map(int, text.split(":"))
            if count % 2:
                message = Message(text.encode(), key=f"k{name}", idempotency_key=f"m{name}-{count}")
                again = await forwarder.publish(TENANT, "orders", message)
                assert isinstance(again, StoredRange)
                assert again.duplicate
        assert len(await read_texts(client, successor, 1)) == len(after)


async def test_asking_a_sealed_queue_costs_its_group_nothing(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    old = await new_topic(client, 0)
    successor = QueueId(old.uid, 0, 0, 1)
    await client.seal(0, queue_of(old, old.partitions[0]), [(1, successor)])
    await client.create(1, successor, 0, b"test")
    sealed = SealedPartition(0, 0, 0, 0, 0, 0, time.time_ns() // 1000, 1)
    moved = replace(old, partitions=(Partition(0, 1, 0, 1),), sealed=(sealed,))

    async def chosen() -> int:
        statuses = await cluster.statuses()
        groups = [group for status in statuses.values() for group in status.get("groups", ())]
        return max(int(group["applied"]) for group in groups if group["group"] == 0)

    async with forwarder_of(client, FakeCatalog(moved)) as forwarder:
        before = await chosen()
        for number in range(20):
            await keyed(forwarder, number)
        assert await chosen() - before < 20, "a new leader's no-op, but not one for each message"
    assert len(await read_texts(client, successor, 1)) == 20
