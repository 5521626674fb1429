"""A scheduler that was deposed and does not know it yet writes nothing to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from edge.quota import STORED_BYTES
from metadata.database import Connection, Database
from metadata.errors import LeaseLost
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.locks.fenced import FencedDatabase
from metadata.locks.locks import Lock, LockRepository
from metadata.tenancy.quotas import TenantLimit
from scheduler import publications, service
from scheduler.balancing.balancer import Balancer
from scheduler.service import Scheduler
from scheduler.settings import load
from subscribe_forwarder.fleet import rendezvous
from tests.integration.metadata.world import World
from tests.integration.scheduler.test_trimming import RETAIN, Site

_DEPOSE = """
UPDATE locks SET owner = gen_random_uuid(), fence = fence + 1,
    lease_until = clock_timestamp() + interval '1 hour'
"""
_OLD_ROWS = (
    "INSERT INTO usage_hours (tenant_id, hour, metric, value)"
    " VALUES (gen_random_uuid(), now() - interval '9 years', 'acks', 1)",
    "INSERT INTO audit (tenant_id, id, at, actor, action, resource, request_id)"
    " VALUES (gen_random_uuid(), gen_random_uuid(), now() - interval '9 years',"
    " 'a', 'b', 'c', 'd')",
    "INSERT INTO ack_publications (tenant_id, tag, state, outputs, created_at)"
    " VALUES (gen_random_uuid(), gen_random_uuid(), 'open', '\\x90', now() - interval '1 day')",
)
_STATE = """
SELECT (SELECT count(*) FROM usage_hours) AS usage_hours,
    (SELECT count(*) FROM audit) AS audit,
    (SELECT array_agg(state) FROM ack_publications) AS publications,
    (SELECT max(trimmed_to) FROM partitions) AS trimmed_to,
    (SELECT count(*) FROM topic_usage) AS noted,
    (SELECT count(full_reason) FROM topics) AS full
"""


class Deposed(LockRepository):
    """Gives each lock to another owner at once; its first owner finds out when it renews."""

    async def take(self, name: str, owner: bytes, *, tenant_id: bytes = bytes(16)) -> Lock | None:
        taken = await super().take(name, owner, tenant_id=tenant_id)

        async def depose(connection: Connection) -> None:
            await connection.execute(_DEPOSE)

        await self._database.statement(depose, writes=True)
        return taken


@pytest.fixture
async def world(database: Database) -> World:
    return await World.open(database)


@pytest.fixture
async def site(world: World) -> Site:
    return Site(world)


async def work_to_do(site: Site, connection: Any) -> None:
    """Make work for every part of a scheduler: to trim, to report a full topic, to note, to
    prune and to end.
    """
    consumed = await site.topic()
    full = await site.topic("full", mode=RETAIN, bytes=100)
    for topic in (consumed, full):
        await site.world.subscription(topic, f"of-{topic.name}")
        await site.publish(topic, 10)
    await site.ack(consumed, 10)
    for row in _OLD_ROWS:
        await connection.execute(row)


async def test_a_deposed_scheduler_writes_nothing(
    site: Site, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schedulers find the same work; one still has the lock, the other does not."""

    async def balance_nothing(self: Balancer) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Balancer, "run", balance_nothing)
    monkeypatch.setattr(publications, "SWEEP_EVERY_S", 0.05)
    connection: Any = await asyncpg.connect(database_url)
    try:
        await work_to_do(site, connection)
        before = await state(connection)
        with monkeypatch.context() as patched:
            patched.setattr(service, "LockRepository", Deposed)
            async with scheduler(site, database):
                await asyncio.sleep(2.0)
        assert await state(connection) == before
        await connection.execute("UPDATE locks SET owner = NULL, lease_until = clock_timestamp()")
        done = {
            "usage_hours": 0,
            "audit": 0,
            "publications": ["aborted"],
            "trimmed_to": 10,
            "noted": 2,
            "full": 1,
        }
        async with scheduler(site, database), asyncio.timeout(30):
            while await state(connection) != done:
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def state(connection: Any) -> dict[str, Any]:
    return dict(await connection.fetchrow(_STATE))


@asynccontextmanager
async def scheduler(site: Site, database: Database) -> AsyncIterator[None]:
    made = Scheduler(
        store=site.store,
        database=database,
        feed=ChangeFeed(database),
        settings=load({}),
        home=rendezvous.home,
        stored_limits=TenantLimit(STORED_BYTES, {STORED_BYTES: 0}),
    )
    await made.start()
    try:
        yield
    finally:
        await made.close()


Write = Callable[[Database, bytes], Awaitable[object]]


async def _statement(database: Database, tenant_id: bytes) -> object:
    return await database.statement(_insert, writes=True)


async def _transaction(database: Database, tenant_id: bytes) -> object:
    return await database.transaction(_insert)


async def _session(database: Database, tenant_id: bytes) -> object:
    return await database.platform.write(_add)


async def _of_a_tenant(database: Database, tenant_id: bytes) -> object:
    return await database.of(tenant_id).transaction(_insert)


async def _session_of_a_tenant(database: Database, tenant_id: bytes) -> object:
    return await database.of(tenant_id).write(_add)


async def _insert(connection: Connection) -> object:
    return await connection.fetchval(_NOTE)


async def _add(session: Any) -> object:
    return (await session.execute(text(_NOTE))).scalar()


_NOTE = "UPDATE topics SET dedup_window_s = dedup_window_s + 1 RETURNING dedup_window_s - 600"


@pytest.mark.parametrize(
    "write", [_statement, _transaction, _session, _of_a_tenant, _session_of_a_tenant]
)
async def test_whatever_is_written_is_under_the_fence(world: World, write: Write) -> None:
    await world.topic("orders")
    repository = LockRepository(world.database)
    lock = await repository.take("it's a lock", new_uid())
    assert lock is not None
    fenced = FencedDatabase(world.database, lambda: lock)
    assert await write(fenced, world.tenant_id) == 1
    await repository.release(lock)
    assert await repository.take("it's a lock", new_uid()) is not None
    with pytest.raises(LeaseLost):
        await write(fenced, world.tenant_id)
    assert await write(world.database, world.tenant_id) == 2, "it wrote all the same"


async def test_a_lease_that_may_be_over_writes_nothing(world: World) -> None:
    def over() -> Lock:
        raise LeaseLost("the lease may be over")

    fenced = FencedDatabase(world.database, over)
    with pytest.raises(LeaseLost):
        await fenced.transaction(_insert)


async def test_renewals_pass_what_is_under_way_and_a_new_holder_waits_for_it(world: World) -> None:
    repository = LockRepository(world.database)
    lock = await repository.take("scheduler", new_uid())
    assert lock is not None
    inside, leave = asyncio.Event(), asyncio.Event()

    async def work(connection: Connection) -> None:
        inside.set()
        await leave.wait()

    writing = asyncio.create_task(FencedDatabase(world.database, lambda: lock).transaction(work))
    await inside.wait()
    await asyncio.wait_for(repository.renew(lock), 1.0)
    await repository.release(lock)
    taking = asyncio.create_task(repository.take("scheduler", new_uid()))
    done, _ = await asyncio.wait({taking}, timeout=0.3)
    assert not done
    leave.set()
    await writing
    assert await taking is not None
