"""Messages staged for an ack, and the sweep of what was left, on real store nodes and Postgres."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.deliveries import Publication
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.publications import PublicationRepository
from metadata.types import CursorUpdate, Topic
from outbox.staging import Output, Staged, Staging, plan
from scheduler.forwarding import Forwarding
from scheduler.publications import PublicationSweep
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.integration.metadata.world import World, settled, with_epoch
from tests.integration.store_nodes.store_cluster import read_texts, ready_client, running_store

TIMEOUT_S = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("store")) as cluster:
        yield cluster


class Bench:
    """A topic of two partitions in both places, and a sweep that takes all that is left at once."""

    def __init__(
        self, database: Database, client: StoreClient, topic: Topic, update: CursorUpdate
    ) -> None:
        self.update = update
        """An update of some cursor, under its epoch."""
        self.client = client
        self.topic = topic
        self.staging = Staging(client)
        self.publications = PublicationRepository(database)
        self.database = database
        forwarding = Forwarding(client, ForwardedRepository(database), timeout_s=TIMEOUT_S)
        self.sweep = PublicationSweep(
            client,
            self.publications,
            forwarding,
            timeout_s=TIMEOUT_S,
            open_after_s=-1,
            committed_after_s=-1,
        )

    async def stage(self, *texts: str, tag: bytes | None = None) -> tuple[Publication, Staged]:
        """Open and stage a publication; each text is its own key."""
        outputs = [Output(self.topic, Message(text.encode(), key=text)) for text in texts]
        planned = plan(outputs)
        tag = tag or os.urandom(16)
        opened = Publication(self.topic.tenant_id, tag, planned.targets())
        await self.publications.open([opened])
        staged = await self.staging.stage(planned, tag)
        return opened._replace(outputs=staged.places), staged

    async def commit(self, publication: Publication) -> bool:
        """Commit as the flush of an ack does; return whether the update was written."""
        update = dataclasses.replace(self.update, publications=(publication,))
        return update.key in await CursorRepository(self.database).flush([update])

    async def texts(self) -> list[str]:
        found: list[str] = []
        for partition in self.topic.partitions:
            queue = QueueId(self.topic.uid, partition.number)
            found += await read_texts(self.client, queue, partition.group)
        return sorted(found)

    async def staged_left(self) -> int:
        left = 0
        for partition in self.topic.partitions:
            queue = QueueId(self.topic.uid, partition.number)
            left += len((await self.client.staged(partition.group, queue)).staged)
        return left


@pytest.fixture
async def bench(cluster: ChaosCluster, database: Database) -> AsyncIterator[Bench]:
    async with ready_client(cluster) as client:
        world = await World.open(database)
        topic = await world.topic("outputs", partitions=2)
        await world.subscription(topic)
        claims = await world.claim(await world.forwarder(), topic)
        (cursor,) = claims[0].cursors
        for partition in topic.partitions:
            await client.create(partition.group, QueueId(topic.uid, partition.number))
        update = with_epoch(settled(cursor, floor=1, read_to=1), claims[0])
        yield Bench(database, client, topic, update)


async def test_what_was_committed_is_released_by_the_sweep_once(bench: Bench) -> None:
    publication, _ = await bench.stage("a", "b", "c")
    assert await bench.commit(publication)
    assert await bench.texts() == []
    await bench.sweep.sweep()
    await bench.sweep.sweep()
    assert await bench.texts() == ["a", "b", "c"]
    assert await bench.publications.left("committed", older_than_s=-1, limit=10) == []


async def test_what_stayed_open_is_aborted_before_it_is_discarded(bench: Bench) -> None:
    publication, _ = await bench.stage("a", "b")
    await bench.sweep.sweep()
    assert await bench.staged_left() == 0
    assert await bench.texts() == []
    assert not await bench.commit(publication)  # nor is the cursor written
    books = await CursorRepository(bench.database).of_topic(bench.topic.tenant_id, bench.topic.uid)
    assert [row.floor for row in books] == [0, 0]
    (row,) = await bench.publications.left("aborted", older_than_s=-1, limit=10)
    assert row.tag == publication.tag


async def test_what_was_released_and_not_told_is_released_again_without_a_copy(
    bench: Bench,
) -> None:
    publication, _ = await bench.stage("a")
    await bench.commit(publication)
    await bench.staging.release(publication.outputs)
    await bench.sweep.sweep()
    assert await bench.texts() == ["a"]


async def test_outputs_of_a_queue_that_was_sealed_are_copied_to_its_successor(
    bench: Bench,
) -> None:
    publication, staged = await bench.stage("a")
    await bench.commit(publication)
    (place,) = staged.places
    queue = QueueId.unpack(place.queue)
    follower = queue._replace(generation=1)
    await bench.client.seal(place.group, queue, [(place.group, follower)])
    await bench.client.create(place.group, follower)
    await bench.sweep.sweep()
    assert await read_texts(bench.client, follower, place.group) == ["a"]
