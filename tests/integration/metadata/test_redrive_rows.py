"""The rows of redrives on a real Postgres: who leads no more writes none of them."""

from __future__ import annotations

import pytest

from metadata.database import Database
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.locks.locks import LockRepository
from metadata.subscriptions.redrives import RedriveRepository, RedriveSpec
from tests.integration.metadata.world import World


async def test_an_old_scheduler_neither_notes_nor_ends_a_redrive(database: Database) -> None:
    world = await World.open(database)
    subscription = await world.subscription(await world.topic())
    redrives, locks = RedriveRepository(database), LockRepository(database)
    redrive = await redrives.create(world.tenant_id, subscription.uid, RedriveSpec(), 3)
    old = await locks.take("scheduler", new_uid())
    assert old is not None
    await locks.release(old)
    new = await locks.take("scheduler", new_uid())
    assert new is not None
    with pytest.raises(LeaseLost):
        await redrives.progress(old, redrive, [], failed=2, detail="old")
    with pytest.raises(LeaseLost):
        await redrives.finish(old, redrive, "failed", "old")
    key = (world.tenant_id, subscription.uid, redrive.uid)
    assert await redrives.get(*key) == redrive
    assert await redrives.progress(new, redrive, [], failed=1, detail="new") == "running"
    await redrives.finish(new, redrive, "done", None)
    assert (await redrives.get(*key)).state == "done"
