"""Follows the changes that other processes commit, in commit order, within a second or two.

The counter row is polled each second; a notifier only shortens the wait, and each new connection of
it is a reason to poll. A poll that finds more than it can replay (rows are kept for an hour), or a
counter that went backwards, delivers one RESET instead. So does the first poll: caches may hold
what was read before it, as in a process that starts while Postgres is not used, and no poll tells
what changed since.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from metadata.changes import CHANNEL
from metadata.database import Connection, Database
from metadata.eras import POSITION, HistoryCheck, Position
from metadata.errors import MetadataError
from metadata.notifier import Notifier
from metadata.types import Change, ChangeKind

Listener = Callable[[Sequence[Change]], Awaitable[None]]
POLL_EVERY_S = 1.0
POLL_DEADLINE_S = 2.0
PRUNE_EVERY_S = 300.0
MAX_CHANGES = 1000
"""Read at a time; the next ones follow at once."""

_COUNTER = "SELECT version, pruned_to FROM change_counter WHERE id = 1"
_COUNTER_AND_POSITION = (
    "SELECT counter.version, counter.pruned_to, position.* FROM ("
    + _COUNTER
    + ") AS counter, ("
    + POSITION
    + ") AS position"
)
_CHANGES = """
SELECT version, kind, tenant_id, uid, name, topic_uid
FROM changes WHERE version > $1 ORDER BY version LIMIT $2
"""
_PRUNE = """
WITH counter AS MATERIALIZED (
    SELECT id FROM change_counter WHERE id = 1 FOR UPDATE
), gone AS (
    DELETE FROM changes WHERE committed_at < now() - interval '1 hour' RETURNING version
)
UPDATE change_counter
SET pruned_to = greatest(pruned_to, (SELECT max(version) FROM gone))
FROM counter
WHERE change_counter.id = counter.id AND EXISTS (SELECT FROM gone)
"""
_log = structlog.get_logger("packetboat.feed")


class ChangeFeed:
    """Reads the changes for one process; calls listeners one by one, in order of versions."""

    def __init__(
        self,
        database: Database,
        *,
        poll_every_s: float = POLL_EVERY_S,
        history: HistoryCheck | None = None,
    ) -> None:
        """`history` is told where Postgres is, by the polls."""
        self._database = database
        self._history = history
        self._poll_every_s = poll_every_s
        self._listeners: list[Listener] = []
        self._position: int | None = None
        self._fresh_at_s = -math.inf
        self._pruned_at_s = -math.inf
        self._polling = asyncio.Lock()
        self._wake = wake = asyncio.Event()
        self._notifier = Notifier(
            database, CHANNEL, "packetboat-feed", lambda _: wake.set(), wake.set
        )
        self._task: asyncio.Task[None] | None = None

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each batch of changes; if any listener raises, the batch
        comes again to all.
        """
        self._listeners.append(listener)

    async def start(self) -> None:
        """Starts the feed's own task; never fails because Postgres is down."""
        with contextlib.suppress(MetadataError):
            await self.catch_up()
        self._task = asyncio.create_task(self._run())

    async def catch_up(self) -> None:
        """Returns when all that was committed before the call has reached the listeners."""
        async with self._polling:
            while await self._poll():
                pass

    def fresh_at_s(self) -> float:
        """Return the monotonic time just before the last successful poll; -inf before the first."""
        return self._fresh_at_s

    def version(self) -> int | None:
        """Return the latest version up to which the listeners know all changes; None before
        the first poll.
        """
        return self._position

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._notifier.run())
            await self._follow()

    async def _follow(self) -> None:
        while True:
            # Cleared before the poll: what is notified during it is looked at right after.
            self._wake.clear()
            try:
                await self.catch_up()
                await self._prune()
            except MetadataError as error:
                _log.debug("the change feed can't reach Postgres", error=str(error))
            except Exception:
                # A listener's fault must not end the feed: the run of changes comes again.
                _log.exception("a listener of the change feed failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_every_s):
                    await self._wake.wait()

    async def _poll(self) -> bool:
        """Return whether there are more changes."""
        sent_s = time.monotonic()
        seen = self._position

        async def work(connection: Connection) -> tuple[int, int, list[Any]]:
            version, pruned_to = await self._look(connection)
            if seen is None or version <= seen or pruned_to > seen:
                return version, pruned_to, []
            return version, pruned_to, await connection.fetch(_CHANGES, seen, MAX_CHANGES)

        version, pruned_to, rows = await self._database.statement(
            work, writes=False, deadline_s=POLL_DEADLINE_S, always=True
        )
        if seen is None or version < seen or pruned_to > seen:
            await self._deliver([Change(version, ChangeKind.RESET, b"", b"", "")])
            self._position = version
        elif len(rows) == MAX_CHANGES:
            await self._deliver([_change(row) for row in rows])
            self._position = rows[-1]["version"]
            return True
        else:
            if rows:
                await self._deliver([_change(row) for row in rows])
                version = max(version, rows[-1]["version"])
            self._position = version
        self._fresh_at_s = sent_s
        return False

    async def _look(self, connection: Connection) -> tuple[int, int]:
        if self._history is None:
            version, pruned_to = await connection.fetchrow(_COUNTER)
        else:
            before = self._history.seen
            version, pruned_to, *position = await connection.fetchrow(_COUNTER_AND_POSITION)
            self._history.saw(Position(*position), before)
        return version, pruned_to

    async def _deliver(self, changes: Sequence[Change]) -> None:
        for listener in self._listeners:
            await listener(changes)

    async def _prune(self) -> None:
        now_s = time.monotonic()
        if now_s - self._pruned_at_s < PRUNE_EVERY_S:
            return

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE)

        await self._database.statement(work, writes=True)
        self._pruned_at_s = now_s


def _change(row: Any) -> Change:
    return Change(
        version=row["version"],
        kind=ChangeKind(row["kind"]),
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        name=row["name"],
        topic_uid=row["topic_uid"] or b"",
    )
