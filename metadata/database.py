"""Calls Postgres: two pools, two roles, deadlines, and errors that say what happened.

Every operation runs in a task of its own with a deadline, and its caller only waits for it: a
cancelled HTTP handler leaves the operation to end by itself, and no connection is lost half-way
through a protocol exchange. Nothing connects before it is needed and dead connections are replaced,
so a Postgres that was down is used again as soon as it is back.

    of(tenant_id)  that tenant's rows and no others, whatever the statement says: row-level security
    platform       rows of all tenants

        read(work), write(work)   SQLAlchemy session, one transaction: the control plane
        statement(work)           one raw asyncpg statement: of the platform it commits itself
        transaction(work)         several raw statements, committed together

`write`, `statement` and `transaction` raise MetadataUnavailable when nothing was done and
OutcomeUnknown when the connection (or our patience) ended with the commit on its way.

Every connection is the platform's role from its first moment on. A tenant's transaction becomes the
tenant's role, and names the tenant, in the round trip of its BEGIN, for as long as it lasts: at its
end both are gone, so a connection carries nothing from one use to the next.

`Database.statement` and `Database.transaction` are the platform's. A tenant's statement costs three
round trips instead of one, so what is asked for all the time stays there, and so does what is done
for many tenants at once. These modules may call them (tests/tidy/test_row_security.py):

    delivery/ack_history: trim; over all tenants
    tenancy/api_keys: touch; many tenants' keys at once
    tenancy/audit: finish; a tenant changes no rows of it
    delivery/assignments: claim, claimable, release, split, merge; hot, units of many tenants
    tenancy/clients: touch; many tenants' clients at once
    delivery/cursors: flush, _flush_and_publish, load, _balances; hot, cursors of many tenants
    postgres/database_schema: check; what the schema says of itself
    subscriptions/dead_letters: undelivered, prune; over all tenants
    delivery/due: progress, due_until, write, forget, forget_orphans; the scheduler's
    exports/leases: claim, claimable; runners', over all tenants
    exports/pins: _missing; over all tenants
    exports/sweep: due, expired, prune, load, lanes, note_ends; over all tenants
    exports/ticks: due; over all tenants
    feed: _poll, _prune; the feed of all tenants
    delivery/fleet: live, owned, names; forwarders and what they own, of all tenants
    delivery/forwarded: record, find, forget, forget_topics; on the way of each message
    delivery/hints: all, listing, replace, prune; the scheduler's, over all tenants
    jobs/claims: claimable, ended; for all who wait in a process, of many tenants
    jobs/sweep: due, expired, prune, behind; over all tenants
    delivery/leases: register, renew, leave, release, live; forwarders, of no tenant
    locks/fenced: statement, transaction; what a repository asks for, after a check of the lock
    locks/catalog: sweep, _sweep; over all tenants
    locks/waiters: join, renew, leave, sweep; hot, and renewed for many tenants at once
    locks/locks: _acquire, _make, _renew, _release; hot, and the platform's own
    topics/placements: collectable; over all tenants
    delivery/publications: open, with_some, left, abort, states_of, _drop; acks of many tenants
    subscriptions/push_attempts: append, trim, prune; a log of many tenants, in batches
    subscriptions/push_endpoints: load, failing, well; of many tenants, by who pushes
    tenancy/quota_demands: tell, leave, prune; of many tenants, by who serves them
    subscriptions/redrives: unfinished, letters, progress, finish, prune; the scheduler's
    topics/retention: topics, holds, floors, trim, note_usage; over all tenants
    topics/schedules: due, _all; the scheduler's, over all tenants
    subscriptions/snapshots: sweep; over all tenants
    tenancy/usage_reports: add, prune; a report counts many tenants
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
from prometheus_client import Counter
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from edge.shares import Shares
from metadata import committed
from metadata.connection_shares import Attempt, ConnectionShares
from metadata.errors import MetadataError, MetadataUnavailable, UnsafeServer
from metadata.guard import DatabaseGuard
from metadata.outcome import answered, translate
from metadata.postgres.role_names import PLATFORM_ROLE, TENANT_ROLE, TENANT_SETTING
from metadata.settings import DatabaseSettings

T = TypeVar("T")
Connection = Any
"""An asyncpg connection (asyncpg's own types are generic over its pool proxy)."""

_FAILURES = Counter(
    "packetboat_metadata_failures_total", "Operations that ended in an error, by its code", ["code"]
)
_CLEAN_UP_S = 1.0
_UNCLEAN = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresError)
"""Errors of a rollback or a release on a connection that is lost or does not answer."""
_FIRST_QUESTION = """
SELECT fsync, full_page_writes,
    CASE WHEN fsync = 'on' AND full_page_writes = 'on' THEN set_config('role', $1, false) END
FROM (
    SELECT current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes
) AS server
"""
_PLATFORM = f"SET LOCAL ROLE {PLATFORM_ROLE};"


