"""The change feed: what other processes committed, in commit order, within a second or two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from metadata.database import Database
from metadata.types import Change

Listener = Callable[[Sequence[Change]], Awaitable[None]]
POLL_EVERY_S = 1.0


class ChangeFeed:
    """Polls the counter row each second; NOTIFY only shortens the wait."""

    def __init__(self, database: Database, *, poll_every_s: float = POLL_EVERY_S) -> None:
        self._database = database

    def add_listener(self, listener: Listener) -> None:
        """Called with each run of changes in order; if it raises, the same run comes again."""
        raise NotImplementedError

    async def start(self) -> None:
        """Starts the feed's own task; never fails because Postgres is down."""
        raise NotImplementedError

    async def catch_up(self) -> None:
        """Returns when all that was committed before the call has reached the listeners."""
        raise NotImplementedError

    def fresh_at_s(self) -> float:
        """time.monotonic() before the last poll that worked was sent; -inf before the first."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
