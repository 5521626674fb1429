"""The door to Postgres: two pools, deadlines, and errors that say what happened.

Every operation runs in a task of its own with a deadline, and its caller only waits for it: a
cancelled HTTP handler leaves the operation to end by itself, and no connection is lost half-way
through a protocol exchange. Nothing connects before it is needed and dead connections are replaced,
so a Postgres that was down is used again as soon as it is back.

    read(work), write(work)   SQLAlchemy session, one transaction: the control plane
    statement(work)           one raw asyncpg statement that commits itself: the hot paths
    transaction(work)         several raw statements, committed together

`write`, `statement` and `transaction` raise MetadataUnavailable when nothing was done and
OutcomeUnknown when the connection (or our patience) ended with the commit on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
from prometheus_client import Counter
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from metadata.errors import MetadataError, MetadataUnavailable, UnsafeServer
from metadata.outcome import translate
from metadata.settings import DatabaseSettings

T = TypeVar("T")
Connection = Any
"""An asyncpg connection (asyncpg's own types are generic over its pool proxy)."""

_FAILURES = Counter(
    "packetboat_metadata_failures_total", "Operations that ended in an error, by its code", ["code"]
)
_CLEAN_UP_S = 1.0


@dataclass(slots=True)
class _Attempt:
    """What is known of one operation's fate; `sent` once its commit may have left."""

    sent: bool = False


class _PoolConnection(asyncpg.Connection):  # type: ignore[misc,unused-ignore]
    """Sessions carry no state from one use to the next, so no round trip to reset it."""

    def get_reset_query(self) -> str:
        return ""


class Database:
    """One per process. `connect` starts nothing that can fail; `check` says whether it is up."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self._operations: set[asyncio.Task[Any]] = set()
        self._pool: Any = None
        self._engine: AsyncEngine | None = None
        self._sessions: async_sessionmaker[AsyncSession] | None = None

    @property
    def settings(self) -> DatabaseSettings:
        return self._settings

    async def connect(self) -> None:
        """Makes the pools; they connect on first use."""
        settings = self._settings
        self._pool = await asyncpg.create_pool(
            settings.url,
            min_size=0,
            max_size=settings.data_connections,
            max_queries=1_000_000_000,
            connection_class=_PoolConnection,
            init=_prepare_data_connection,
            **self._connect_arguments("packetboat-data"),
        )
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=lambda: self.dedicated("packetboat-control"),
            pool_size=settings.control_connections,
            max_overflow=0,
            pool_timeout=settings.connect_timeout_s,
            pool_pre_ping=True,
        )
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)

    async def close(self) -> None:
        """Waits for what is in flight (bounded by the deadline), then closes every connection."""
        if self._operations:
            await asyncio.wait(self._operations, timeout=self._settings.deadline_s)
        for operation in self._operations:
            operation.cancel()
        if self._pool is not None:
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()
        if self._engine is not None:
            await self._engine.dispose()

    async def check(self) -> None:
        """One round trip; MetadataUnavailable or UnsafeServer."""

        async def ask(connection: Connection) -> None:
            await connection.fetchval("SELECT 1")

        await self.statement(ask, writes=False, deadline_s=self._settings.connect_timeout_s)

    async def read(
        self, work: Callable[[AsyncSession], Awaitable[T]], *, deadline_s: float | None = None
    ) -> T:
        """`work` in a session whose transaction is rolled back at the end."""
        return await self._own(lambda _: self._in_session(work, None), deadline_s)

    async def write(
        self, work: Callable[[AsyncSession], Awaitable[T]], *, deadline_s: float | None = None
    ) -> T:
        """`work` in a session, then its commit."""
        return await self._own(lambda attempt: self._in_session(work, attempt), deadline_s)

    async def statement(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool,
        deadline_s: float | None = None,
    ) -> T:
        """`work` does one statement, which commits itself."""

        async def run(attempt: _Attempt) -> T:
            connection = await self._acquire()
            try:
                attempt.sent = writes
                return await work(connection)
            finally:
                await self._release(connection)

        return await self._own(run, deadline_s)

    async def transaction(
        self, work: Callable[[Connection], Awaitable[T]], *, deadline_s: float | None = None
    ) -> T:
        """`work` in a READ COMMITTED transaction, then its commit."""

        async def run(attempt: _Attempt) -> T:
            connection = await self._acquire()
            try:
                transaction = connection.transaction()
                await transaction.start()
                try:
                    result = await work(connection)
                except BaseException:
                    if not connection.is_closed():
                        await transaction.rollback()
                    raise
                attempt.sent = True
                await transaction.commit()
                return result
            finally:
                await self._release(connection)

        return await self._own(run, deadline_s)

    async def dedicated(self, application_name: str) -> Connection:
        """A connection outside the pools, for LISTEN; the caller closes it."""
        connection = await asyncpg.connect(
            self._settings.url, **self._connect_arguments(application_name)
        )
        await _refuse_unsafe(connection)
        return connection

    def _connect_arguments(self, application_name: str) -> dict[str, Any]:
        deadline_ms = str(int(self._settings.deadline_s * 1000))
        return {
            "timeout": self._settings.connect_timeout_s,
            "command_timeout": self._settings.deadline_s,
            "server_settings": {
                "application_name": application_name,
                "synchronous_commit": "on",
                "statement_timeout": deadline_ms,
                "idle_in_transaction_session_timeout": deadline_ms,
                "TimeZone": "UTC",
            },
        }

    async def _own(self, run: Callable[[_Attempt], Awaitable[T]], deadline_s: float | None) -> T:
        """Runs it as our own task; the caller's cancellation does not reach it."""
        if self._pool is None:
            raise MetadataUnavailable("not connected")
        if len(self._operations) >= self._settings.max_operations:
            raise MetadataUnavailable("too many operations are waiting for Postgres")
        deadline_s = self._settings.deadline_s if deadline_s is None else deadline_s
        attempt = _Attempt()
        operation = asyncio.create_task(_bounded(run, attempt, deadline_s))
        self._operations.add(operation)
        operation.add_done_callback(self._ended)
        try:
            # Cleaning up after the inner deadline may hang as well; nobody waits for that.
            async with asyncio.timeout(deadline_s + 0.1):
                return await asyncio.shield(operation)
        except Exception as error:
            meaning = translate(error, sent=attempt.sent)
            if isinstance(meaning, MetadataError):
                _FAILURES.labels(meaning.code).inc()
            if meaning is error:
                raise
            raise meaning from error

    def _ended(self, operation: asyncio.Task[Any]) -> None:
        self._operations.discard(operation)
        if not operation.cancelled():
            operation.exception()  # its caller may be gone; what it meant is lost with it

    async def _in_session(
        self, work: Callable[[AsyncSession], Awaitable[T]], attempt: _Attempt | None
    ) -> T:
        assert self._sessions is not None
        async with self._sessions() as session:
            result = await work(session)
            if attempt is not None:
                await session.flush()
                attempt.sent = True
                await session.commit()
            return result

    async def _acquire(self) -> Connection:
        return await self._pool.acquire(timeout=self._settings.connect_timeout_s)

    async def _release(self, connection: Connection) -> None:
        # One that can't be cleaned up has been closed by the pool; that is clean enough.
        with contextlib.suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
            await self._pool.release(connection, timeout=_CLEAN_UP_S)


async def _bounded(
    run: Callable[[_Attempt], Awaitable[T]], attempt: _Attempt, deadline_s: float
) -> T:
    async with asyncio.timeout(deadline_s):
        return await run(attempt)


async def _prepare_data_connection(connection: Connection) -> None:
    await _refuse_unsafe(connection)
    # Ids stay the 16 bytes they are, without a uuid.UUID around each.
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=_same, decoder=_same, format="binary"
    )


def _same(value: bytes) -> bytes:
    return value


async def _refuse_unsafe(connection: Connection) -> None:
    row = await connection.fetchrow(
        "SELECT current_setting('fsync') AS fsync,"
        " current_setting('full_page_writes') AS full_page_writes"
    )
    off = [name for name, value in row.items() if value != "on"]
    if off:
        await connection.close(timeout=_CLEAN_UP_S)
        raise UnsafeServer(f"the server runs with {' and '.join(off)} off; turn it on")
