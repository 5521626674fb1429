"""Schedules and schemas on real Postgres and store nodes, with a clock that the tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.errors import Conflict, LeaseLost, NotFound, OutcomeUnknown
from metadata.ids import new_uid
from metadata.locks.locks import Lock, LockRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.schedules import (
    DueSchedule,
    Progress,
    Schedule,
    ScheduleRepository,
    ScheduleSpec,
)
from metadata.types import TenantSpec, Topic
from outbox import Outbox
from scheduler.cron import Cron
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from tests.integration.metadata.world import World
from tests.integration.store_nodes.store_cluster import ready_client, running_store

START = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


class Site:
    """A topic, its schedules, and schedulers with a clock of the test's."""

    def __init__(self, world: World, client: StoreClient, topic: Topic, lock: Lock) -> None:
        self.world = world
        self.client = client
        self.topic = topic
        self.lock = lock
        self.now = START
        self.schedules = ScheduleRepository(world.database)

    @classmethod
    async def open(cls, database: Database, client: StoreClient) -> Site:
        world = await World.open(database)
        topic = await world.topic(f"topic-{new_uid().hex()}", 2)
        for partition in topic.partitions:
            await client.create(partition.group, QueueId(topic.uid, partition.number))
        lock = await LockRepository(database).take(f"cron-{new_uid().hex()}", new_uid())
        assert lock is not None
        return cls(world, client, topic, lock)

    async def add(self, name: str, cron: str = "*/30 * * * *", policy: str = "all") -> Schedule:
        spec = ScheduleSpec(
            name=name,
            topic_uid=self.topic.uid,
            cron=cron,
            time_zone="Europe/Berlin",
            missed_runs=policy,
            message=msgspec.msgpack.encode(Message(name.encode(), "text/plain", key=name)),
            next_at=START + timedelta(minutes=30),
        )
        return await self.schedules.create(self.world.tenant_id, spec)

    def cron(self, schedules: Any = None) -> Cron:
        return Cron(
            schedules or self.schedules,
            self.world.topics,
            Outbox(self.client),
            wall=lambda: self.now,
        )

    async def published(self) -> list[tuple[str, str]]:
        found = []
        for partition in self.topic.partitions:
            queue = QueueId(self.topic.uid, partition.number)
            for entry in (await self.client.fetch(partition.group, queue, 0, 2**20)).entries:
                for message in decode(entry.batch):
                    attributes = message.attributes or {}
                    name = attributes["packetboat-schedule"]
                    found.append((name, attributes["packetboat-scheduled-time"]))
        return found


@pytest.fixture
async def site(database: Database, client: StoreClient) -> Site:
    return await Site.open(database, client)


class Dying(ScheduleRepository):
    """Schedules whose answers are lost, or whose process dies before it asks."""

    def __init__(self, database: Database, *, commits: bool) -> None:
        super().__init__(database)
        self._commits = commits

    async def ran(self, lock: Lock, done: Sequence[tuple[DueSchedule, Progress]]) -> None:
        if self._commits:
            await super().ran(lock, done)
        raise OutcomeUnknown("the connection was cut")


@pytest.mark.parametrize("commits", [False, True])
async def test_a_run_is_published_once_though_the_scheduler_dies_between_log_and_postgres(
    site: Site, commits: bool
) -> None:
    await site.add("once")
    site.now = START + timedelta(minutes=95)
    with pytest.raises(OutcomeUnknown):
        await site.cron(Dying(site.world.database, commits=commits)).round(lambda: site.lock)
    assert len(await site.published()) == 3
    while await site.cron().round(lambda: site.lock) == 0:
        pass
    times = ["2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"]
    assert await site.published() == [("once", time) for time in times]
    schedule = await site.schedules.get(site.world.tenant_id, "once")
    assert (schedule.runs, schedule.missed) == (3, 0)
    assert schedule.next_at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert schedule.last_at == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert schedule.last_message_id is not None


async def test_schedules_of_a_suspended_tenant_wait_and_then_make_what_they_missed(
    site: Site,
) -> None:
    await site.add("all")
    await site.add("none", policy="skip")
    tenants = TenantRepository(site.world.database)
    tenant = await tenants.get_by_id(site.world.tenant_id)
    await tenants.update(TenantSpec(tenant.name, state="suspended"))
    assert site.world.tenant_id in await tenants.inactive()
    site.now = START + timedelta(minutes=95)
    while await site.cron().round(lambda: site.lock) == 0:
        pass
    assert await site.published() == []
    assert (await site.schedules.get(site.world.tenant_id, "all")).runs == 0
    await tenants.update(TenantSpec(tenant.name))
    assert site.world.tenant_id not in await tenants.inactive()
    while await site.cron().round(lambda: site.lock) == 0:
        pass
    assert [name for name, _ in await site.published()] == ["all"] * 3


async def test_two_schedulers_at_once_publish_each_run_once(site: Site) -> None:
    for number in range(20):
        await site.add(f"s{number}")
    site.now = START + timedelta(hours=2)
    crons = [site.cron(), site.cron()]
    await asyncio.gather(*(cron.round(lambda: site.lock) for cron in crons))
    published = await site.published()
    assert len(published) == len(set(published)) == 20 * 4
    for number in range(20):
        found = await site.schedules.get(site.world.tenant_id, f"s{number}")
        assert (found.runs, found.version > 0, found.failure) == (4, True, None)


async def test_a_deposed_scheduler_writes_nothing(site: Site) -> None:
    await site.add("once")
    site.now = START + timedelta(minutes=30)
    locks = LockRepository(site.world.database)
    await locks.release(site.lock)
    assert await locks.take(site.lock.name, new_uid()) is not None
    with pytest.raises(LeaseLost):
        await site.cron().round(lambda: site.lock)
    schedule = await site.schedules.get(site.world.tenant_id, "once")
    assert (schedule.runs, schedule.next_at) == (0, site.now)


async def test_a_topic_that_is_gone_is_a_failure_that_shows(site: Site) -> None:
    await site.add("lost")
    await site.world.topics.mark_deleting(site.world.tenant_id, site.topic.name)
    site.now = START + timedelta(minutes=30)
    await site.cron().round(lambda: site.lock)
    schedule = await site.schedules.get(site.world.tenant_id, "lost")
    assert schedule.runs == 0
    assert "topic" in str(schedule.failure)
    await site.world.topics.remove(site.world.tenant_id, site.topic.uid)
    with pytest.raises(NotFound):
        await site.schedules.get(site.world.tenant_id, "lost")


async def test_changes_while_a_run_is_made_are_not_lost(site: Site) -> None:
    before = await site.add("edited")
    (due,) = await site.schedules.due(10)
    later = START + timedelta(days=3)

    def change(schedule: Schedule) -> ScheduleSpec:
        return ScheduleSpec(
            name="edited",
            topic_uid=schedule.topic_uid,
            cron="0 0 1 * *",
            time_zone="UTC",
            missed_runs="skip",
            message=schedule.message,
            next_at=later,
        )

    edited = await site.schedules.update(site.world.tenant_id, "edited", change)
    assert edited.version > before.version
    progress = Progress(START + timedelta(hours=1), 1, 0, START, "id")
    await site.schedules.ran(site.lock, [(due, progress)])
    found = await site.schedules.get(site.world.tenant_id, "edited")
    assert (found.next_at, found.runs) == (later, 0), "the run counts with the clock it came of"
    with pytest.raises(Conflict):
        await site.schedules.update(
            site.world.tenant_id, "edited", change, if_version=before.version
        )
