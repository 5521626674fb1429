from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from metadata.database import Database
from metadata.settings import DatabaseSettings
from tests.integration.exports.export_support import Harbour

OpenHarbour = Callable[[], Awaitable[Harbour]]


@pytest.fixture
async def open_harbour(database_url: str) -> AsyncIterator[OpenHarbour]:
    """Opens what one process has, each with connections of its own."""
    async with AsyncExitStack() as stack:

        async def opened() -> Harbour:
            settings = DatabaseSettings(database_url, data_connections=4, deadline_s=30.0)
            database = Database(settings)
            await database.connect()
            stack.push_async_callback(database.close)
            return await Harbour.open(database)

        yield opened


@pytest.fixture
async def harbour(open_harbour: OpenHarbour) -> Harbour:
    return await open_harbour()
