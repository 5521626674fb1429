"""Delayed messages end to end: three store nodes, Postgres, and scheduler processes that die."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster, metrics_at
from harness.fork_server import fork_server
from harness.processes import Processes, free_ports
from metadata.database import Database
from metadata.delivery.due import DueRepository
from metadata.ids import new_uid
from metadata.types import Topic
from store_nodes.client import StageExtras, StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode
from tests.integration.metadata.world import World
from tests.integration.store_nodes.store_cluster import ready_client, running_store

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


class Schedulers:
    """Processes of the role, which may be killed."""

    def __init__(self, cluster: ChaosCluster, database_url: str, logs: Path) -> None:
        self._environment = cluster._environment() | {"PACKETBOAT_DATABASE_URL": database_url}
        self._logs = logs
        self._processes = Processes()
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._metrics: dict[int, int] = {}
        """The port of each process's metrics, by the port of the process."""

    def start(self) -> None:
        port, metrics_port = free_ports(2)
        self._metrics[port] = metrics_port
        self.running[port] = fork_server().start(
            "gateway",
            ["serve", "--role", "scheduler"],
            log=self._logs / f"scheduler-{port}.log",
            environment=self._environment
            | {"PACKETBOAT_PORT": str(port), "PACKETBOAT_METRICS_PORT": str(metrics_port)},
        )
        self._processes.add(self.running[port])

    async def leader(self) -> int:
        """Return the port of the process that leads, once one does."""
        async with asyncio.timeout(60):
            while True:
                for port in self.running:
                    with contextlib.suppress(OSError):
                        if "packetboat_scheduler_leading 1.0" in await metrics_at(
                            self._metrics[port]
                        ):
                            return port
                await asyncio.sleep(0.02)

    def kill(self, port: int) -> None:
        process = self.running.pop(port)
        process.kill()
        process.wait()

    def stop(self) -> None:
        self._processes.stop(grace_s=5.0)


@pytest.fixture
def schedulers(cluster: ChaosCluster, database_url: str, tmp_path: Path) -> Iterator[Schedulers]:
    made = Schedulers(cluster, database_url, tmp_path)
    yield made
    made.stop()


async def topic_with_queues(world: World, client: StoreClient, partitions: int) -> Topic:
    topic = await world.topic(f"topic-{new_uid().hex()}", partitions)
    for partition in topic.partitions:
        await client.create(partition.group, QueueId(topic.uid, partition.number))
    return topic


async def read_all(client: StoreClient, group: int, queue: QueueId) -> list[tuple[Message, int]]:
    """Each message and the log time it became readable at, in order of offsets."""
    found: list[tuple[Message, int]] = []
    offset = (await client.offsets(group, queue)).first
    while True:
        fetched = await client.fetch(group, queue, offset, MIB)
        if not fetched.entries:
            return found
        for entry in fetched.entries:
            messages = decode(entry.batch)
            if entry.indices is not None:
                messages = [messages[index] for index in entry.indices]
            assert entry.base_offset == offset
            found += [(message, entry.log_time_us) for message in messages]
            offset += len(messages)


async def test_killed_schedulers_lose_nothing_and_release_nothing_twice(
    client: StoreClient, database: Database, schedulers: Schedulers
) -> None:
    world = await World.open(database)
    topic = await topic_with_queues(world, client, partitions=2)
    queues = [(each.group, QueueId(topic.uid, each.number)) for each in topic.partitions]
    for _ in range(2):
        schedulers.start()
    leader = await schedulers.leader()
    rng = random.Random(3)
    staged: dict[int, dict[bytes, int]] = {0: {}, 1: {}}
    appenders = [client.appender(*at) for at in queues]

    async def stage_for(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            which = rng.randrange(2)
            count = rng.randrange(1, 8)
            now_us = client.clock(queues[which][0]).now_us()
            due = tuple(now_us + rng.randrange(0, 6_000_000) for _ in range(count))
            names = [new_uid() for _ in range(count)]
            batch = encode([Message(name) for name in names], now_us)
            await appenders[which].append(batch, count, StageExtras(due))
            staged[which] |= dict(zip(names, due, strict=True))
            await asyncio.sleep(0.02)

    for _ in range(2):
        await stage_for(2.0)
        schedulers.kill(leader)
        killed_s = time.monotonic()
        schedulers.start()
        staging = asyncio.create_task(stage_for(2.0))
        leader = await schedulers.leader()
        print(f"another scheduler leads {time.monotonic() - killed_s:.1f} s after the kill")
        await staging
    async with asyncio.timeout(60):
        for which, (group, queue) in enumerate(queues):
            while (await client.offsets(group, queue)).end < len(staged[which]):
                await asyncio.sleep(0.1)
    for which, (group, queue) in enumerate(queues):
        read = await read_all(client, group, queue)
        assert sorted(message.data for message, _ in read) == sorted(staged[which])
        late = [time_us - staged[which][message.data] for message, time_us in read]
        assert min(late) >= 0, "released before it was due"
    async with asyncio.timeout(30):
        while await DueRepository(database).due_until(2**62, 10):
            await asyncio.sleep(0.1)


async def test_a_leaderless_group_releases_when_it_has_one_again(
    cluster: ChaosCluster, client: StoreClient, database: Database, schedulers: Schedulers
) -> None:
    world = await World.open(database)
    topic = await topic_with_queues(world, client, partitions=4)
    schedulers.start()
    await schedulers.leader()
    rng = random.Random(5)
    count = 0
    for _ in range(40):
        for each in topic.partitions:
            now_us = client.clock(each.group).now_us()
            due = StageExtras((now_us + rng.randrange(0, 5_000_000),))
            appender = client.appender(each.group, QueueId(topic.uid, each.number))
            await appender.append(encode([Message(b"x")], now_us), 1, due, timeout_s=20)
            count += 1
    victim = client.leader(topic.partitions[0].group)
    assert victim is not None
    cluster.kill_node(victim)
    await asyncio.sleep(3.0)
    cluster.start_node(victim)
    async with asyncio.timeout(60):
        while True:
            ends = [
                (await client.offsets(each.group, QueueId(topic.uid, each.number))).end
                for each in topic.partitions
            ]
            if sum(ends) == count:
                break
            await asyncio.sleep(0.1)
    assert ends == [40] * 4
