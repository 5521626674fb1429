"""Connections to Postgres are divided: one tenant's operations never hold all of a pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from metadata.connection_shares import Attempt, ConnectionShares
from metadata.database import Database
from metadata.errors import MetadataUnavailable
from metadata.settings import DatabaseSettings

ONE, OTHER, THIRD = (bytes([number]) * 16 for number in (1, 2, 3))
CONNECTIONS = 8
AT_ONCE_S = 1.0


class Pool:
    """Give CONNECTIONS connections; an operation keeps its connection until it is told to end."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(CONNECTIONS)
        self.end = asyncio.Event()
        self.working = 0

    async def acquire(self, *, timeout: float) -> Pool:
        async with asyncio.timeout(timeout):
            await self.free.acquire()
        return self

    async def release(self, *_: object, **__: object) -> None:
        self.free.release()

    def is_closed(self) -> bool:
        return False

    async def long(self, _: object) -> None:
        self.working += 1
        await self.end.wait()
        self.working -= 1


class Guard:
    """A guard that lets all operations pass and remembers how they left it."""

    def __init__(self) -> None:
        self.said: list[bool | None] = []

    def enter(self, *, always: bool) -> int:
        return 1

    def left(self, operation: int, *, answered: bool) -> None:
        self.said.append(answered)

    def gave_up(self, operation: int) -> None:
        self.said.append(None)


def database(pool: Pool, guard: Guard | None = None, **settings: Any) -> Database:
    made = Database(DatabaseSettings("postgresql://nowhere", **settings), guard=guard)
    made._pool = pool
    return made


async def quick(_: object) -> str:
    return "done"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


@asynccontextmanager
async def crowded(one: Database, pool: Pool, *tenants: bytes | None) -> AsyncIterator[None]:
    """Ask for far more operations of each at once than there are connections."""
    asked = [
        asyncio.create_task(one.statement(pool.long, writes=False, tenant_id=tenant))
        for tenant in tenants
        for _ in range(50)
    ]
    await until(lambda: pool.working > 0)
    for _ in range(10):
        await asyncio.sleep(0)
    try:
        yield
    finally:
        pool.end.set()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_one_tenant_leaves_connections_to_another() -> None:
    """400 lock waits of one tenant once made requests of another wait until they were refused."""
    pool = Pool()
    one = database(pool)
    async with crowded(one, pool, ONE):
        assert pool.working == CONNECTIONS // 2
        async with asyncio.timeout(AT_ONCE_S):
            assert await one.statement(quick, writes=False, tenant_id=OTHER) == "done"
    assert pool.working == 0


async def test_all_tenants_leave_connections_to_the_platform() -> None:
    pool = Pool()
    one = database(pool)
    async with crowded(one, pool, ONE, OTHER, THIRD):
        assert pool.working <= CONNECTIONS * 3 // 4
        async with asyncio.timeout(AT_ONCE_S):
            assert await one.statement(quick, writes=False) == "done"


async def test_the_platform_uses_the_whole_pool() -> None:
    pool = Pool()
    one = database(pool)
    async with crowded(one, pool, None):
        assert pool.working == CONNECTIONS


async def test_an_operation_that_got_no_turn_says_nothing_of_postgres() -> None:
    """The circuit breaker once refused all tenants: operations of one tenant had waited for others
    of the same tenant until their deadlines."""
    pool, guard = Pool(), Guard()
    one = database(pool, guard, connect_timeout_s=0.01)
    async with crowded(one, pool, ONE):
        with pytest.raises(MetadataUnavailable, match="the tenant's other operations"):
            await one.statement(quick, writes=False, tenant_id=ONE)
        with pytest.raises(MetadataUnavailable):
            await one.statement(quick, writes=False, tenant_id=ONE, deadline_s=0.005)
        assert set(guard.said) == {None}
        assert await one.statement(quick, writes=False, tenant_id=OTHER) == "done"
        assert guard.said[-1] is True


async def test_operations_that_wait_are_bounded_for_each_tenant_and_for_the_platform() -> None:
    pool = Pool()
    one = database(pool, max_operations=40)
    async with crowded(one, pool, ONE):
        with pytest.raises(MetadataUnavailable, match="too many operations"):
            await one.statement(quick, writes=False, tenant_id=ONE)
        assert await one.statement(quick, writes=False, tenant_id=OTHER) == "done"
        assert await one.statement(quick, writes=False) == "done"
    assert await one.statement(quick, writes=False, tenant_id=ONE) == "done"


async def test_a_refused_gate_leaves_nothing_counted() -> None:
    class Closed(Guard):
        def enter(self, *, always: bool) -> int:
            raise MetadataUnavailable("not answered")

    one = database(Pool(), Closed(), max_operations=4)
    for _ in range(10):
        with pytest.raises(MetadataUnavailable, match="not answered"):
            await one.statement(quick, writes=False, tenant_id=ONE)
        with pytest.raises(MetadataUnavailable, match="not answered"):
            await one.statement(quick, writes=False)


@pytest.mark.parametrize("connections", [1, 2, 3, 8, 100])
async def test_every_pool_has_room_for_tenants(connections: int) -> None:
    turns = ConnectionShares(connections, 0.1)
    async with turns.turn(ONE, Attempt()):
        pass
    async with turns.turn(ONE, Attempt()):
        pass