class _Connection(asyncpg.Connection):  # type: ignore[misc,unused-ignore]
    """One whose transactions begin in a role, once it is told in which."""

    begins_with = ""
    """Sent with each BEGIN, and undone by the end of what that begins."""

    def become(self, statements: str) -> None:
        """Begin the next transactions with these statements."""
        self.begins_with = statements

    def get_reset_query(self) -> str:
        """Sessions carry no state from one use to the next, so no round trip to reset it."""
        return ""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """asyncpg begins its transactions with this."""
        if not self.begins_with or not query.startswith("BEGIN"):
            status: str = await super().execute(query, *args, timeout=timeout)
            return status
        try:
            status = await super().execute(query + self.begins_with, timeout=timeout)
        except BaseException:
            self.terminate()  # it may have begun, in another role
            raise
        return status


class Sessions:
    """Transactions of the control plane, in one role."""

    def __init__(self, database: Database, becoming: str, tenant_id: bytes | None = None) -> None:
        """`tenant_id` says whose operations these are; without one they are the platform's."""
        self._database = database
        self._becoming = becoming
        self._tenant_id = tenant_id

    async def read(
        self, work: Callable[[AsyncSession], Awaitable[T]], *, deadline_s: float | None = None
    ) -> T:
        """Run `work` in a session whose transaction is rolled back at the end."""
        return await self._database.session(
            work, self._becoming, False, deadline_s, self._tenant_id
        )

    async def write(
        self, work: Callable[[AsyncSession], Awaitable[T]], *, deadline_s: float | None = None
    ) -> T:
        """Run `work` in a session, then commit it."""
        return await self._database.session(work, self._becoming, True, deadline_s, self._tenant_id)


class TenantSessions(Sessions):
    """Transactions of the control plane and raw statements, in the role of one tenant."""

    async def statement(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool,
        deadline_s: float | None = None,
    ) -> T:
        """`work` does one statement, in a transaction of its own: three round trips."""
        return await self._database.transaction(
            work,
            writes=writes,
            deadline_s=deadline_s,
            becoming=self._becoming,
            tenant_id=self._tenant_id,
        )

    async def transaction(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        begins_with: str = "",
        deadline_s: float | None = None,
    ) -> T:
        """Run `work` in a READ COMMITTED transaction, then commit it.

        `begins_with`: statements that are sent with its BEGIN, in the tenant's role.
        """
        return await self._database.transaction(
            work,
            deadline_s=deadline_s,
            becoming=self._becoming + begins_with,
            tenant_id=self._tenant_id,
        )


