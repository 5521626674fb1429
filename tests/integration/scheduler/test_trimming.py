"""Rounds of the truncator on a real Postgres; the store is the one of the unit tests."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from edge.quota import STORED_BYTE_HOURS, STORED_BYTES
from metadata.counts import BUILT_IN_LIMITS
from metadata.database import Connection, Database
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from metadata.exports.pins import ExportPinRepository
from metadata.tenancy.quotas import TenantLimit, TenantQuota
from metadata.topics.placements import PlacementRepository
from metadata.topics.retention import RetentionRepository
from metadata.types import (
    Placement,
    Retention,
    Topic,
    TopicSpec,
)
from scheduler import metrics, stored_meter, truncator
from scheduler.backlogs import Backlogs
from scheduler.keeper import Keeper
from scheduler.sizes import Sizes
from scheduler.stored_meter import StoredMeter
from scheduler.topic_map import TopicMap
from scheduler.truncator import Truncator
from store_nodes.client import QueueInfo
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, encode
from tests.integration.metadata.world import World, settled
from tests.unit.scheduler.scheduler_support import SECOND, FakeStore

RETAIN = "retain"


class Site:
    """A tenant, a store of two groups, and a scheduler that does a round when it is told to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = FakeStore()
        self.topics = TopicMap(RetentionRepository(world.database))
        self.keeper: Keeper
        self.restart()

    def restart(self, tenant_bytes: int | None = 0) -> None:
        """Another scheduler takes over."""
        set_ones = {} if tenant_bytes is None else {STORED_BYTES: float(tenant_bytes)}
        self.stored_limits = TenantLimit(STORED_BYTES, set_ones)
        self.usage: Counter[tuple[bytes, str]] = Counter()
        sizes = Sizes(self.store, 5.0)
        retention = RetentionRepository(self.world.database)
        made = Truncator(
            self.store,
            retention,
            PlacementRepository(self.world.database),
            ForwardedRepository(self.world.database),
            sizes,
            age_every_s=60.0,
            timeout_s=5.0,
        )
        self.keeper = Keeper(
            self.topics,
            retention,
            made,
            sizes,
            every_s=1.0,
            stored_limits=self.stored_limits,
            exports=ExportPinRepository(self.world.database),
        )
        self.meter = StoredMeter(self.topics, sizes, self, every_s=1.0)
        self.backlogs = Backlogs(self.topics, retention, sizes)

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        """Count an amount, as `edge.quota.Usage` does."""
        self.usage[tenant_id, metric] += value

    async def round(self) -> None:
        await self.topics.read()
        await self.keeper.round()

    async def topic(
        self, name: str = "orders", partitions: int = 1, window: int = 600, **retention: Any
    ) -> Topic:
        spec = TopicSpec(name, Retention(**retention), window)
        groups = [number % 2 for number in range(partitions)]
        made = await self.world.topics.create(self.world.tenant_id, spec, groups)
        for partition in made.partitions:
            self.store.create(partition.group, QueueId(made.uid, partition.number))
        return await self.world.topics.activate(self.world.tenant_id, made.uid)

    async def publish(self, topic: Topic, count: int, size: int = 100, partition: int = 0) -> None:
        """Publish `count` batches of one message each."""
        found = topic.partitions[partition]
        queue = QueueId(topic.uid, found.number, 0, found.generation)
        appender = self.store.appender(found.group, queue)
        for _ in range(count):
            await appender.append(encode([Message(bytes(size))], 1), 1)

    async def ack(self, topic: Topic, floor: int, *kept: int, subscription: str = "") -> None:
        """Move the cursors of partition 0 to `floor`, stepping over `kept`."""
        forwarder = await self.world.forwarder()
        claim = (await self.world.claim(forwarder, topic))[0]
        updates = [settled(cursor, floor=floor, read_to=floor) for cursor in claim.cursors]
        await self.world.cursors.flush(updates)
        await self.world.leases.release(forwarder)

        async def step_over(connection: Connection) -> None:
            await connection.execute("DELETE FROM deliveries")
            for offset in kept:
                await connection.execute(
                    "INSERT INTO deliveries SELECT tenant_id, subscription_uid, 0, 0, $1, 1, NULL,"
                    " 'hole' FROM cursors WHERE topic_uid = $2 AND partition = 0",
                    offset,
                    topic.uid,
                )

        await self.world.database.transaction(step_over)

    def queue(self, topic: Topic, partition: int = 0, generation: int = 0) -> bytes:
        return QueueId(topic.uid, partition, 0, generation).pack()

    def first(self, topic: Topic, partition: int = 0) -> int:
        group = topic.partitions[partition].group
        return self.store.machines[group].offsets(self.queue(topic, partition)).first

    def kept(self, topic: Topic) -> tuple[int, ...]:
        return self.store.machines[0].kept(self.queue(topic))

    async def full(self, topic: Topic) -> str | None:
        return (await self.world.topics.get(topic.tenant_id, topic.name)).full


