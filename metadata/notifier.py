"""A connection to Postgres that only listens for notifications of other processes' commits.

Without a connection, a notification is missed, and its reader waits until its next poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from metadata.database import Connection, Database
from metadata.errors import MetadataError

CONNECT_AGAIN_S = 1.0
_FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    MetadataError,
)
_log = structlog.get_logger("packetboat.notifier")


class Notifier:
    """Listen to one channel.

    `name` names the connection in Postgres. `heard` gets the payload of each notification, and
    `on_connect` is called whenever some may have been missed until now.
    """

    def __init__(
        self,
        database: Database,
        channel: str,
        name: str,
        heard: Callable[[str], None],
        on_connect: Callable[[], None],
    ) -> None:
        self._database = database
        self._channel = channel
        self._name = name
        self._heard = heard
        self._on_connect = on_connect
        self.listening = False
        """Whether no notification goes unheard now."""

    async def run(self) -> None:
        """Listen for ever; while Postgres is down, try to connect each second."""
        while True:
            try:
                await self._listen()
            except _FAILURES as error:
                _log.debug("nothing is heard", connection=self._name, error=str(error))
            except Exception:
                # It must not end its owner, who looks without notifications, too.
                _log.exception("a notifier failed", connection=self._name)
            await asyncio.sleep(CONNECT_AGAIN_S)

    async def _listen(self) -> None:
        """Listen until the connection ends."""
        connection = await self._database.dedicated(self._name)
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(self._channel, self._notified)
            self.listening = True
            self._on_connect()
            await ended.wait()
        finally:
            self.listening = False
            connection.terminate()

    def _notified(self, _: Connection, pid: int, channel: str, payload: str) -> None:
        self._heard(payload)
