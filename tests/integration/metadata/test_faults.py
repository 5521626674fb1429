"""Postgres down, slow, cut off and restarted; handlers cancelled at every await."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from harness.seeded_postgres import free_port
from metadata.database import Database
from metadata.errors import MetadataUnavailable, OutcomeUnknown, UnsafeServer
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from metadata.types import CursorState, SubscriptionSpec, Topic, TopicSpec
from tests.conftest import running_postgres
from tests.integration.metadata.proxy import Proxy
from tests.integration.metadata.world import World, settled

QUICK = {"connect_timeout_s": 0.5, "deadline_s": 1.0}
PATIENT = {"connect_timeout_s": 30.0, "deadline_s": 60.0}
"""Timeouts of connections that write before a failure and read after it: a busy machine may
be slow.
"""


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server that tests may stop, kill and freeze."""
    with running_postgres() as server:
        yield server


@pytest.fixture
async def calm(own_server: EmbeddedPostgres) -> AsyncIterator[World]:
    """Yield repositories over the server that is going to fail, which wait for it."""
    database = Database(DatabaseSettings(own_server.url, **PATIENT))
    await database.connect()
    yield await World.open(database)
    await database.close()


@pytest.fixture
async def shaky(own_server: EmbeddedPostgres, calm: World) -> AsyncIterator[World]:
    """Yield repositories with the database and tenant of `calm` that give up soon."""
    database = Database(DatabaseSettings(own_server.url, **QUICK))
    await database.connect()
    world = World(database, calm.tenant_id)
    yield world
    await world.feed.close()
    await database.close()


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(database_url)
    yield proxy
    await proxy.close()


@pytest.fixture
async def far(world: World, proxy: Proxy) -> AsyncIterator[World]:
    """Yield repositories with the database and tenant of `world`, through the proxy."""
    database = Database(DatabaseSettings(await proxy.start(), data_connections=1, **QUICK))
    await database.connect()
    yield World(database, world.tenant_id)
    proxy.requests.set()
    proxy.answers.set()
    await database.close()


async def cursor_of(world: World) -> tuple[Topic, bytes, CursorState]:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    owner = await world.forwarder()
    (cursor,) = (await world.claim(owner, topic))[0].cursors
    return topic, owner, cursor


async def healed(ask: Callable[[], Awaitable[Any]], within_s: float = 60.0) -> Any:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return await ask()
        except (MetadataUnavailable, OutcomeUnknown):
            if time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(0.05)


def family(pid: int) -> list[int]:
    """Return the process ids of a postmaster and its children."""
    found = [pid]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


async def test_all_heals_after_a_restart(
    shaky: World, calm: World, own_server: EmbeddedPostgres
) -> None:
    _, _, cursor = await cursor_of(calm)
    await shaky.feed.start()
    topic = await shaky.catalog.topic(shaky.tenant_id, "orders")
    own_server.stop()
    began_s = time.monotonic()
    with pytest.raises((MetadataUnavailable, OutcomeUnknown)):
        await shaky.cursors.flush([settled(cursor, floor=1, read_to=1)])
    with pytest.raises(MetadataUnavailable):
        await shaky.topics.get(shaky.tenant_id, "orders")
    with pytest.raises(MetadataUnavailable):
        await shaky.topics.create(shaky.tenant_id, TopicSpec("new"), [0])
    with pytest.raises(MetadataUnavailable):
        await shaky.database.check()
    assert time.monotonic() - began_s < 5.0  # in fact at once; the rest is for a busy machine
    assert await shaky.catalog.topic(shaky.tenant_id, "orders") == topic
    own_server.start()
    await healed(lambda: shaky.database.check())
    update = settled(cursor, floor=2, read_to=2)
    assert await healed(lambda: shaky.cursors.flush([update])) == {update.key: 0}
    await healed(lambda: shaky.topics.mark_deleting(shaky.tenant_id, "orders"))
    for _ in range(100):
        if shaky.catalog.cached_topic(shaky.tenant_id, "orders") is None:
            break
        await asyncio.sleep(0.05)
    assert shaky.catalog.cached_topic(shaky.tenant_id, "orders") is None


async def test_what_was_answered_survives_kill_9(calm: World, own_server: EmbeddedPostgres) -> None:
    topic, _, cursor = await cursor_of(calm)
    assert await calm.cursors.flush([settled(cursor, floor=7, read_to=9)])
    assert own_server.pid is not None
    for pid in family(own_server.pid):
        os.kill(pid, signal.SIGKILL)
    while own_server.poll() is None:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(own_server.prepare)
    own_server.spawn()
    await asyncio.to_thread(own_server.wait_ready)
    (stored,) = await healed(lambda: calm.cursors.of_topic(calm.tenant_id, topic.uid))
    assert (stored.floor, stored.read_to) == (7, 9)


