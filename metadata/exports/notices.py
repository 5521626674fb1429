"""Notifications of exports: at a commit, every process hears of which lakes runs may be claimed.

They are sent when a run is queued, and when a run ends behind which others wait. A run that is
queued for a later time sends none when its time comes, so waiting claims also poll.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.database import Connection, Database
from metadata.notifier import Notifier

CHANNEL = "packetboat_exports"
_NOTIFY = "SELECT pg_notify($1, $2)"


async def notify(connection: Connection, lake: str) -> None:
    """Notify at the commit."""
    await connection.execute(_NOTIFY, CHANNEL, lake)


def notifier(
    database: Database, on_runs: Callable[[str], None], on_connect: Callable[[], None]
) -> Notifier:
    """Return a notifier; `on_runs` gets the lake."""
    return Notifier(database, CHANNEL, "packetboat-exports", on_runs, on_connect)
