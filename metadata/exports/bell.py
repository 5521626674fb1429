"""Notifications of exports: at a commit, every process hears of which lakes runs may be claimed.

They are sent when a run is queued, and when a run ends behind which others wait. A run that is
queued for a later time sends none when its time comes, so waiting claims also poll.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.bell import Bell
from metadata.database import Connection, Database

CHANNEL = "packetboat_exports"
_RING = "SELECT pg_notify($1, $2)"


async def ring(connection: Connection, lake: str) -> None:
    """Notify at the commit."""
    await connection.execute(_RING, CHANNEL, lake)


class ExportBell(Bell):
    """`on_runs` gets the lake."""

    def __init__(
        self, database: Database, on_runs: Callable[[str], None], on_connect: Callable[[], None]
    ) -> None:
        super().__init__(database, CHANNEL, "packetboat-exports", on_connect)
        self._on_runs = on_runs

    def heard(self, payload: str) -> None:
        """Handle the name of a lake."""
        self._on_runs(payload)