async def test_a_session_does_not_get_a_connection_that_is_known_to_be_lost(
    world: World, database_url: str
) -> None:
    database = Database(DatabaseSettings(database_url, control_connections=1))
    await database.connect()

    async def whose(session: AsyncSession) -> int:
        return int(await session.scalar(text("SELECT pg_backend_pid()")))

    administrator = await asyncpg.connect(database_url)
    try:
        lost = await database.platform.read(whose)
        await administrator.execute("SELECT pg_terminate_backend($1, 5000)", lost)
        await asyncio.sleep(0.1)
        assert await database.platform.read(whose) != lost
    finally:
        await administrator.close()
        await database.close()


async def test_a_hung_postgres_is_noticed_within_the_deadline(
    shaky: World, calm: World, own_server: EmbeddedPostgres
) -> None:
    _, _, cursor = await cursor_of(calm)
    assert own_server.pid is not None
    frozen = family(own_server.pid)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(2):
            began_s = time.monotonic()
            with pytest.raises((MetadataUnavailable, OutcomeUnknown)):
                await shaky.cursors.flush([settled(cursor, floor=3, read_to=3)])
            with pytest.raises(MetadataUnavailable):
                await shaky.topics.get(shaky.tenant_id, "orders")
            assert time.monotonic() - began_s < 4.0
    finally:
        for pid in reversed(frozen):
            os.kill(pid, signal.SIGCONT)
    await healed(lambda: shaky.topics.get(shaky.tenant_id, "orders"))
    await healed(lambda: shaky.leases.live("subscribe"))


async def test_a_flush_whose_answer_is_lost_is_unknown_and_may_be_done(
    world: World, far: World, proxy: Proxy
) -> None:
    topic, _, cursor = await cursor_of(world)
    await far.cursors.flush([settled(cursor, floor=1, read_to=4)])  # its statement is prepared
    proxy.answers.clear()
    with pytest.raises(OutcomeUnknown):
        await far.cursors.flush([settled(cursor, floor=4, read_to=4)], deadline_s=0.5)
    (stored,) = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert stored.floor == 4


async def test_a_flush_that_arrives_after_its_cursors_were_claimed_again_changes_nothing(
    world: World, far: World, proxy: Proxy, database_url: str
) -> None:
    topic, owner, cursor = await cursor_of(world)
    await far.cursors.flush([settled(cursor, floor=1, read_to=5)])
    proxy.requests.clear()
    with pytest.raises(OutcomeUnknown):
        await far.cursors.flush([settled(cursor, floor=2, read_to=5)], deadline_s=0.5)
    (again,) = (await world.claim(owner, topic))[0].cursors
    assert again.floor == 1
    await world.cursors.flush([settled(again, floor=4, read_to=5)])
    proxy.requests.set()
    await asyncio.sleep(0.5)
    (stored,) = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert (stored.floor, stored.epoch) == (4, again.epoch)


