"""Operations of one tenant that wait for Postgres leave connections to others: of each kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Connection, Database
from metadata.ids import new_uid
from metadata.locks.locks import Claim, Lock, LockRepository
from metadata.locks.waiters import LAST_TICKET, LockWaiterRepository, Ticket
from metadata.settings import DatabaseSettings
from tests.integration.metadata.world import World

FAR_MORE = 60
SOON_S = 5.0
NAME = "work"
Ask = Callable[[bytes], Awaitable[object]]


@pytest.fixture
async def served(world: World, database_url: str) -> AsyncIterator[Database]:
    """Give the database of a gateway process, with as many connections as by default."""
    database = Database(DatabaseSettings(database_url, connect_timeout_s=30.0, deadline_s=30.0))
    await database.connect()
    yield database
    await database.close(wait_s=0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here ends because it has waited for long."""
    monkeypatch.setattr("metadata.locks.locks.RENEW_DEADLINE_S", 30.0)
    monkeypatch.setattr("metadata.locks.waiters.RENEW_DEADLINE_S", 30.0)


async def others_are_served(database: Database, one: bytes, slow: Ask, quick: Ask) -> None:
    """One tenant asks for far more slow operations than there are connections; another tenant and
    the platform ask once and are served soon."""
    other = new_uid()
    await quick(other)
    waiting = [asyncio.ensure_future(slow(one)) for _ in range(FAR_MORE)]
    try:
        await asyncio.sleep(0.5)
        async with asyncio.timeout(SOON_S):
            await quick(other)
            await database.check()
        assert not any(each.done() for each in waiting)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_reads_and_changes(served: Database) -> None:
    async def work(session: AsyncSession) -> None:
        await session.execute(text("SELECT pg_sleep(10)"))

    async def look(session: AsyncSession) -> None:
        await session.execute(text("SELECT 1"))

    await others_are_served(
        served,
        new_uid(),
        lambda one: served.of(one).write(work),
        lambda one: served.of(one).read(look),
    )


async def test_raw_statements(served: Database) -> None:
    async def work(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(10)")

    async def look(connection: Connection) -> None:
        await connection.execute("SELECT 1")

    await others_are_served(
        served,
        new_uid(),
        lambda one: served.of(one).statement(work, writes=False),
        lambda one: served.of(one).transaction(look),
    )


@asynccontextmanager
async def busy(database: Database, statement: str, tenant_id: bytes) -> AsyncIterator[None]:
    """The statement's row locks are held within the block, by somebody else."""
    connection = await database.dedicated("test")
    try:
        async with connection.transaction():
            await connection.execute(statement, UUID(bytes=tenant_id))
            yield
    finally:
        await connection.close()


@pytest.mark.parametrize("way", ["acquire", "make", "renew", "release"])
async def test_a_lock(served: Database, way: str) -> None:
    locks, one = LockRepository(served), new_uid()

    async def acquire(tenant_id: bytes) -> Lock:
        got = await locks.acquire(Claim(tenant_id, NAME, new_uid(), request_id="same"))
        assert isinstance(got, Lock)
        return got

    held = await acquire(one)

    async def slow(tenant_id: bytes) -> object:
        if way == "acquire":
            return await acquire(tenant_id)
        if way == "make":
            return await locks.acquire(Claim(tenant_id, new_uid().hex(), new_uid()))
        return await getattr(locks, way)(held)

    row = "SELECT FROM locks WHERE tenant_id = $1 FOR UPDATE"
    floor = "SELECT FROM lock_fences WHERE tenant_id = $1 FOR UPDATE"
    async with busy(served, floor if way == "make" else row, one):
        await others_are_served(served, one, slow, acquire)


@pytest.mark.parametrize("way", ["join", "leave"])
async def test_places_in_the_line_of_a_lock(served: Database, way: str) -> None:
    places, one = LockWaiterRepository(served), new_uid()
    await places.join(one, NAME, LAST_TICKET)

    async def slow(tenant_id: bytes) -> None:
        if way == "join":
            await places.join(tenant_id, NAME, LAST_TICKET)
        else:
            await places.leave(Ticket(tenant_id, NAME, LAST_TICKET))

    async def quick(tenant_id: bytes) -> None:
        await places.leave(await places.join(tenant_id, NAME))

    row = "SELECT FROM lock_waiters WHERE tenant_id = $1 FOR UPDATE"
    async with busy(served, row, one):
        await others_are_served(served, one, slow, quick)
