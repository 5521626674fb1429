"""Compares Postgres with the store for the life of a process, and repairs it where it went back.

The store keeps two counters in group 0: the era, and for that era a *witness*: how far Postgres'
log was. Each is read before Postgres is asked, so it can only be behind. The process that succeeds
in moving the witness goes on doing it, each second in which the log grew by much, else every ten
seconds; one whose try finds it moved has learned where it is, and tries again after a longer while.
So an idle installation writes it six times a minute, and a process that dies is replaced.

A backup younger than the last look, a second or with every process down ten, cannot be told from
the database itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import NoReturn

import asyncpg
import structlog
from prometheus_client import Counter, Gauge

from edge import failpoints
from gateway.recovery.rebuild import Rebuild, Report
from metadata import eras
from metadata.database import Connection, Database
from metadata.eras import HistoryCheck, Position
from metadata.errors import MetadataError
from metadata.lease import LEASE_S
from metadata.settings import DatabaseSettings
from store_nodes.client import StoreClient
from store_nodes.errors import Conflict, OutcomeUnknown, StoreError

GROUP = 0
ERA = "era"
USED = "era-used"
"""The newest era whose row may have been written."""
WITNESS = "wal-"
FAST_S = 1.0
FAST_BYTES = 64 * 1024
SLOW_S = 10.0
OTHERS_S = (10.0, 20.0)
"""Between tries of a process that is not the one that moves the witness."""
RETRY_S = 0.25
MAX_RETRY_S = 1.0
_AGAIN = (
    MetadataError,
    StoreError,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_log = structlog.get_logger("packetboat.recovery")
_ERA = Gauge("packetboat_postgres_era", "The era that this process has compared with the store.")
_RECOVERIES = Counter(
    "packetboat_postgres_recoveries_total", "Repairs of a Postgres that went back in time."
)


def witness(era: int) -> str:
    """Return the name of the counter for an era."""
    return f"{WITNESS}{era}"


class StoreBehind(StoreError):
    """Postgres is in an era that the store never began: it is not the store it was used with."""


class EraKeeper:
    """One per process. `history` keeps the process off Postgres until this has confirmed it."""

    def __init__(
        self, settings: DatabaseSettings, store: StoreClient, history: HistoryCheck
    ) -> None:
        self._settings = settings
        self._store = store
        self._history = history
        self._compared = asyncio.Event()
        self._failure = ""
        """The reason why the last comparison failed."""
        self._rebuild_now: Rebuild | None = None
        self._moved_to = 0
        """The witness as this process knows it."""
        self._tried: set[int] = set()
        """Values that the witness may have by tries of this process whose outcome was not told."""

    async def run(self) -> None:
        """Compare until cancelled."""
        failures = 0
        while True:
            try:
                pause_s = await self._turn()
                self._failure, failures = "", 0
            except _AGAIN as error:
                self._put_off(error)
                pause_s = min(MAX_RETRY_S, RETRY_S * 2**failures)
                failures = min(failures + 1, 10)
            except Exception:
                _log.exception("the comparison of Postgres with the store failed")
                pause_s, failures = MAX_RETRY_S, 1
            if failures or self._history.suspicion is not None:
                await asyncio.sleep(pause_s)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._history.doubted.wait()

    async def until_compared(self, timeout_s: float) -> None:
        """Return once Postgres may be used, or after `timeout_s`; a caller that starts then
        has to wait.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._compared.wait()

    def not_ready_reason(self) -> str | None:
        reason = self._history.suspicion
        if reason is None:
            return None
        if self._rebuild_now is not None:
            return f"{reason}; {self._rebuild_now.progress}"
        return f"{reason}; {self._failure}" if self._failure else reason

    def never_compared_reason(self) -> str | None:
        """Return why a process that only publishes is not ready: one comparison is enough
        for it.
        """
        return None if self._compared.is_set() else self.not_ready_reason()

    def _put_off(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}"
        (_log.debug if text == self._failure else _log.info)("comparison put off", error=text)
        self._failure = text

    async def _turn(self) -> float:
        """Take one turn; return the seconds until the next."""
        history = self._history
        if history.suspicion is not None or history.doubted.is_set() or history.seen is None:
            await self._compare()
        return await self._move_witness()

    async def _compare(self) -> None:
        """Confirm the era, or repair. Raises where it must be tried again."""
        async with self._connection() as connection:
            store_era, reason, now = await self._judge(connection)
            if reason is None:
                self._confirm(now)
                return
            _log.warning("Postgres went back in time", reason=reason)
            if not await eras.alone(connection):
                await asyncio.sleep(RETRY_S)
                return
            store_era, reason, now = await self._judge(connection)
            if reason is not None:
                now = await self._repair(connection, store_era, reason)
            self._confirm(now)

    async def _judge(self, connection: Connection) -> tuple[int, str | None, Position]:
        """Return (the store's era, the reason why Postgres is behind or None, its position)."""
        store_era = await self._store.counter(GROUP, ERA)
        seen_by_store = await self._store.counter(GROUP, witness(store_era))
        before = self._history.seen
        now = await eras.observe(connection)
        if (now.era or 0) > store_era:
            raise StoreBehind(f"the store is in era {store_era}, and Postgres in {now.era}")
        reason = eras.behind_store(now, store_era, seen_by_store)
        if reason is None:
            reason = eras.went_back(before, now)
        reason = self._history.lacks(now, reason)
        if reason is None and now.era is None:
            await eras.begin_first(connection, now)
            now = await eras.observe(connection)
        self._moved_to = seen_by_store
        return store_era, reason, now

    async def _repair(self, connection: Connection, store_era: int, reason: str) -> Position:
        """Raise the store's era, then rebuild and write the row of the new era.

        The store's era comes first: until the row is there, nobody trusts Postgres, and the next
        process begins this anew; with the same era, if no process has come as far as its row.
        """
        used = await self._store.counter(GROUP, USED)
        era = store_era
        if used >= store_era:
            era = await self._store.compare_and_set(GROUP, ERA, store_era, store_era + 1)
        failpoints.reach("recovery.raised")
        _log.warning("repairing Postgres from the store", era=era, reason=reason)
        over_s = time.monotonic() + LEASE_S
        report = await self._rebuild(connection)
        failpoints.reach("recovery.rebuilt")
        # Processes that have not noticed yet hold leases of the lost future by their own clocks.
        await asyncio.sleep(over_s - time.monotonic())
        await self._store.compare_and_set(GROUP, USED, used, era)
        failpoints.reach("recovery.used")
        now = await eras.enter(connection, era, reason, report.lifts)
        failpoints.reach("recovery.entered")
        self._moved_to = 0
        _RECOVERIES.inc()
        _tell(era, reason, report)
        await self._forget_witness(store_era if era > store_era else store_era - 1)
        return now

    async def _rebuild(self, connection: Connection) -> Report:
        """Brings Postgres up to what the store has, while `connection` has the turn. The statements
        go over connections of their own, and all of them end as soon as the turn is lost, however
        long a statement may take."""
        settings = replace(self._settings, deadline_s=eras.REPAIR_STATEMENT_S)
        database = Database(settings, partial(eras.help_repair, connection.get_server_pid()))
        await database.connect()
        self._rebuild_now = Rebuild(database, self._store)
        repair = asyncio.create_task(self._rebuild_now.run())
        awake = asyncio.create_task(_keep_awake(connection))
        try:
            await asyncio.wait((repair, awake), return_when=asyncio.FIRST_COMPLETED)
            return repair.result() if repair.done() else awake.result()
        finally:
            self._rebuild_now = None
            repair.cancel()
            awake.cancel()
            await asyncio.gather(repair, awake, return_exceptions=True)
            # A statement that is still out is of a repair that ended: nobody waits for it.
            await database.close(wait_s=0)

    async def _forget_witness(self, era: int) -> None:
        """Forget the witness of an era that is over; there is not much room for them."""
        with contextlib.suppress(StoreError):
            old = await self._store.counter(GROUP, witness(era))
            await self._store.compare_and_set(GROUP, witness(era), old, 0)

    def _confirm(self, now: Position) -> None:
        self._history.confirm(now)
        self._compared.set()
        _ERA.set(now.era or 0)

    async def _move_witness(self) -> float:
        seen = self._history.seen
        if self._history.suspicion is not None or seen is None:
            return RETRY_S
        grown = seen.wal_bytes - self._moved_to
        if grown <= 0:
            return SLOW_S
        name = witness(seen.era or 0)
        try:
            await self._store.compare_and_set(GROUP, name, self._moved_to, seen.wal_bytes)
        except Conflict as conflict:
            if conflict.current < self._moved_to:
                self._history.doubted.set()  # another era began
                return RETRY_S
            ours, self._moved_to = conflict.current in self._tried, conflict.current
            self._tried.clear()
            return RETRY_S if ours else random.uniform(*OTHERS_S)
        except OutcomeUnknown:
            self._tried.add(seen.wal_bytes)
            raise
        self._tried.clear()
        self._moved_to = seen.wal_bytes
        return FAST_S if grown > FAST_BYTES else SLOW_S

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Yield a connection that is not refused while the process keeps off Postgres."""
        database = Database(self._settings)
        connection = await database.dedicated("packetboat-era")
        try:
            yield connection
        finally:
            connection.terminate()


async def _keep_awake(connection: Connection) -> NoReturn:
    """Else the server ends the connection, and with it our turn. Raises once it does not answer,
    within the usual deadline."""
    while True:
        await asyncio.sleep(eras.REPAIR_IDLE_S / 10)
        await connection.execute("SELECT 1")


def _tell(era: int, reason: str, report: Report) -> None:
    _log.warning(
        "Postgres is in a new era",
        era=era,
        reason=reason,
        topics_finished=report.finished,
        topics_deleted=report.deleted,
        placements=report.placements,
        trimmed=len(report.lifts),
        kept=report.kept,
        orphans=report.orphans,
    )
    for damage in report.damaged:
        _log.error("the store lacks what Postgres knows", what=damage)
