from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest

from metadata.catalog import Catalog
from metadata.database import Database
from metadata.errors import MetadataUnavailable, NotFound, NotYet
from metadata.feed import MAX_CHANGES, ChangeFeed
from metadata.ids import new_uid
from metadata.settings import DatabaseSettings
from metadata.types import Change, ChangeKind, Topic, TopicSpec
from tests.integration.metadata.proxy import Proxy
from tests.integration.metadata.world import World


class Ears:
    def __init__(self, feed: ChangeFeed) -> None:
        self.changes: list[Change] = []
        self.heard = asyncio.Event()
        self.fail = False
        feed.add_listener(self.listen)

    def clear(self) -> None:
        """Forget what was heard, such as the RESET of the first poll."""
        self.changes.clear()
        self.heard.clear()

    async def listen(self, changes: Sequence[Change]) -> None:
        if self.fail:
            raise RuntimeError("not now")
        self.changes += changes
        self.heard.set()


@pytest.fixture
async def other(world: World) -> AsyncIterator[World]:
    """Yield another process: it has the same database and tenant, and a feed and caches of
    its own.
    """
    other = World(world.database, world.tenant_id)
    await other.feed.start()
    yield other
    await other.feed.close()


async def test_changes_arrive_in_commit_order(world: World) -> None:
    ears = Ears(world.feed)
    await world.feed.catch_up()
    ears.clear()
    topic = await world.topic()
    await world.subscription(topic)
    await world.topics.mark_deleting(world.tenant_id, "orders")
    await world.feed.catch_up()
    names = [(change.kind, change.name) for change in ears.changes]
    topic_change, subscription_change = (
        (ChangeKind.TOPIC, "orders"),
        (
            ChangeKind.SUBSCRIPTION,
            "billing",
        ),
    )
    assert names[:2] == [topic_change, subscription_change]
    assert sorted(names[2:], key=str) == sorted([topic_change, subscription_change], key=str)
    versions = [change.version for change in ears.changes]
    assert versions == sorted(set(versions))
    assert {change.topic_uid for change in ears.changes} == {topic.uid}


async def test_a_notification_shortens_the_wait(world: World) -> None:
    feed = ChangeFeed(world.database, poll_every_s=30.0)
    ears = Ears(feed)
    await feed.start()
    try:
        for _ in range(100):
            if await _listeners(world):
                break
            await asyncio.sleep(0.02)
        ears.clear()
        began_s = time.monotonic()
        await world.topic()
        await asyncio.wait_for(ears.heard.wait(), 5.0)
        assert time.monotonic() - began_s < 5.0
    finally:
        await feed.close()


async def test_without_notifications_the_poll_finds_changes_within_two_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChangeFeed(world.database)
    ears = Ears(feed)
    monkeypatch.setattr(feed._notifier, "_listen", lambda: asyncio.sleep(0))
    await feed.start()
    ears.clear()
    try:
        await world.topic()
        async with asyncio.timeout(2.0):
            await ears.heard.wait()
    finally:
        await feed.close()


async def test_a_run_of_changes_that_a_listener_failed_on_comes_again(world: World) -> None:
    ears = Ears(world.feed)
    await world.feed.start()
    ears.clear()
    ears.fail = True
    await world.topic()
    await asyncio.sleep(0.5)
    assert ears.changes == []
    ears.fail = False
    await asyncio.wait_for(ears.heard.wait(), 5.0)
    assert (ears.changes[0].kind, ears.changes[0].name) == (ChangeKind.TOPIC, "orders")


async def test_who_missed_too_much_is_told_to_start_afresh(world: World, database_url: str) -> None:
    ears = Ears(world.feed)
    await world.feed.catch_up()
    ears.clear()
    await world.topic("one")
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE change_counter SET pruned_to = version")
    await world.feed.catch_up()
    assert [change.kind for change in ears.changes] == [ChangeKind.RESET]
    await world.feed.catch_up()
    await connection.execute("UPDATE change_counter SET version = 0, pruned_to = 0")
    await connection.close()
    await world.feed.catch_up()
    assert [change.kind for change in ears.changes] == [ChangeKind.RESET] * 2


