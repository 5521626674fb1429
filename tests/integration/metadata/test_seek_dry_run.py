"""A dry run of a seek, beside changes that are under way."""

from __future__ import annotations

import asyncio

from metadata import changes
from metadata.database import Connection
from metadata.subscriptions.seeks import SeekRepository, Target
from tests.integration.metadata.world import World


async def test_a_dry_run_waits_for_nobody_who_changes_something_else(world: World) -> None:
    """A dry run takes neither a turn of its tenant nor a version, whose one row every change holds
    until it has committed."""
    topic = await world.topic("t")
    subscription = await world.subscription(topic, "s")
    held, leave = asyncio.Event(), asyncio.Event()

    async def change(connection: Connection) -> None:
        await changes.take_version(connection)
        held.set()
        await leave.wait()

    changing = asyncio.create_task(
        changes.in_turn(world.database, world.tenant_id, change, deadline_s=30)
    )
    await held.wait()
    seeks = SeekRepository(world.database)
    tried = asyncio.create_task(
        seeks.seek(world.tenant_id, subscription.uid, {(0, 0): Target(0)}, dry_run=True)
    )
    await asyncio.wait({tried}, timeout=3)
    answered = tried.done() and tried.exception() is None
    leave.set()
    await asyncio.gather(changing, tried, return_exceptions=True)
    assert answered
