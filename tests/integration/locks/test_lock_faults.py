"""Locks while Postgres is cut off, and holders that were paused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from metadata.database import Database
from metadata.errors import LeaseLost, OutcomeUnknown
from metadata.locks.catalog import LockCatalog
from metadata.settings import DatabaseSettings
from tests.integration.locks.conftest import OpenProcess
from tests.integration.locks.lock_support import NAME, TENANT, Process, ask, holder, until_places
from tests.integration.metadata.proxy import Proxy


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(database_url)
    yield proxy
    await proxy.close()


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Process]:
    """Yield a process that reaches Postgres through the proxy."""
    database = Database(DatabaseSettings(await proxy.start(), connect_timeout_s=0.5))
    await database.connect()
    process = Process(database)
    yield process
    proxy.requests.set()
    proxy.answers.set()
    await process.close()
    await database.close()


async def test_an_acquire_whose_answer_is_lost_is_got_again_by_its_request_id(
    far: Process, proxy: Proxy, database: Database
) -> None:
    await far.locks.release(await far.taken("warm"))
    proxy.answers.clear()
    with pytest.raises(OutcomeUnknown):
        await far.acquire("ann", wait_s=0, request_id="r1")
    assert await holder(database) == "ann"
    fence = await ask(database, "SELECT fence FROM locks")
    proxy.cut()
    proxy.answers.set()
    lock = await far.taken("ann", request_id="r1")
    assert lock.fence == fence


async def test_one_that_nobody_can_ask_for_again_is_given_back(
    far: Process, proxy: Proxy, database: Database
) -> None:
    await far.locks.release(await far.taken("warm"))
    proxy.answers.clear()
    with pytest.raises(OutcomeUnknown):
        await far.acquire("ann", wait_s=0)
    assert await holder(database) == "ann"
    proxy.cut()
    proxy.answers.set()
    async with asyncio.timeout(10):
        while await holder(database) is not None:
            await asyncio.sleep(0.05)


async def test_a_wait_goes_on_over_a_cut(
    far: Process, proxy: Proxy, database: Database, open_process: OpenProcess
) -> None:
    near = await open_process()
    first = await near.taken("first")
    waiting = asyncio.create_task(far.taken("second", wait_s=30))
    await until_places(database, 1)
    proxy.requests.clear()
    proxy.cut()
    await near.locks.release(first)
    await asyncio.sleep(0.5)
    assert not waiting.done()
    proxy.requests.set()
    assert (await waiting).holder == "second"


class Resource:
    """A resource that a lock protects: it refuses tokens below the highest it has seen."""

    def __init__(self) -> None:
        self.highest = 0
        self.written: list[str] = []

    def write(self, what: str, token: int) -> bool:
        if token < self.highest:
            return False
        self.highest = token
        self.written.append(what)
        return True


async def test_a_holder_that_was_paused_past_its_lease_is_refused(
    open_process: OpenProcess, database: Database
) -> None:
    process, resource = await open_process(), Resource()
    catalog = LockCatalog(database)
    paused = await process.taken("paused", ttl_s=1.0)
    assert resource.write("a", paused.fence)
    other = await process.taken("other")
    assert resource.write("b", other.fence)
    assert not resource.write("c", paused.fence)
    assert resource.written == ["a", "b"]
    with pytest.raises(LeaseLost):
        await process.locks.renew(paused)
    state = await catalog.get(TENANT, NAME)
    assert (state.held, state.fence) == (True, other.fence)