async def test_what_was_read_before_the_first_poll_is_read_again_after_it(
    world: World,
) -> None:
    """A process that starts while Postgres is not used has no poll for a while, and its feed tells
    nothing of the changes that came before the first."""
    late = World(world.database, world.tenant_id)
    old = await world.topic()
    subscription = await world.subscription(old)
    assert await late.catalog.topic(world.tenant_id, "orders") == old
    assert await late.catalog.topic_by_uid(world.tenant_id, old.uid) == old
    assert await late.catalog.subscription(world.tenant_id, "billing") == subscription
    await world.topics.mark_deleting(world.tenant_id, "orders")
    new = await world.topic()
    await late.feed.catch_up()
    assert await late.catalog.topic(world.tenant_id, "orders") == new
    with pytest.raises(NotFound):
        await late.catalog.topic_by_uid(world.tenant_id, old.uid)
    with pytest.raises(NotFound):
        await late.catalog.subscription(world.tenant_id, "billing")


async def test_old_changes_are_pruned_and_the_counter_remembers(
    world: World, database_url: str
) -> None:
    await world.topic("one")
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE changes SET committed_at = now() - interval '2 hours'")
    newest = await connection.fetchval("SELECT max(version) FROM changes")
    await world.topic("two")
    await world.feed.start()
    for _ in range(100):
        if await connection.fetchval("SELECT pruned_to FROM change_counter") == newest:
            break
        await asyncio.sleep(0.05)
    assert await connection.fetchval("SELECT min(version) FROM changes") == newest + 1
    await connection.close()


async def test_a_long_run_is_read_in_pieces(world: World, database_url: str) -> None:
    ears = Ears(world.feed)
    await world.feed.catch_up()
    ears.clear()
    connection = await asyncpg.connect(database_url)
    start = await connection.fetchval("SELECT version FROM change_counter")
    count = MAX_CHANGES * 2 + 1
    await connection.execute(
        "INSERT INTO changes (version, kind, tenant_id, uid, name)"
        " SELECT n, 'topic', gen_random_uuid(), gen_random_uuid(), 'x'"
        " FROM generate_series($1::int8, $2::int8) AS n",
        start + 1,
        start + count,
    )
    await connection.execute("UPDATE change_counter SET version = $1", start + count)
    await connection.close()
    await world.feed.catch_up()
    assert len(ears.changes) == count
    await world.feed.catch_up()
    assert len(ears.changes) == count


async def test_what_one_process_made_another_can_use_at_once(world: World, other: World) -> None:
    for number in range(20):
        name = f"t{number}"
        with pytest.raises(NotFound):
            await other.catalog.topic(world.tenant_id, name)
        with pytest.raises(NotFound):
            await other.catalog.subscription(world.tenant_id, name)
        topic = await world.topic(name, partitions=1)
        assert await other.catalog.topic(world.tenant_id, name) == topic
        assert await other.catalog.topic_by_uid(world.tenant_id, topic.uid) == topic
        subscription = await world.subscription(topic, name)
        assert await other.catalog.subscription(world.tenant_id, name) == subscription
        assert await other.catalog.subscriptions_of(world.tenant_id, topic.uid) == (subscription,)


