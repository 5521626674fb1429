from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from metadata.database import Database
from metadata.settings import DatabaseSettings
from tests.integration.locks.lock_support import Process

OpenProcess = Callable[[], Awaitable[Process]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let locks wait for long: these tests ask which client gets a lock, not how soon.

    Beside other work, a statement may take long.
    """
    monkeypatch.setattr("metadata.locks.locks.RENEW_DEADLINE_S", 20.0)
    monkeypatch.setattr("metadata.locks.waiters.RENEW_DEADLINE_S", 20.0)


@pytest.fixture
async def open_process(database_url: str) -> AsyncIterator[OpenProcess]:
    """Opens what one gateway process has, each with connections of its own."""
    async with AsyncExitStack() as stack:

        async def opened() -> Process:
            database = Database(DatabaseSettings(database_url, data_connections=4))
            await database.connect()
            stack.push_async_callback(database.close)
            process = Process(database)
            stack.push_async_callback(process.close)
            return process

        yield opened
        await asyncio.sleep(0)
