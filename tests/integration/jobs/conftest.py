from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from metadata.database import Database
from metadata.settings import DatabaseSettings
from metadata.tenancy.tenants import TenantRepository
from tests.integration.jobs.job_support import TENANT, Desk

OpenDesk = Callable[[], Awaitable[Desk]]


@pytest.fixture
async def open_desk(database_url: str) -> AsyncIterator[OpenDesk]:
    """Opens what one process has, each with connections of its own."""
    async with AsyncExitStack() as stack:

        async def opened() -> Desk:
            settings = DatabaseSettings(database_url, data_connections=4, deadline_s=30.0)
            database = Database(settings)
            await database.connect()
            stack.push_async_callback(database.close)
            await TenantRepository(database).ensure(TENANT, "jobs")
            return Desk(database)

        yield opened


@pytest.fixture
async def hasty(database_url: str) -> AsyncIterator[Database]:
    """Open a database whose statements Postgres ends after two seconds."""
    database = Database(DatabaseSettings(database_url, deadline_s=2.0))
    await database.connect()
    yield database
    await database.close()


@pytest.fixture
async def desk(open_desk: OpenDesk) -> Desk:
    return await open_desk()