async def test_a_join_on_an_older_reading_does_not_hide_what_was_made_since(
    world: World, other: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A miss that started before the topic was there must not answer one that started after, also
    where the feed does not tell that it was made."""
    await other.feed.close()
    started, go_on = asyncio.Event(), asyncio.Event()
    get = other.topics.get

    async def slow(tenant_id: bytes, name: str) -> Topic:
        try:
            return await get(tenant_id, name)
        finally:
            started.set()
            await go_on.wait()

    monkeypatch.setattr(other.topics, "get", slow)
    early = asyncio.create_task(other.catalog.topic(world.tenant_id, "orders"))
    await started.wait()
    topic = await world.topic()
    late = asyncio.create_task(other.catalog.topic(world.tenant_id, "orders"))
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(NotFound):
        await early
    assert await late == topic


async def test_a_reading_that_a_change_overtakes_is_nobodys_answer(
    world: World, other: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test what made a forwarder read the old queue for ever, although it was told of a growth
    (delivery seed 2571512019)."""
    topic = await world.topic()
    started, go_on = asyncio.Event(), asyncio.Event()
    get = other.topics.get_by_uid
    found: list[Topic | None] = []

    async def slow(tenant_id: bytes, uid: bytes) -> Topic:
        topic = await get(tenant_id, uid)
        started.set()
        await go_on.wait()
        return topic

    async def listen(changes: Sequence[Change]) -> None:
        if any(change.uid == topic.uid for change in changes):
            monkeypatch.setattr(other.topics, "get_by_uid", get)
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            try:
                found.append(await other.catalog.topic_by_uid(world.tenant_id, topic.uid))
            except NotFound:
                found.append(None)

    await other.feed.catch_up()
    other.feed.add_listener(listen)
    monkeypatch.setattr(other.topics, "get_by_uid", slow)
    early = asyncio.create_task(other.catalog.topic_by_uid(world.tenant_id, topic.uid))
    await started.wait()
    await world.topics.mark_deleting(world.tenant_id, topic.name)
    await other.feed.catch_up()
    assert found == [None]
    with pytest.raises(NotFound):
        await early


async def test_a_topic_still_being_made_is_not_usable(world: World, other: World) -> None:
    made = await world.topics.create(world.tenant_id, TopicSpec("young"), [0])
    with pytest.raises(NotFound):
        await other.catalog.topic(world.tenant_id, "young")
    with pytest.raises(NotYet):
        await other.catalog.topic_by_uid(world.tenant_id, made.uid)
    await world.topics.activate(world.tenant_id, made.uid)
    assert (await other.catalog.topic(world.tenant_id, "young")).uid == made.uid


async def test_a_topic_that_was_made_here_is_known_without_reading_it(
    world: World, database_url: str
) -> None:
    await world.feed.catch_up()
    made = await world.topics.create(world.tenant_id, TopicSpec("young", priorities=2), [0, 1])
    active = await world.catalog.made(made, world.topics.finish)
    await world.feed.catch_up()
    assert world.catalog.cached_topic(world.tenant_id, "young") is active
    assert await world.topics.get_by_uid(world.tenant_id, made.uid) == active
    nowhere = Database(DatabaseSettings(database_url))
    world.topics._database = world.subscriptions._database = nowhere
    assert await world.catalog.topic_by_uid(world.tenant_id, made.uid) is active
    assert await world.catalog.subscriptions_of(world.tenant_id, made.uid) == ()


async def test_a_topic_that_was_active_already_is_not_kept_as_made_here(
    world: World, other: World
) -> None:
    """Somebody may have subscribed since: the one who asks reads it."""
    made = await world.topics.create(world.tenant_id, TopicSpec("young"), [0])
    one = await world.subscription(await world.topics.activate(world.tenant_id, made.uid))
    assert await other.catalog.made(made, other.topics.finish) is None
    assert await other.catalog.subscriptions_of(world.tenant_id, made.uid) == (one,)


@pytest.mark.parametrize("change", ["subscription", "update", "reset"])
async def test_a_topic_that_changes_while_it_is_made_is_read_when_it_is_used(
    world: World, change: str
) -> None:
    """The feed tells of a change of it before the answer of Postgres to its activation is here."""
    made = await world.topics.create(world.tenant_id, TopicSpec("young"), [0])
    await world.feed.catch_up()

    async def late(topic: Topic) -> Topic | None:
        active = await world.topics.finish(topic)
        assert active is not None
        if change == "subscription":
            await world.subscription(active)
        elif change == "update":
            spec = TopicSpec("young", labels={"a": "b"})
            await world.topics.update(world.tenant_id, "young", lambda _: spec)
        reset = Change(0, ChangeKind.RESET, bytes(16), bytes(16), "")
        await (world.catalog._apply([reset]) if change == "reset" else world.feed.catch_up())
        return active

    assert await world.catalog.made(made, late) is not None
    assert world.catalog.cached_topic(world.tenant_id, "young") is None
    now = await world.catalog.topic(world.tenant_id, "young")
    assert now == await world.topics.get_by_uid(world.tenant_id, made.uid)
    listed = await world.catalog.subscriptions_of(world.tenant_id, made.uid)
    assert len(listed) == (change == "subscription")


async def test_a_deleted_topic_leaves_every_cache_within_two_seconds(
    world: World, other: World
) -> None:
    topic = await world.topic()
    await world.subscription(topic)
    await other.catalog.topic(world.tenant_id, "orders")
    await other.catalog.subscription(world.tenant_id, "billing")
    await other.catalog.subscriptions_of(world.tenant_id, topic.uid)
    await world.topics.mark_deleting(world.tenant_id, "orders")
    for _ in range(200):
        if other.catalog.cached_topic(world.tenant_id, "orders") is None:
            break
        await asyncio.sleep(0.01)
    assert other.catalog.cached_topic(world.tenant_id, "orders") is None
    with pytest.raises(NotFound):
        await other.catalog.topic_by_uid(world.tenant_id, topic.uid)
    await other.feed.catch_up()
    with pytest.raises(NotFound):
        await other.catalog.subscription(world.tenant_id, "billing")
    assert await other.catalog.subscriptions_of(world.tenant_id, topic.uid) == ()
    again = await world.topic()
    assert (await other.catalog.topic(world.tenant_id, "orders")).uid == again.uid


async def test_refresh_sees_a_recreated_topic_without_the_feed(world: World) -> None:
    old = await world.topic()
    await world.feed.catch_up()
    assert await world.catalog.topic(world.tenant_id, "orders") == old
    await world.topics.mark_deleting(world.tenant_id, "orders")
    new = await world.topic()
    assert world.catalog.cached_topic(world.tenant_id, "orders") == old
    assert await world.catalog.topic(world.tenant_id, "orders", refresh=True) == new
    assert world.catalog.cached_topic(world.tenant_id, "orders") == new
    await world.topics.mark_deleting(world.tenant_id, "orders")
    with pytest.raises(NotFound):
        await world.catalog.topic(world.tenant_id, "orders", refresh=True)
    assert world.catalog.cached_topic(world.tenant_id, "orders") is None


async def test_the_list_of_a_topic_follows_its_subscriptions(world: World, other: World) -> None:
    topic = await world.topic()
    assert await other.catalog.subscriptions_of(world.tenant_id, topic.uid) == ()
    one = await world.subscription(topic, "one")
    await other.feed.catch_up()
    assert await other.catalog.subscriptions_of(world.tenant_id, topic.uid) == (one,)
    await world.subscriptions.delete(world.tenant_id, "one")
    await other.feed.catch_up()
    assert await other.catalog.subscriptions_of(world.tenant_id, topic.uid) == ()


async def test_another_tenants_names_are_not_in_the_cache(world: World) -> None:
    await world.feed.catch_up()
    await world.topic()
    await world.catalog.topic(world.tenant_id, "orders")
    assert world.catalog.cached_topic(new_uid(), "orders") is None
    with pytest.raises(NotFound):
        await world.catalog.topic(new_uid(), "orders")


async def test_the_cache_is_bounded(world: World) -> None:
    catalog = Catalog(world.topics, world.subscriptions, world.feed, max_entries=2)
    await world.feed.catch_up()
    for name in ("a", "b", "c"):
        await world.topic(name, partitions=1)
    await world.feed.catch_up()
    for name in ("a", "b", "a", "c"):
        await catalog.topic(world.tenant_id, name)
    cached = [name for name in "abc" if catalog.cached_topic(world.tenant_id, name)]
    assert cached == ["a", "c"]


async def test_cached_things_outlive_postgres_for_a_while(world: World, database_url: str) -> None:
    proxy = Proxy(database_url)
    database = Database(
        DatabaseSettings(await proxy.start(), connect_timeout_s=0.5, deadline_s=1.0)
    )
    await database.connect()
    now_s = time.monotonic
    late_s = 0.0
    process = World(database, world.tenant_id)
    catalog = Catalog(
        process.topics, process.subscriptions, process.feed, monotonic_s=lambda: now_s() + late_s
    )
    try:
        topic = await world.topic()
        subscription = await world.subscription(topic)
        await process.feed.start()
        await catalog.topic(world.tenant_id, "orders")
        await catalog.subscriptions_of(world.tenant_id, topic.uid)
        proxy.answers.clear()
        late_s = 899.0
        assert await catalog.topic(world.tenant_id, "orders") == topic
        assert await catalog.subscription(world.tenant_id, "billing") == subscription
        with pytest.raises(MetadataUnavailable):
            await catalog.topic(world.tenant_id, "unknown")
        late_s = 905.0
        assert catalog.cached_topic(world.tenant_id, "orders") is None
        with pytest.raises(MetadataUnavailable):
            await catalog.topic(world.tenant_id, "orders")
        proxy.answers.set()
        late_s = 0.0
        assert await catalog.topic(world.tenant_id, "orders") == topic
    finally:
        proxy.answers.set()
        await process.feed.close()
        await database.close()
        await proxy.close()


async def _listeners(world: World) -> int:
    async def ask(connection: asyncpg.Connection) -> int:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'packetboat-feed'"
            " AND query LIKE 'LISTEN%'"
        )
        return count

    return await world.database.statement(ask, writes=False)