@pytest.fixture
async def site(database: Database) -> Site:
    return Site(await World.open(database))


async def test_consume_trims_what_every_subscription_is_done_with(site: Site) -> None:
    topic = await site.topic()
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.round()
    assert site.first(topic) == 0
    await site.ack(topic, 6)
    await site.round()
    assert site.first(topic) == 6
    calls = site.store.calls["truncate"]
    await site.round()
    await site.round()
    assert site.store.calls["truncate"] == calls


async def test_a_topic_that_nobody_reads_keeps_its_messages_within_its_limits(site: Site) -> None:
    topic = await site.topic(seconds=1000)
    await site.publish(topic, 10)
    await site.round()
    assert site.first(topic) == 0
    site.store.ahead_us += 2000 * SECOND
    await site.publish(topic, 3)
    site.restart()
    await site.round()
    assert site.first(topic) == 10
    assert await site.full(topic) is None


async def test_retain_keeps_what_is_acked_within_its_limits(site: Site) -> None:
    topic = await site.topic(mode=RETAIN, seconds=1000)
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.ack(topic, 10)
    await site.round()
    assert site.first(topic) == 0
    site.store.ahead_us += 2000 * SECOND
    site.restart()
    await site.round()
    assert site.first(topic) == 10


async def test_kept_offsets_stay_until_they_are_settled(site: Site) -> None:
    topic = await site.topic()
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.ack(topic, 8, 2, 5)
    await site.round()
    assert (site.first(topic), site.kept(topic)) == (8, (2, 5))
    await site.ack(topic, 8, 5)
    await site.round()
    assert site.kept(topic) == (5,)
    await site.ack(topic, 8)
    site.restart()  # that does not know what was kept before
    await site.round()
    assert site.kept(topic) == ()


async def test_what_died_between_the_commit_and_the_store_is_truncated_by_the_next(
    site: Site,
) -> None:
    topic = await site.topic()
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.ack(topic, 7, 3)

    async def dies(*_: object, **__: object) -> int:
        raise RuntimeError("killed")

    truncate, site.store.truncate = site.store.truncate, dies  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        await site.round()
    site.store.truncate = truncate  # type: ignore[method-assign]
    assert site.first(topic) == 0
    # A cursor made now begins where the dead one committed.
    late = await site.world.subscription(topic, "late")
    (cursor,) = await site.world.cursors.of_subscription(topic.tenant_id, late.uid)
    assert cursor.floor == 7
    site.restart()
    await site.round()
    assert (site.first(topic), site.kept(topic)) == (7, (3,))


async def test_a_truncation_that_failed_is_made_again(site: Site) -> None:
    topic = await site.topic()
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.ack(topic, 3)
    await site.round()
    await site.ack(topic, 6)

    async def fails(*_: object, **__: object) -> int:
        raise Unavailable("no leader just now")

    truncate, site.store.truncate = site.store.truncate, fails  # type: ignore[method-assign]
    await site.round()
    assert site.first(topic) == 3
    site.store.truncate = truncate  # type: ignore[method-assign]
    await site.round()
    assert site.first(topic) == 6


