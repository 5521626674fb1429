"""The bell of exports: at a commit, every process hears of which lakes runs may be claimed.

It is rung where a run is queued, and where one ends behind which others wait. Runs that are queued
for a later moment ring nothing then: who waits for a run looks now and then, too.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.bell import Bell
from metadata.database import Connection, Database

CHANNEL = "packetboat_exports"
_RING = "SELECT pg_notify($1, $2)"


async def ring(connection: Connection, lake: str) -> None:
    """At the commit."""
    await connection.execute(_RING, CHANNEL, lake)


class ExportBell(Bell):
    """`on_runs` gets the lake."""

    def __init__(
        self, database: Database, on_runs: Callable[[str], None], on_connect: Callable[[], None]
    ) -> None:
        super().__init__(database, CHANNEL, "packetboat-exports", on_connect)
        self._on_runs = on_runs

    def heard(self, payload: str) -> None:
        """A lake's name."""
        self._on_runs(payload)