class Database:
    """Holds the pools of one process; `connect` cannot fail, `check` says if Postgres is up."""

    def __init__(
        self,
        settings: DatabaseSettings,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
        guard: DatabaseGuard | None = None,
    ) -> None:
        """`greet` is asked of every new connection, and refuses it by raising a MetadataError.
        `guard` refuses operations while Postgres does not answer, but those made `always`: they are
        how it becomes known that it does again."""
        self._settings = settings
        self._greet = greet
        self._guard = guard
        self._operations: set[asyncio.Task[Any]] = set()
        self._of_platform = 0
        self._of_tenants = Shares(settings.max_operations, name="postgres_operations")
        wait_s = settings.connect_timeout_s
        self._data_shares = ConnectionShares(settings.data_connections, wait_s)
        self._control_shares = ConnectionShares(settings.control_connections, wait_s)
        self._pool: Any = None
        self._kept: Connection | None = None
        """A clean connection of the data pool that the next operation uses."""
        self._acquiring = 0
        """The number of operations that wait for the data pool."""
        self._closing = False
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
            init=self._prepare_data_connection,
            **self._connect_arguments("packetboat-data"),
        )
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            # A session that nobody gave a role sees no rows.
            async_creator=lambda: self.dedicated("packetboat-control", TENANT_ROLE),
            pool_size=settings.control_connections,
            max_overflow=0,
            pool_timeout=settings.connect_timeout_s,
        )
        event.listen(self._engine.sync_engine, "checkout", _refuse_lost)
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)

    def of(self, tenant_id: bytes) -> TenantSessions:
        """Sees and changes that tenant's rows only. The id is 16 bytes."""
        return TenantSessions(self, _tenant(UUID(bytes=tenant_id)), tenant_id)

    @property
    def platform(self) -> Sessions:
        """Sees all tenants: for what the platform does by itself, never for a tenant's request."""
        return Sessions(self, _PLATFORM)

    async def close(self, wait_s: float | None = None) -> None:
        """Wait that long for the operations in flight (for the deadline, unless told), then close
        every connection."""
        self._closing = True
        if self._operations:
            wait_s = self._settings.deadline_s if wait_s is None else wait_s
            await asyncio.wait(self._operations, timeout=wait_s)
        for operation in self._operations:
            operation.cancel()
        if self._pool is not None:
            kept, self._kept = self._kept, None
            if kept is not None:
                await self._release(kept)
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()
        if self._engine is not None:
            await self._engine.dispose()

    async def check(self) -> None:
        """Make one round trip; raise MetadataUnavailable or UnsafeServer."""

        async def ask(connection: Connection) -> None:
            await connection.fetchval("SELECT 1")

        await self.statement(
            ask, writes=False, deadline_s=self._settings.connect_timeout_s, always=True
        )

    async def session(
        self,
        work: Callable[[AsyncSession], Awaitable[T]],
        becoming: str,
        writes: bool,
        deadline_s: float | None,
        tenant_id: bytes | None = None,
    ) -> T:
        """Run `work` for `Sessions`, which say how its transaction begins and whose it is."""

        async def run(attempt: Attempt) -> T:
            async with self._control_shares.turn(tenant_id, attempt):
                return await self._in_session(work, becoming, attempt if writes else None)

        return await self._own(run, deadline_s, tenant_id=tenant_id)

    async def statement(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool,
        deadline_s: float | None = None,
        always: bool = False,
        tenant_id: bytes | None = None,
    ) -> T:
        """`work` does one statement, which commits itself, as the platform. `tenant_id`: who asked
        for it, so that it takes that tenant's turn at a connection."""

        async def run(attempt: Attempt) -> T:
            async def send(connection: Connection) -> T:
                attempt.sent = writes
                return await work(connection)

            return await self._with_connection(send, tenant_id, attempt)

        return await self._own(run, deadline_s, always=always, tenant_id=tenant_id)

    async def transaction(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool = True,
        deadline_s: float | None = None,
        becoming: str = "",
        tenant_id: bytes | None = None,
    ) -> T:
        """Run `work` in a READ COMMITTED transaction, then commit it; as the platform, unless it is
        `becoming` another. `tenant_id`: as for `statement`."""

        async def run(attempt: Attempt) -> T:
            async def commit(connection: Connection) -> T:
                connection.become(becoming)
                transaction = connection.transaction()
                await transaction.start()
                connection.become("")
                try:
                    result = await work(connection)
                except BaseException:
                    await _undo(connection, transaction)
                    raise
                attempt.sent = writes
                await transaction.commit()
                return result

            return await self._with_connection(commit, tenant_id, attempt)

        return await self._own(run, deadline_s, tenant_id=tenant_id)

    async def dedicated(self, application_name: str, role: str = PLATFORM_ROLE) -> Connection:
        """Open a connection outside the pools, for LISTEN; the caller closes it."""
        connection = await asyncpg.connect(
            self._settings.url, **self._connect_arguments(application_name)
        )
        await self._admit(connection, role)
        return connection

    async def _prepare_data_connection(self, connection: Connection) -> None:
        await self._admit(connection, PLATFORM_ROLE)
        # Ids stay the 16 bytes they are, without a uuid.UUID around each.
        await connection.set_type_codec(
            "uuid", schema="pg_catalog", encoder=_same, decoder=_same, format="binary"
        )

    async def _admit(self, connection: Connection, role: str) -> None:
        await _begin_session(connection, role)
        if self._greet is not None:
            try:
                await self._greet(connection)
            except BaseException:
                await connection.close(timeout=_CLEAN_UP_S)
                raise

    def _connect_arguments(self, application_name: str) -> dict[str, Any]:
        deadline_ms = str(int(self._settings.deadline_s * 1000))
        return {
            "timeout": self._settings.connect_timeout_s,
            "command_timeout": self._settings.deadline_s,
            "connection_class": _Connection,
            "server_settings": {
                "application_name": application_name,
                "synchronous_commit": "on",
                "statement_timeout": deadline_ms,
                "idle_in_transaction_session_timeout": deadline_ms,
                "TimeZone": "UTC",
            },
        }

    async def _own(
        self,
        run: Callable[[Attempt], Awaitable[T]],
        deadline_s: float | None,
        *,
        always: bool = False,
        tenant_id: bytes | None = None,
    ) -> T:
        """Runs it as our own task; the caller's cancellation does not reach it."""
        if self._pool is None:
            raise MetadataUnavailable("not connected")
        deadline_s = self._settings.deadline_s if deadline_s is None else deadline_s
        self._count(tenant_id)
        try:
            passage = self._guard.enter(always=always) if self._guard is not None else 0
        except BaseException:
            self._uncount(tenant_id)
            raise
        attempt = Attempt()
        operation = asyncio.create_task(_bounded(run, attempt, deadline_s))
        self._operations.add(operation)
        if self._guard is not None:
            operation.add_done_callback(partial(_leave, self._guard, passage, attempt))
        operation.add_done_callback(partial(self._ended, tenant_id))
        # Cleaning up after the inner deadline may hang as well; nobody waits for that.
        done, _ = await asyncio.wait((operation,), timeout=deadline_s + 0.1)
        try:
            if not done:
                raise TimeoutError
            result = operation.result()
        except Exception as error:
            meaning = translate(error, sent=attempt.sent)
            if isinstance(meaning, MetadataError):
                _FAILURES.labels(meaning.code).inc()
            if meaning is error:
                raise
            raise meaning from error
        if attempt.sent:
            committed.note()
        return result

    def _count(self, tenant_id: bytes | None) -> None:
        """Count one more operation of the tenant, or of the platform, whose bound is its own.
        Raise MetadataUnavailable where there are as many as may be."""
        if tenant_id is None:
            full = self._of_platform >= self._settings.max_operations
            self._of_platform += not full
        else:
            full = self._of_tenants.take(tenant_id) is not None
        if full:
            raise MetadataUnavailable("too many operations are waiting for Postgres")

    def _uncount(self, tenant_id: bytes | None) -> None:
        if tenant_id is None:
            self._of_platform -= 1
        else:
            self._of_tenants.release(tenant_id)

    def _ended(self, tenant_id: bytes | None, operation: asyncio.Task[Any]) -> None:
        self._operations.discard(operation)
        self._uncount(tenant_id)
        if not operation.cancelled():
            operation.exception()  # its caller may be gone, and then nobody else looks at the error

    async def _in_session(
        self,
        work: Callable[[AsyncSession], Awaitable[T]],
        becoming: str,
        attempt: Attempt | None,
    ) -> T:
        assert self._engine is not None
        assert self._sessions is not None
        async with self._engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert isinstance(driver, _Connection)
            driver.become(becoming)
            try:
                # On this connection alone: after a rollback within it has the same role again.
                async with self._sessions(bind=connection) as session:
                    result = await work(session)
                    if attempt is not None:
                        await session.flush()
                        attempt.sent = True
                        await session.commit()
                    return result
            finally:
                driver.become("")

    async def _with_connection(
        self, use: Callable[[Connection], Awaitable[T]], tenant_id: bytes | None, attempt: Attempt
    ) -> T:
        """Use a connection of the data pool, once it is the tenant's turn."""
        if tenant_id is None:
            return await self._with_free_connection(use)
        async with self._data_shares.turn(tenant_id, attempt):
            return await self._with_free_connection(use)

    async def _with_free_connection(self, use: Callable[[Connection], Awaitable[T]]) -> T:
        """Use the kept connection, or one of the pool; keep it afterwards if it is clean.

        Most statements come one by one. Each would cost the pool's way in and out, which takes
        longer than the statement, and would go to another of the backends in turn.
        """
        connection, self._kept = self._kept, None
        if connection is None or _is_lost(connection):
            self._acquiring += 1
            try:
                connection = await self._pool.acquire(timeout=self._settings.connect_timeout_s)
            finally:
                self._acquiring -= 1
        try:
            result = await use(connection)
        except BaseException:
            await self._release(connection)
            raise
        if self._kept is None and not self._acquiring and not self._closing:
            self._kept = connection
        else:
            await self._release(connection)
        return result

    async def _release(self, connection: Connection) -> None:
        # One that can't be cleaned up has been closed by the pool; that is clean enough.
        with contextlib.suppress(*_UNCLEAN):
            await self._pool.release(connection, timeout=_CLEAN_UP_S)