async def test_a_group_without_a_leader_holds_up_its_own_partitions_only(site: Site) -> None:
    topic = await site.topic(partitions=2, mode=RETAIN, seconds=1000)
    for partition in (0, 1):
        await site.publish(topic, 5, partition=partition)
    site.store.ahead_us += 2000 * SECOND
    site.store.down = {0}
    await site.round()
    assert (site.first(topic, 0), site.first(topic, 1)) == (0, 5)
    site.store.down = set()
    await site.round()
    assert site.first(topic, 0) == 5


async def test_at_its_byte_limit_a_topic_refuses_until_acks_make_room(site: Site) -> None:
    topic = await site.topic(bytes=2000)
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    await site.round()
    assert await site.full(topic) is None
    await site.publish(topic, 10)
    await site.round()
    assert await site.full(topic) == "topic-full"
    assert site.first(topic) == 0
    for down in ({0}, set()):  # one that takes over leaves it so, also where it can't look
        site.restart()
        site.store.down = down
        await site.round()
        assert await site.full(topic) == "topic-full"
    await site.ack(topic, 15)
    await site.round()
    assert await site.full(topic) is None


async def test_expire_oldest_goes_past_the_pins_and_is_never_full(site: Site) -> None:
    topic = await site.topic(partitions=2, bytes=2000, on_limit="expire_oldest")
    await site.world.subscription(topic)
    await site.publish(topic, 20)
    await site.publish(topic, 5, partition=1)
    await site.round()
    stored = sum(site.store.stored_bytes(n, site.queue(topic, n)) for n in (0, 1))
    assert stored <= 2000
    assert site.first(topic, 0) > 0
    assert await site.full(topic) is None
    # The rest is not trimmed further.
    first = site.first(topic)
    await site.round()
    assert site.first(topic) == first


async def test_unacked_messages_that_are_too_old_fill_a_topic_that_refuses(site: Site) -> None:
    topic = await site.topic(seconds=1000)
    await site.world.subscription(topic)
    await site.publish(topic, 5)
    site.store.ahead_us += 2000 * SECOND
    await site.round()
    assert (await site.full(topic), site.first(topic)) == ("topic-full", 0)
    await site.ack(topic, 5)
    site.restart()
    await site.round()
    assert (await site.full(topic), site.first(topic)) == (None, 5)


async def test_a_tenant_at_its_limit_is_refused_at_all_of_its_topics(site: Site) -> None:
    full, other = await site.topic("full"), await site.topic("other")
    await site.world.subscription(full)
    stranger = World(site.world.database, bytes(15) + b"s")
    await stranger.tenants.ensure(stranger.tenant_id, "stranger")
    theirs = await stranger.topic("theirs", partitions=1)
    site.store.create(0, QueueId(theirs.uid, 0))
    site.restart(tenant_bytes=2000)
    await site.publish(full, 20)
    await site.round()
    assert await site.full(full) == await site.full(other) == "tenant-full"
    assert (await stranger.topics.get(stranger.tenant_id, "theirs")).full is None
    await site.ack(full, 20)
    await site.round()
    assert await site.full(full) is await site.full(other) is None


async def test_a_limit_of_its_own_goes_before_the_platforms(site: Site) -> None:
    topic = await site.topic("full")
    await site.world.subscription(topic)
    site.restart(tenant_bytes=2000)
    own = TenantQuota(site.world.tenant_id, {STORED_BYTES: None})
    site.stored_limits.follow([own], all_of_them=True)
    await site.publish(topic, 20)
    await site.round()
    assert await site.full(topic) is None
    site.stored_limits.follow([TenantQuota(site.world.tenant_id, {STORED_BYTES: 1000})])
    await site.round()
    assert await site.full(topic) == "tenant-full"
    site.stored_limits.follow([TenantQuota(site.world.tenant_id, {})])
    await site.round()
    assert await site.full(topic) == "tenant-full"
    site.stored_limits.follow([TenantQuota(site.world.tenant_id, {STORED_BYTES: 100_000})])
    await site.round()
    assert await site.full(topic) is None


