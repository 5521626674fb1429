"""The leading scheduler deletes rows whose retention, in days, is over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from edge.quota import STORED_BYTES
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.tenancy.quotas import TenantLimit
from scheduler.service import Scheduler
from scheduler.settings import load
from subscribe_forwarder.fleet import rendezvous
from tests.unit.scheduler.scheduler_support import FakeStore

SETTINGS = load(
    {
        "PACKETBOAT_SCHEDULER_USAGE_RETENTION_DAYS": "10",
        "PACKETBOAT_SCHEDULER_AUDIT_RETENTION_DAYS": "20",
    }
)
AGES_DAYS = (0, 9, 11, 19, 21)
_USAGE = """
INSERT INTO usage_hours (tenant_id, hour, metric, value)
VALUES (gen_random_uuid(), $1, 'acks', 1)
"""
_AUDIT = """
INSERT INTO audit (tenant_id, id, at, actor, action, resource, request_id)
VALUES (gen_random_uuid(), gen_random_uuid(), $1, 'a', 'b', 'c', 'd')
"""


async def test_usage_and_audit_go_when_they_are_old(database: Database, database_url: str) -> None:
    now = datetime.now(UTC)
    connection: Any = await asyncpg.connect(database_url)
    scheduler = Scheduler(
        store=FakeStore(),
        database=database,
        feed=ChangeFeed(database),
        settings=SETTINGS,
        home=rendezvous.home,
        stored_limits=TenantLimit(STORED_BYTES, {STORED_BYTES: 0}),
    )

    async def ages_days() -> tuple[list[int], list[int]]:
        """Return the ages of the remaining rows: those of usage, and those of the audit log."""
        usage = await connection.fetch("SELECT hour FROM usage_hours ORDER BY 1 DESC")
        audit = await connection.fetch("SELECT at FROM audit ORDER BY 1 DESC")
        return [(now - at).days for (at,) in usage], [(now - at).days for (at,) in audit]

    try:
        for age_days in AGES_DAYS:
            at = now - timedelta(days=age_days)
            await connection.execute(_USAGE, at)
            await connection.execute(_AUDIT, at)
        await scheduler.start()
        async with asyncio.timeout(30):
            while await ages_days() != ([0, 9], [0, 9, 11, 19]):
                await asyncio.sleep(0.05)
    finally:
        await scheduler.close()
        await connection.close()
