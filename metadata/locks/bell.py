"""Notifications to this process about locks that became free."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from metadata.bell import Bell
from metadata.database import Database
from metadata.locks.waiters import CHANNEL


class LockBell(Bell):
    """`on_ring` gets the tenant and the name of each lock that may be free."""

    def __init__(
        self,
        database: Database,
        on_ring: Callable[[bytes, str], None],
        on_connect: Callable[[], None],
    ) -> None:
        super().__init__(database, CHANNEL, "packetboat-locks", on_connect)
        self._on_ring = on_ring

    def heard(self, payload: str) -> None:
        tenant, _, name = payload.partition(":")
        self._on_ring(uuid.UUID(tenant).bytes, name)