async def test_the_built_in_limit_of_stored_bytes_holds_but_for_exempt_tenants(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN_LIMITS, STORED_BYTES, 2000)
    topic = await site.topic("full")
    await site.world.subscription(topic)
    site.restart(tenant_bytes=None)
    await site.publish(topic, 20)
    await site.round()
    assert await site.full(topic) == "tenant-full"
    exempt = TenantQuota(site.world.tenant_id, exempt=True)
    site.stored_limits.follow([exempt], all_of_them=True)
    await site.round()
    assert await site.full(topic) is None
    site.stored_limits.follow([replace(exempt, limits={STORED_BYTES: 1000})])
    await site.round()
    assert await site.full(topic) == "tenant-full", "a limit of its own ends the exemption"


async def test_what_is_stored_is_counted_for_as_long_as_it_is(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(stored_meter.time, "monotonic", lambda: now_s[0])
    topic = await site.topic()
    await site.world.subscription(topic)
    await site.publish(topic, 20)
    metric = (site.world.tenant_id, STORED_BYTE_HOURS)
    await site.round()
    site.meter.count()
    assert site.usage[metric] == 0
    now_s[0] = 1800.0
    await site.round()
    site.meter.count()
    stored = 2 * site.usage[metric]
    assert stored >= 20
    now_s[0] += 3600.0
    await site.round()
    site.meter.count()
    assert site.usage[metric] == pytest.approx(1.5 * stored)


async def move(site: Site, topic: Topic, generation: int = 1) -> Topic:
    """Move partition 0 to the other group, as the placement does it."""
    placements = PlacementRepository(site.world.database)
    here, there = (generation - 1) % 2, generation % 2
    placement = await placements.start_move(topic.tenant_id, topic.name, 0, there)
    assert isinstance(placement, Placement)
    new = QueueId(topic.uid, 0, 0, generation)
    end = site.store.seal(here, QueueId(topic.uid, 0, 0, generation - 1), (there, new))
    site.store.create(there, new, end)
    return await placements.finish(placement, {(0, 0): end})


async def test_a_trim_goes_through_sealed_generations_and_removes_empty_ones(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncator, "LEAST_SEALED_S", 0.0)
    topic = await site.topic(window=300)
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    site.store.stage(0, QueueId(topic.uid, 0), 3600.0)
    moved = await move(site, topic)
    await site.publish(moved, 10)
    old, new = QueueId(topic.uid, 0), QueueId(topic.uid, 0, 0, 1)
    forwarded = ForwardedRepository(site.world.database)
    queue = QueueKey(topic.tenant_id, topic.uid, 0, 0, 0)
    await forwarded.record(queue, [Forwarded(0, 0, 12), Forwarded(1, 0, 17)])

    await site.ack(topic, 4)
    await site.round()
    assert site.store.machines[0].offsets(old.pack()).first == 4
    assert site.store.machines[1].offsets(new.pack()).first == 10
    await site.ack(topic, 15, 8)
    await site.round()
    assert site.store.machines[0].offsets(old.pack()).first == 10
    assert site.store.machines[0].kept(old.pack()) == (8,)
    assert site.store.machines[1].offsets(new.pack()).first == 15
    assert set(await forwarded.find(queue, [0, 1])) == {1}

    async def generations() -> list[int]:
        _, lanes = await RetentionRepository(site.world.database).topics()
        (found,) = lanes.values()
        return [each.number for each in found]

    # It stays for what is kept, then for what is staged, then while publishers may ask it.
    site.store.ahead_us = 2**61 // 1000
    await site.round()
    await site.ack(topic, 15)
    await site.round()
    assert await generations() == [0, 1]
    site.store.cancel(0, old, 0)
    # Log time is a time of day here: 100 s of the dedup window of 300 s have passed.
    site.store.ahead_us = (time.time_ns() - time.monotonic_ns()) // 1000 + 100 * SECOND
    await site.round()
    assert await generations() == [0, 1]
    site.store.ahead_us = 2**61 // 1000
    await site.round()
    assert await generations() == [1]
    assert site.store.machines[0].is_deleted(old.pack())
    assert len((await site.world.topics.get(topic.tenant_id, topic.name)).sealed) == 0


async def test_a_sealed_generation_stays_while_a_delayed_message_goes_through_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved twice: what is staged in the first queue finds the third by way of the second."""
    monkeypatch.setattr(truncator, "LEAST_SEALED_S", 0.0)
    topic = await site.topic(window=0)
    first, second = QueueId(topic.uid, 0), QueueId(topic.uid, 0, 0, 1)
    site.store.stage(0, first, 3600.0)
    await move(site, topic)
    await move(site, topic, 2)
    site.store.ahead_us = 2**61 // 1000
    for _ in range(2):
        await site.round()
    assert not site.store.machines[1].is_deleted(second.pack())
    site.store.cancel(0, first, 0)
    for _ in range(2):
        await site.round()
    assert site.store.machines[1].is_deleted(second.pack())


async def test_a_sealed_generation_stays_while_a_cursor_is_in_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expired past its cursors: their owner has to see where the queue begins, and count."""
    monkeypatch.setattr(truncator, "LEAST_SEALED_S", 0.0)
    topic = await site.topic(window=0, bytes=1000, on_limit="expire_oldest")
    await site.world.subscription(topic)
    await site.publish(topic, 10)
    moved = await move(site, topic)
    await site.publish(moved, 20)
    site.store.ahead_us = 2**61 // 1000
    await site.round()
    await site.round()
    old = QueueId(topic.uid, 0).pack()
    assert not site.store.machines[0].is_deleted(old)
    assert site.store.machines[0].offsets(old).first == 10
    await site.ack(topic, 12)
    await site.round()
    assert site.store.machines[0].is_deleted(old)


@pytest.mark.parametrize("asked", [1, 2, 3])
async def test_a_topic_that_is_deleted_during_a_round_does_not_end_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """The change feed has the topics read again while the round waits for an answer."""
    gone, topic = await site.topic("gone", bytes=1000), await site.topic("kept")
    for each in (gone, topic):
        await site.world.subscription(each, each.name)
        await site.publish(each, 10)
    await site.ack(topic, 6)
    queues, asks = site.store.queues, 0

    async def deleted_meanwhile(group: int, *, timeout_s: float = 5.0) -> list[QueueInfo]:
        nonlocal asks
        asks += 1
        if asks == asked:
            await site.world.topics.mark_deleting(gone.tenant_id, gone.name)
            await site.world.topics.remove(gone.tenant_id, gone.uid)
            await site.topics.read()
        return await queues(group, timeout_s=timeout_s)

    monkeypatch.setattr(site.store, "queues", deleted_meanwhile)
    ended_by = ""
    try:
        await site.round()
    except KeyError as error:
        ended_by = repr(error)
    assert (ended_by, site.first(topic)) == ("", 6)
    assert asks > asked
    assert (gone.tenant_id, gone.uid) not in site.topics.topics


async def test_usage_is_noted(site: Site) -> None:
    topic = await site.topic()
    await site.publish(topic, 3)
    site.store.stage(0, QueueId(topic.uid, 0), 3600.0)
    await site.round()

    async def usage(connection: Connection) -> tuple[int, int]:
        return tuple(await connection.fetchrow("SELECT stored_bytes, staged FROM topic_usage"))

    stored, staged = await site.world.database.statement(usage, writes=False)
    assert (stored, staged) == (site.store.stored_bytes(0, site.queue(topic)), 1)


async def test_backlogs_are_counted_once_for_each_subscription(site: Site) -> None:
    topic = await site.topic(partitions=2)
    await site.publish(topic, 9, partition=0)
    for name in ("one", "two"):
        await site.world.subscription(topic, name)
    await site.publish(topic, 10, partition=1)
    await site.ack(topic, 4)
    await site.round()
    await site.backlogs.look()
    assert metrics.backlog_messages._value.get() == 2 * (9 - 4) + 2 * 10
    await site.backlogs.look()
    assert metrics.backlog_age_seconds._value.get() > 0
