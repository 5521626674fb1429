"""Postgres that hangs: soon nothing waits for it any more, and it is used once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edge.breaker import State
from gateway.breakers import METADATA, MetadataBreaker
from metadata.database import Connection, Database
from metadata.errors import MetadataError, MetadataUnavailable, NotFound
from metadata.ids import new_uid
from metadata.locks.locks import Claim, Lock, LockRepository
from metadata.settings import DatabaseSettings
from metadata.topics.topics import TopicRepository
from tests.integration.metadata.proxy import Proxy

AT_ONCE_S = 0.3


class Far:
    """A database behind a proxy, with the product's guard."""

    def __init__(self, proxy: Proxy, url: str) -> None:
        self.proxy = proxy
        self.guard = MetadataBreaker()
        self.database = Database(
            DatabaseSettings(url, connect_timeout_s=1.0, deadline_s=5.0), guard=self.guard
        )

    async def write(self) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute("UPDATE change_counter SET pruned_to = pruned_to")

        await self.database.statement(work, writes=True)

    async def until(self, state: State) -> None:
        async with asyncio.timeout(20):
            while self.guard.state is not state:
                await asyncio.sleep(0.02)


@pytest.fixture
async def far(database_url: str) -> AsyncIterator[Far]:
    proxy = Proxy(database_url)
    far = Far(proxy, await proxy.start())
    await far.database.connect()
    await far.write()
    yield far
    proxy.requests.set()
    proxy.answers.set()
    await far.database.close()
    await proxy.close()


@pytest.mark.parametrize("way", ["requests", "answers"])
async def test_only_the_first_waits_for_a_postgres_that_hangs(far: Far, way: str) -> None:
    """One request waits, and a poll each second notices."""
    hold = getattr(far.proxy, way)
    hold.clear()
    waiting = [asyncio.create_task(far.write())]
    for _ in range(4):
        waiting.append(asyncio.create_task(far.database.check()))
        await asyncio.sleep(1.0)
    assert not waiting[0].done()
    await far.until(State.OPEN)
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(MetadataUnavailable, match="not answered") as refused:
            await far.write()
    assert refused.value.retry_after_s <= METADATA.probe_every_s
    hold.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    await far.database.check()
    await far.write()


async def test_what_waits_opens_it_before_any_deadline_is_over(far: Far) -> None:
    far.proxy.requests.clear()
    waiting = [asyncio.create_task(far.write()) for _ in range(3)]
    await asyncio.sleep(METADATA.silent_s + 0.1)
    refused = 0
    for _ in range(4):
        await asyncio.sleep(0.06)
        trying = asyncio.create_task(far.write())
        await asyncio.sleep(0.01)
        refused += trying.done()
        waiting.append(trying)
    assert refused >= 2
    far.proxy.requests.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    await far.until(State.CLOSED)
    await far.write()


async def test_leases_and_the_feed_go_on_and_find_out(far: Far) -> None:
    locks = LockRepository(far.database)
    lock = await locks.acquire(Claim(bytes(16), "work", new_uid(), 60.0))
    assert isinstance(lock, Lock)
    far.proxy.requests.clear()
    with pytest.raises(MetadataError):
        await far.write()
    await opened(far)
    renewing = asyncio.create_task(locks.renew(lock))
    await asyncio.sleep(0.1)
    assert not renewing.done()
    far.proxy.requests.set()
    assert (await renewing).fence == lock.fence
    assert far.guard.state is State.CLOSED


async def opened(far: Far) -> None:
    for _ in range(METADATA.failures + 1):
        with pytest.raises(MetadataError):
            await far.database.check()
    assert far.guard.state is State.OPEN


async def test_without_anybody_else_a_call_tries_by_itself(far: Far) -> None:
    far.proxy.requests.clear()
    await opened(far)
    far.proxy.requests.set()
    await asyncio.sleep(METADATA.probe_every_s)
    await far.write()
    assert far.guard.state is State.CLOSED


async def test_what_postgres_refuses_and_a_refused_connection_open_nothing(far: Far) -> None:
    topics = TopicRepository(far.database)
    for _ in range(METADATA.failures + 1):
        with pytest.raises(NotFound):
            await topics.get(new_uid(), "nothing")
    await far.proxy.close()
    for _ in range(2 * METADATA.failures):
        with pytest.raises(MetadataError):
            await far.write()
    assert far.guard.state is State.CLOSED


async def test_a_cancelled_caller_says_nothing_of_postgres(far: Far) -> None:
    for _ in range(METADATA.failures + 1):
        writing = asyncio.create_task(far.write())
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    await far.write()
    assert far.guard.state is State.CLOSED