def _is_lost(connection: Connection) -> bool:
    """Return whether a connection of the pool is lost; the pool has taken it back then."""
    try:
        lost: bool = connection.is_closed()
    except asyncpg.InterfaceError:
        return True
    return lost


def _refuse_lost(connection: Any, *_: object) -> None:
    """Have the pool replace a connection that is known to be lost, without a round trip to ask."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _tenant(tenant_id: UUID) -> str:
    # BEGIN takes no parameters; a UUID's text is hexadecimal digits and hyphens.
    return f"SET LOCAL ROLE {TENANT_ROLE}; SET LOCAL {TENANT_SETTING} = '{tenant_id}';"


async def _undo(connection: Connection, transaction: Any) -> None:
    """Roll back, or else close the connection: the error to be told is the one that led here. A
    lost connection that is back in its pool already refuses every call."""
    try:
        async with asyncio.timeout(_CLEAN_UP_S):
            await transaction.rollback()
    except _UNCLEAN:
        with contextlib.suppress(asyncpg.InterfaceError):
            connection.terminate()


def _leave(
    guard: DatabaseGuard, passage: int, attempt: Attempt, operation: asyncio.Task[Any]
) -> None:
    if operation.cancelled() or attempt.waits_for_turn:
        guard.gave_up(passage)
    else:
        guard.left(passage, answered=answered(operation.exception()))


async def _bounded(
    run: Callable[[Attempt], Awaitable[T]], attempt: Attempt, deadline_s: float
) -> T:
    async with asyncio.timeout(deadline_s):
        return await run(attempt)


def _same(value: bytes) -> bytes:
    return value


async def _begin_session(connection: Connection, role: str) -> None:
    """Take that role, on a server that keeps its commits; else close the connection and raise."""
    try:
        row = await connection.fetchrow(_FIRST_QUESTION, role)
    except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
        await connection.close(timeout=_CLEAN_UP_S)
        raise MetadataUnavailable(
            f"the login can't become {role} ({error}): run `packetboat migrate` with it"
        ) from error
    off = [name for name in ("fsync", "full_page_writes") if row[name] != "on"]
    if off:
        await connection.close(timeout=_CLEAN_UP_S)
        raise UnsafeServer(f"the server runs with {' and '.join(off)} off; turn it on")
