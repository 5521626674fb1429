"""One scheduler leads, and none for longer than its lease; on a real Postgres."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from metadata.database import Database
from metadata.lease import LEASE_S
from metadata.locks.locks import Lock, LockRepository
from metadata.settings import DatabaseSettings
from scheduler import leader
from scheduler.leader import Leader
from scheduler.term import Term
from tests.integration.metadata.proxy import Proxy
from tests.unit.scheduler.scheduler_support import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "TRY_EVERY_S", 0.05)
    monkeypatch.setattr(leader, "AFTER_FAILURE_S", 0.05)


class Worker:
    """A process of the role; `working` while its term lasts."""

    def __init__(self, database: Database) -> None:
        self.working = False
        self.fences: list[int] = []
        self.fail: Exception | None = None
        self.leader = Leader(LockRepository(database), self._work)

    async def _work(self, term: Term, lock: Callable[[], Lock]) -> None:
        self.fences.append(lock().fence)
        self.working = True
        try:
            if self.fail is not None:
                error, self.fail = self.fail, None
                raise error
            await asyncio.Event().wait()
        finally:
            self.working = False


@asynccontextmanager
async def running(database: Database) -> AsyncIterator[Worker]:
    worker = Worker(database)
    task = asyncio.create_task(worker.leader.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not worker.working


async def test_one_works_and_the_next_takes_over_when_it_stops(database: Database) -> None:
    async with running(database) as second:
        async with running(database) as first:
            await until(lambda: first.working or second.working)
            await asyncio.sleep(0.3)
            assert [first.working, second.working].count(True) == 1
        # Given back, not waited for: well within a lease.
        await until(lambda: second.working)
        assert second.leader.leading
    fences = sorted(first.fences + second.fences)
    assert fences == list(range(1, len(fences) + 1))


async def test_work_that_fails_begins_anew_under_another_fence(database: Database) -> None:
    async with running(database) as worker:
        worker.fail = RuntimeError("a fault of ours")
        await until(lambda: len(worker.fences) == 2 and worker.working)
        assert worker.fences == [1, 2]


async def test_a_worker_cut_off_from_postgres_stops_before_another_begins(
    database: Database, database_url: str
) -> None:
    proxy = Proxy(database_url)
    url = await proxy.start()
    far_database = Database(DatabaseSettings(url, connect_timeout_s=0.5, deadline_s=1.0))
    await far_database.connect()
    stopped_s = started_s = 0.0
    async with running(far_database) as far:
        await until(lambda: far.working)
        async with running(database) as near:
            proxy.requests.clear()
            for _ in range(3000):
                if far.working:
                    stopped_s = time.monotonic()
                if near.working:
                    started_s = time.monotonic()
                    break
                await asyncio.sleep(0.005)
            assert near.working
            assert not far.working
            assert stopped_s < started_s, "both worked at once"
            print(f"taken over {started_s - stopped_s:.2f} s after the end of the old term")
        # Reconnected, it leads again when it may.
        proxy.requests.set()
        await until(lambda: far.working)
    await far_database.close()
    await proxy.close()


async def test_a_process_that_was_paused_past_its_lease_stops_at_once(database: Database) -> None:
    """The process sees by its clock that the lease may be over, and does nothing more under it."""
    held: list[Callable[[], Lock]] = []

    async def work(term: Term, lock: Callable[[], Lock]) -> None:
        held.append(lock)
        await asyncio.Event().wait()

    paused = Leader(LockRepository(database), work)
    task = asyncio.create_task(paused.run())
    await until(lambda: bool(held))
    lock = held[0]()
    paused._lock = Lock(
        *[getattr(lock, name) for name in ("tenant_id", "name", "owner", "fence")], 0.0
    )
    with pytest.raises(leader.LeaseLost):
        held[0]()
    assert not paused.leading
    await until(lambda: len(held) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert LEASE_S > 0
