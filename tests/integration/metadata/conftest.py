from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from metadata.database import Database
from tests.integration.metadata.world import World


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    """Yield the repositories over a fresh database with one tenant."""
    world = await World.open(database)
    yield world
    await world.feed.close()
