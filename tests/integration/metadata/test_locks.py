"""Locks with a fence, on a real Postgres."""

from __future__ import annotations

import asyncio

import pytest

from metadata import lease
from metadata.database import Connection, Database
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.locks import locks
from metadata.locks.locks import Lock, LockRepository

NAME = "work"


async def end_lease(database: Database) -> None:
    """End the lease, as if its owner had not renewed it for a while."""

    async def work(connection: Connection) -> None:
        await connection.execute("UPDATE locks SET lease_until = now() - interval '1 ms'")

    await database.statement(work, writes=True)


async def checked(database: Database, lock: Lock) -> None:
    async def work(connection: Connection) -> None:
        await locks.check(connection, lock)

    await database.transaction(work)


async def taken(repository: LockRepository, owner: bytes | None = None) -> Lock:
    lock = await repository.take(NAME, owner or new_uid())
    assert lock is not None
    return lock


async def test_one_of_many_takes_a_lock_and_the_next_waits_for_its_lease(
    database: Database,
) -> None:
    repository = LockRepository(database)
    got = await asyncio.gather(*(repository.take(NAME, new_uid()) for _ in range(8)))
    (lock,) = [each for each in got if each is not None]
    assert await repository.take(NAME, new_uid()) is None
    renewed = await repository.renew(lock)
    assert renewed.fence == lock.fence
    assert renewed.valid_until_s >= lock.valid_until_s
    await end_lease(database)
    assert (await taken(repository)).fence == lock.fence + 1


async def test_a_lock_given_back_is_free_at_once_and_others_names_are_apart(
    database: Database,
) -> None:
    repository = LockRepository(database)
    lock = await taken(repository)
    assert await repository.take("other", new_uid()) is not None
    assert await repository.take(NAME, new_uid(), tenant_id=new_uid()) is not None
    await repository.release(lock)
    await repository.release(lock)
    later = await taken(repository)
    assert later.fence == lock.fence + 1
    await repository.release(lock)  # an old holder's: nothing
    assert await repository.take(NAME, new_uid()) is None


async def test_its_own_lock_can_be_taken_again_with_another_fence(database: Database) -> None:
    repository = LockRepository(database)
    owner = new_uid()
    first = await taken(repository, owner)
    second = await taken(repository, owner)
    assert second.fence == first.fence + 1
    with pytest.raises(LeaseLost):
        await repository.renew(first)


async def test_a_lease_that_is_over_is_not_renewed_even_if_nobody_took_the_lock(
    database: Database,
) -> None:
    repository = LockRepository(database)
    lock = await taken(repository)
    await end_lease(database)
    with pytest.raises(LeaseLost):
        await repository.renew(lock)


async def test_an_old_holder_is_fenced_out_of_what_it_checks(database: Database) -> None:
    repository = LockRepository(database)
    lock = await taken(repository)
    await checked(database, lock)
    await end_lease(database)
    await checked(database, lock)  # nobody else has it yet: harmless
    await taken(repository)
    with pytest.raises(LeaseLost):
        await checked(database, lock)


async def test_a_new_holder_waits_for_what_the_old_one_has_under_way(database: Database) -> None:
    repository = LockRepository(database)
    lock = await taken(repository)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def work(connection: Connection) -> None:
        await locks.check(connection, lock)
        inside.set()
        await leave.wait()

    writing = asyncio.create_task(database.transaction(work))
    await inside.wait()
    taking = asyncio.create_task(_take_when_over(database, repository))
    done, _ = await asyncio.wait({taking}, timeout=0.2)
    assert not done
    leave.set()
    await writing
    await taking


async def _take_when_over(database: Database, repository: LockRepository) -> None:
    await end_lease(database)
    await taken(repository)


def test_the_holder_stops_before_postgres_lets_others_in() -> None:
    lock = Lock(bytes(16), NAME, new_uid(), 1, valid_until_s=10.0)
    assert lock.held(9.9)
    assert not lock.held(10.0)
    assert lease.MARGIN_S > 0