async def test_a_control_plane_commit_whose_answer_is_lost_is_unknown(
    world: World, far: World, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    await far.database.check()
    commit = AsyncSession.commit

    async def deaf_commit(session: AsyncSession) -> None:
        proxy.answers.clear()
        await commit(session)

    monkeypatch.setattr(AsyncSession, "commit", deaf_commit)
    with pytest.raises(OutcomeUnknown):
        await far.subscriptions.create(world.tenant_id, topic.uid, SubscriptionSpec("billing"), {})
    monkeypatch.undo()
    assert (await world.subscriptions.get(world.tenant_id, "billing")).topic_uid == topic.uid


async def test_a_cut_before_the_commit_is_not_done(world: World, far: World, proxy: Proxy) -> None:
    await far.topics.page(world.tenant_id)
    proxy.answers.clear()
    cut = asyncio.get_running_loop().call_later(0.2, proxy.cut)
    with pytest.raises(MetadataUnavailable):
        await far.topics.create(world.tenant_id, TopicSpec("orders"), [0])
    cut.cancel()
    proxy.answers.set()
    assert (await world.topics.page(world.tenant_id)).items == ()


async def test_an_exhausted_pool_is_unavailable_not_a_queue_without_end(
    world: World, database_url: str
) -> None:
    settings = DatabaseSettings(
        database_url, data_connections=1, control_connections=1, max_operations=3, **QUICK
    )
    database = Database(settings)
    await database.connect()

    async def sleep(connection: asyncpg.Connection) -> None:
        await connection.execute("SELECT pg_sleep(0.8)")

    try:
        running = [asyncio.create_task(database.transaction(sleep)) for _ in range(4)]
        done = await asyncio.gather(*running, return_exceptions=True)
        assert done[0] is None
        assert [type(outcome) for outcome in done[1:]] == [MetadataUnavailable] * 3
    finally:
        await database.close()


async def until_idle(world: World) -> None:
    """Nobody does anything, or has a transaction open."""
    async with asyncio.timeout(30.0):
        while await busy_or_in_transaction(world):
            await asyncio.sleep(0.02)


async def test_a_cancelled_handler_leaves_no_connection_behind(
    world: World, database_url: str
) -> None:
    topic, owner, cursor = await cursor_of(world)
    before = await connections(world)
    settings = DatabaseSettings(database_url, data_connections=2, control_connections=2)
    database = Database(settings)
    await database.connect()
    victim = World(database, world.tenant_id)

    operations: list[Callable[[], Awaitable[Any]]] = [
        lambda: victim.cursors.flush([settled(cursor, floor=1, read_to=1)]),
        lambda: victim.assignments.claimable(owner),
        lambda: victim.leases.renew(owner),
        lambda: victim.assignments.claim(owner, []),
        lambda: victim.claim(owner, topic),
        lambda: victim.topics.get(world.tenant_id, "orders"),
        lambda: victim.topic(f"t{time.monotonic_ns()}", partitions=1),
        lambda: victim.subscription(topic, f"s{time.monotonic_ns()}"),
        lambda: victim.catalog.topic(world.tenant_id, "orders", refresh=True),
    ]
    try:
        for operation in operations:
            for steps in (*range(12), 20, 40, 80):
                task = asyncio.ensure_future(operation())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await until_idle(world)  # cancelled work is given up at its own pace
        for operation in operations[:4] + operations[5:]:
            await asyncio.wait_for(operation(), 5.0)
        await until_idle(world)
        assert await connections(world) <= before + 4
        held = [victim.leases.live("subscribe") for _ in range(settings.data_connections * 4)]
        await asyncio.wait_for(asyncio.gather(*held), 5.0)
    finally:
        await database.close()


async def test_a_cancelled_write_still_happens(world: World) -> None:
    """Cancelling is the caller's loss of interest; the outcome is unknown to it, never half."""
    task = asyncio.create_task(world.topic("orders"))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for _ in range(100):
        if (await world.topics.unfinished(older_than_s=0)) != []:
            break
        await asyncio.sleep(0.02)
    (made,) = await world.topics.unfinished(older_than_s=0)
    assert len(made.partitions) == 2


async def test_closing_waits_for_what_is_in_flight(database_url: str) -> None:
    database = Database(DatabaseSettings(database_url))
    await database.connect()

    async def slowly(connection: asyncpg.Connection) -> int:
        await connection.execute("SELECT pg_sleep(0.2)")
        return 7

    task = asyncio.create_task(database.transaction(slowly))
    await asyncio.sleep(0.05)
    await database.close()
    assert await task == 7
    with pytest.raises(MetadataUnavailable):
        await database.check()


@pytest.fixture
def unsafe_server() -> Iterator[EmbeddedPostgres]:
    directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory, port=free_port(), options={"fsync": "off"})
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


async def test_a_server_without_fsync_is_refused(unsafe_server: EmbeddedPostgres) -> None:
    database = Database(DatabaseSettings(unsafe_server.url))
    await database.connect()
    try:
        with pytest.raises(UnsafeServer, match="fsync"):
            await database.check()
        with pytest.raises(UnsafeServer, match="fsync"):
            await World(database, bytes(16)).topics.page(bytes(16))
    finally:
        await database.close()


def test_settings_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="PACKETBOAT_DATABASE_URL"):
        DatabaseSettings.from_environment({})
    settings = DatabaseSettings.from_environment(
        {"PACKETBOAT_DATABASE_DEADLINE_S": "3.5", "PACKETBOAT_DATABASE_DATA_CONNECTIONS": "4"},
        url="postgresql://x",
    )
    assert settings == replace(
        DatabaseSettings("postgresql://x"), deadline_s=3.5, data_connections=4
    )


async def busy_or_in_transaction(world: World) -> int:
    return await count(world, "state <> 'idle'")


async def connections(world: World) -> int:
    return await count(world, "application_name IN ('packetboat-data', 'packetboat-control')")


async def count(world: World, condition: str) -> int:
    async def ask(connection: asyncpg.Connection) -> int:
        found: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND " + condition
        )
        return found

    return await world.database.statement(ask, writes=False)
