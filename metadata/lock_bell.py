"""What this process hears of locks that became free: a connection of its own that listens."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import asyncpg
import structlog

from metadata.database import Connection, Database
from metadata.errors import MetadataError
from metadata.lock_waiters import CHANNEL

CONNECT_AGAIN_S = 1.0
_FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    MetadataError,
)
_log = structlog.get_logger("packetboat.locks")


class LockBell:
    """`on_ring` gets the tenant and the name of each lock that may be free; `on_connect` is called
    whenever rings may have been missed until now."""

    def __init__(
        self,
        database: Database,
        on_ring: Callable[[bytes, str], None],
        on_connect: Callable[[], None],
    ) -> None:
        self._database = database
        self._on_ring = on_ring
        self._on_connect = on_connect
        self.listening = False
        """Nothing that rings now goes unheard."""

    async def run(self) -> None:
        """For ever; while Postgres is down it tries again each second."""
        while True:
            try:
                await self._listen()
            except _FAILURES as error:
                _log.debug("nothing is heard of locks", error=str(error))
            await asyncio.sleep(CONNECT_AGAIN_S)

    async def _listen(self) -> None:
        """Until the connection ends."""
        connection = await self._database.dedicated("packetboat-locks")
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(CHANNEL, self._heard)
            self.listening = True
            self._on_connect()
            await ended.wait()
        finally:
            self.listening = False
            connection.terminate()

    def _heard(self, _: Connection, pid: int, channel: str, payload: str) -> None:
        tenant, _, name = payload.partition(":")
        self._on_ring(uuid.UUID(tenant).bytes, name)
