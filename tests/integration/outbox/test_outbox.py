"""The outbox on real store nodes: each name is stored once, whatever is repeated or moved."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from edge import message_id
from edge.partition import partition_of
from harness.cluster import ChaosCluster
from metadata.types import Partition, Retention, SealedPartition, Topic, TopicState
from outbox import Item, Outbox, TopicFull
from store_nodes.client import StoreClient
from store_nodes.errors import QueueSealed
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.integration.store_nodes.store_cluster import read_texts, ready_client, running_store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("store")) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as client:
        yield client


def topic_of(*partitions: Partition, uid: bytes, sealed: tuple[SealedPartition, ...] = ()) -> Topic:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Topic(
        bytes(16), uid, "t", TopicState.ACTIVE, partitions, Retention(), 600, {}, 1, now, now,
        sealed=sealed,
    )  # fmt: skip


async def new_topic(client: StoreClient, partitions: int = 1) -> Topic:
    uid = os.urandom(16)
    for number in range(partitions):
        await client.create(number % 2, QueueId(uid, number), 0, b"test")
    return topic_of(*(Partition(n, n % 2) for n in range(partitions)), uid=uid)


def items(*texts: str, key: str | None = None) -> list[Item]:
    return [Item(Message(text.encode(), key=key), b"name of " + text.encode()) for text in texts]


async def test_what_is_repeated_is_found_where_it_is(client: StoreClient) -> None:
    topic = await new_topic(client, 3)
    outbox = Outbox(client)
    first = await outbox.append(topic, items("a", "b", "c", "d"))
    again = await Outbox(client).append(topic, items("x", "d", "b", "a", "c", "y"))
    assert [(p.partition, p.offset) for p in again[1:5]] == [
        (first[at].partition, first[at].offset) for at in (3, 1, 0, 2)
    ]
    assert [p.duplicate for p in again] == [False, True, True, True, True, False]
    assert again[1].message_id == first[3].message_id
    stored = [await read_texts(client, QueueId(topic.uid, n), n % 2) for n in range(3)]
    assert sorted(text for texts in stored for text in texts) == ["a", "b", "c", "d", "x", "y"]
    parsed = message_id.parse(first[0].message_id)
    assert (parsed.topic_uid, parsed.number) == (topic.uid, first[0].offset)


async def test_a_key_keeps_its_order_over_many_appends(client: StoreClient) -> None:
    topic = await new_topic(client, 2)
    texts = [f"{n}" for n in range(2500)]
    placed = await Outbox(client).append(topic, items(*texts, key="k"))
    number = partition_of("k", 2)
    assert {p.partition for p in placed} == {number}
    assert [p.offset for p in placed] == list(range(2500))
    assert await read_texts(client, QueueId(topic.uid, number), number % 2) == texts


async def test_a_name_is_known_after_a_move_and_a_sealed_queue_leads_on(
    client: StoreClient,
) -> None:
    topic = await new_topic(client)
    outbox = Outbox(client)
    await outbox.append(topic, items("a"))
    old, new = QueueId(topic.uid, 0), QueueId(topic.uid, 0, 0, 1)
    end = await client.seal(0, old, [(1, new)])
    await client.create(1, new, end, b"test")
    # By the view from before the move: led on.
    (a, b) = await outbox.append(topic, items("a", "b"))
    assert (a.duplicate, a.offset, b.duplicate, b.offset) == (True, 0, False, 1)
    # By the view after it, by another process.
    moved = topic_of(
        Partition(0, 1, generation=1, base=end),
        uid=topic.uid,
        sealed=(SealedPartition(0, 0, 0, 0, 0, end, 2**60, 1),),
    )
    again = await Outbox(client).append(moved, items("b", "a", "c"))
    assert [(p.duplicate, p.offset) for p in again] == [(True, 1), (True, 0), (False, 2)]
    assert await read_texts(client, old) == ["a"]
    assert await read_texts(client, new, 1) == ["b", "c"]


async def test_a_topic_that_is_full_or_gone_refuses(client: StoreClient) -> None:
    topic = await new_topic(client)
    full = Topic(
        *(getattr(topic, name) for name in Topic.__slots__[:11]),
        full="topic-full",
        full_detail="at 10 bytes",
    )
    with pytest.raises(TopicFull, match="at 10 bytes"):
        await Outbox(client).append(full, items("a"))
    await client.seal(0, QueueId(topic.uid, 0), [])
    with pytest.raises(QueueSealed):
        await Outbox(client).append(topic, items("a"))
