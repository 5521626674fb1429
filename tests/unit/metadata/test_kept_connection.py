"""A clean connection of the data pool is kept for the next operation, unless another one waits."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from metadata.database import Database
from metadata.errors import NotFound
from metadata.settings import DatabaseSettings


class Lent:
    """One connection of the pool."""

    def __init__(self) -> None:
        self.lost = False

    def is_closed(self) -> bool:
        if self.lost:
            raise asyncpg.InterfaceError("cannot call Connection.is_closed(): released to the pool")
        return False


class Pool:
    """Lend `size` connections at a time, as asyncpg does, and count."""

    def __init__(self, size: int) -> None:
        self.free = asyncio.Semaphore(size)
        self.lent = self.released = 0

    async def acquire(self, *, timeout: float) -> Lent:
        async with asyncio.timeout(timeout):
            await self.free.acquire()
        self.lent += 1
        return Lent()

    async def release(self, *_: object, **__: object) -> None:
        self.released += 1
        self.free.release()

    async def close(self) -> None:
        assert self.lent == self.released


def made(pool: Pool) -> Database:
    database = Database(DatabaseSettings("postgresql://nowhere"))
    database._pool = pool
    return database


async def look(connection: Lent) -> Lent:
    return connection


async def test_operations_that_follow_each_other_use_one_connection() -> None:
    pool = Pool(2)
    database = made(pool)
    first = await database.statement(look, writes=False)
    assert await database.statement(look, writes=False) is first
    assert (pool.lent, pool.released) == (1, 0)
    await database.close()


async def test_a_connection_that_was_lost_while_it_was_kept_is_not_used() -> None:
    pool = Pool(2)
    database = made(pool)
    first = await database.statement(look, writes=False)
    first.lost = True
    assert await database.statement(look, writes=False) is not first


async def test_a_connection_on_which_something_failed_goes_back() -> None:
    pool = Pool(2)
    database = made(pool)

    async def fail(_: Lent) -> None:
        raise NotFound("topic", "none")

    with pytest.raises(NotFound):
        await database.statement(fail, writes=False)
    assert (pool.lent, pool.released) == (1, 1)


async def test_a_connection_for_which_another_operation_waits_goes_back() -> None:
    pool = Pool(1)
    database = made(pool)
    end = asyncio.Event()

    async def until_told(connection: Lent) -> Lent:
        await end.wait()
        return connection

    both = [asyncio.create_task(database.statement(until_told, writes=False)) for _ in range(2)]
    await asyncio.sleep(0.01)
    end.set()
    _, waiting = await asyncio.wait(both, timeout=1)
    assert not waiting, "the operation that waited has no connection"
    await database.close()
