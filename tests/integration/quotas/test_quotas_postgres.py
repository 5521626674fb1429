"""Limits, shares and usage on a real Postgres."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import asyncpg

from edge.quota import PUBLISH_MESSAGES
from gateway.quotas.limiter import Limiter
from gateway.quotas.limits import LimitCache
from gateway.quotas.metering import Meter
from gateway.quotas.sharing import Sharing
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.tenancy.quota_demands import Demand, QuotaDemands
from metadata.tenancy.quotas import QuotaRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.tenancy.usage_hours import UsageHours
from metadata.tenancy.usage_reports import Counted, UsageReports

LONG_S = 30.0
HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def tenant(database: Database) -> bytes:
    tenant_id = new_uid()
    await TenantRepository(database).ensure(tenant_id, f"tenant-{tenant_id.hex()}")
    return tenant_id


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not met():
            await asyncio.sleep(0.01)


async def test_all_are_told_what_all_ask_for(database: Database) -> None:
    demands = QuotaDemands(database)
    one, other = os.urandom(16), os.urandom(16)
    a, b = new_uid(), new_uid()
    assert await demands.tell(one, []) == {}
    assert await demands.tell(one, [Demand(a, "q", 3.0), Demand(b, "q", 1.0)]) == {
        (a, "q"): 3.0,
        (b, "q"): 1.0,
    }
    assert await demands.tell(other, [Demand(a, "q", 4.0), Demand(a, "r", 1.0)]) == {
        (a, "q"): 7.0,
        (a, "r"): 1.0,
    }
    assert await demands.tell(one, [Demand(a, "q", 0.0)]) == {(a, "q"): 4.0}
    await demands.leave(other)
    assert await demands.tell(one, [Demand(a, "q", 5.0)]) == {(a, "q"): 5.0}


async def test_what_is_old_does_not_count_and_goes(database: Database, database_url: str) -> None:
    demands = QuotaDemands(database)
    one, other, of = os.urandom(16), os.urandom(16), new_uid()
    await demands.tell(other, [Demand(of, "q", 4.0)])
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("UPDATE quota_demands SET told_at = now() - interval '4 s'")
        assert await demands.tell(one, [Demand(of, "q", 1.0)]) == {(of, "q"): 1.0}
        await demands.prune(older_s=3.5)
        assert await connection.fetchval("SELECT count(*) FROM quota_demands") == 1
    finally:
        await connection.close()


async def test_many_tell_at_once(database: Database) -> None:
    demands = QuotaDemands(database)
    tenants = [new_uid() for _ in range(50)]
    processes = [os.urandom(16) for _ in range(8)]

    async def tell(incarnation: bytes, order: Sequence[bytes]) -> None:
        for _ in range(5):
            await demands.tell(incarnation, [Demand(of, "q", 1.0) for of in order])

    await asyncio.gather(
        *(tell(one, tenants if at % 2 else tenants[::-1]) for at, one in enumerate(processes))
    )
    totals = await demands.tell(processes[0], [Demand(of, "q", 1.0) for of in tenants])
    assert set(totals.values()) == {8.0}


async def test_a_report_is_added_once(database: Database) -> None:
    reports, hours = UsageReports(database), UsageHours(database)
    one, other = await tenant(database), await tenant(database)
    process, second = os.urandom(16), os.urandom(16)
    counted = [Counted(one, "acks", 3.0), Counted(other, "acks", 0.5)]
    assert await reports.add(process, 1, HOUR, counted)
    assert not await reports.add(process, 1, HOUR, counted)
    assert await reports.add(process, 2, HOUR, counted)
    assert await reports.add(second, 1, HOUR, [Counted(one, "acks", 10.0)])
    assert await reports.add(second, 2, HOUR + timedelta(hours=1), [Counted(one, "acks", 1.0)])
    page = await hours.page(one)
    assert [(each.hour, each.value) for each in page.items] == [
        (HOUR, 16.0),
        (HOUR + timedelta(hours=1), 1.0),
    ]
    assert [each.value for each in (await hours.page(other)).items] == [1.0]


async def test_hours_go_by_age(database: Database) -> None:
    reports, hours = UsageReports(database), UsageHours(database)
    tenants = [await tenant(database) for _ in range(2)]
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    ages_h = [0, 23, 26, 27, 28]
    for sequence, age_h in enumerate(ages_h):
        counted = [Counted(one, "acks", 1.0) for one in tenants]
        await reports.add(b"p" * 16, sequence, now - timedelta(hours=age_h), counted)
    assert [await hours.prune(86_400, 4) for _ in range(3)] == [4, 2, 0]
    for one in tenants:
        kept = [each.hour for each in (await hours.page(one)).items]
        assert kept == [now - timedelta(hours=23), now]
    assert await hours.prune(0.001, 100) == 2, "the hour that runs is never old"


async def test_reports_of_many_processes_add_up(database: Database) -> None:
    reports, hours = UsageReports(database), UsageHours(database)
    tenants = [await tenant(database) for _ in range(5)]

    async def report(order: Sequence[bytes]) -> None:
        incarnation = os.urandom(16)
        for sequence in range(1, 11):
            rows = [Counted(one, metric, 1.0) for one in order for metric in ("acks", "requests")]
            await reports.add(incarnation, sequence, HOUR, rows)
            await reports.add(incarnation, sequence, HOUR, rows)

    await asyncio.gather(*(report(tenants if at % 2 else tenants[::-1]) for at in range(6)))
    for one in tenants:
        assert [each.value for each in (await hours.page(one)).items] == [60.0, 60.0]


async def test_a_report_of_a_lost_connection_is_made_again(
    database: Database, database_url: str
) -> None:
    """Cut while it is on its way, again and again: what is counted is there once."""
    one = await tenant(database)
    meter = Meter(UsageReports(database), 0.01)
    running = asyncio.ensure_future(meter.run())
    connection = await asyncio.wait_for(asyncpg.connect(database_url), LONG_S)
    try:
        for _ in range(30):
            for _ in range(10):
                meter.count(one, "acks", 1)
                await asyncio.sleep(0.001)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    finally:
        await connection.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await meter.close(LONG_S)
    page = await UsageHours(database).page(one)
    assert sum(each.value for each in page.items) == 300


async def test_limits_are_followed_and_shared(database: Database) -> None:
    """Two processes' worth of limiters: a change is known to both, and the limit is one."""
    one = await tenant(database)
    quotas = QuotaRepository(database)
    feed = ChangeFeed(database, poll_every_s=0.2)
    limiters = [Limiter([PUBLISH_MESSAGES], {}) for _ in range(2)]
    sharings = [Sharing(each, QuotaDemands(database), 0.3) for each in limiters]
    books = [LimitCache(quotas, each.follow) for each in limiters]
    for book in books:
        feed.add_listener(book.on_changes)
    tasks = [asyncio.ensure_future(each.run()) for each in (*books, *sharings)]
    await feed.start()
    try:
        assert all(each.take_publish(one, 1000, 1) is None for each in limiters)
        await quotas.put(one, {PUBLISH_MESSAGES: 100}, 1.0)
        await until(lambda: all(each.headers(one, (PUBLISH_MESSAGES,)) for each in limiters))
        first = limiters[0]
        await until(lambda: first._processes[PUBLISH_MESSAGES] == 2)
        assert first._tenants[one].buckets[PUBLISH_MESSAGES].share == 50

        def shared() -> bool:
            for each, amount in zip(limiters, (3, 1), strict=True):
                each.take_publish(one, amount, 1)
            parts = [each._tenants[one].buckets[PUBLISH_MESSAGES].share for each in limiters]
            return abs(parts[0] - 75) < 5 and abs(sum(parts) - 100) < 5

        await until(shared)
        await quotas.put(one, {}, 1.0)
        await until(lambda: not any(each.headers(one, (PUBLISH_MESSAGES,)) for each in limiters))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await feed.close()
