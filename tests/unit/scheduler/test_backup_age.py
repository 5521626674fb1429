"""The metric for the alert on old backups."""

from __future__ import annotations

import asyncio

from prometheus_client import REGISTRY

from scheduler.backup_age import BackupAge
from store_nodes.backup.counter import COUNTER, GROUP
from tests.unit.scheduler.scheduler_support import FakeStore


def told() -> float | None:
    return REGISTRY.get_sample_value("packetboat_backup_last_success_timestamp_seconds")


async def test_who_leads_tells_when_the_newest_backup_was_begun() -> None:
    store = FakeStore()
    store.machines[GROUP].counters[COUNTER] = 1_700_000_000
    age = asyncio.create_task(BackupAge(store, 1.0).run())
    async with asyncio.timeout(10):
        while told() != 1_700_000_000:
            await asyncio.sleep(0)
    age.cancel()
    await asyncio.gather(age, return_exceptions=True)
    assert told() == 0.0, "of a process that does not lead"
