"""A Postgres that went back in time, noticed; and the transaction that begins a new era after it.

Where Postgres is in its own history says its *position*: which server (system identifier), on which
timeline, how far its write-ahead log is flushed, and the newest row of `eras`. A restored base
backup keeps identifier and timeline, so going backwards is told by the log: every process remembers
the furthest position that it saw, and the store has a witness for processes that start later.

    the store's era is raised → the repair → one transaction with the row in `eras` → known again

The row comes last, so a process that finds the store's era above the newest row continues the
repair. Until a process has compared, and whenever it sees Postgres before where it was,
`HistoryCheck` lets no connection be used: nothing that was decided in the lost future reaches the
restored past, such as a flush whose rows rest on others that are gone.

An era may be skipped, never used twice: epochs and fences begin with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from metadata.changes import CHANNEL
from metadata.database import Connection
from metadata.delivery.deliveries import ACKS_KEPT_S
from metadata.errors import MetadataUnavailable
from metadata.lease import LEASE_S
from metadata.locks.locks import PLATFORM

FENCE_BITS = 40
"""Fences of locks and versions of changes from an era on are above `era << FENCE_BITS`."""
ADVISORY_LOCK = (7265746, 1)
"""Held by the one that repairs, for as long as its connection lives."""
HELPING_LOCK = (7265746, 2)
"""Shared by the other connections of the one that repairs."""
_SLACK_S = 1.0
"""Renewals are that far apart."""
REPAIR_STATEMENT_S = 600
END_MS = 5000
REPAIR_IDLE_S = 60
"""The server ends the connection of a repairer that was paused for longer."""
CUT_S = 2
"""The server looks that often whether a repairer that waits for a statement is still there."""

POSITION = """
SELECT
    (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
    ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::int AS timeline,
    (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::int8 AS wal_bytes,
    newest.era, newest.system_identifier AS era_system, newest.timeline AS era_timeline
FROM (SELECT 1) AS one LEFT JOIN (
    SELECT era, system_identifier, timeline FROM eras ORDER BY era DESC LIMIT 1
) AS newest ON true
"""
_PATIENCE = """
SELECT set_config('statement_timeout', $1, false), set_config('idle_session_timeout', $2, false),
    set_config('client_connection_check_interval', $3, false)
"""
# These helped a repairer whose turn is over, and have not noticed yet: it was paused, or its
# connection was cut.
_END_OTHERS = """
SELECT pg_terminate_backend(pid, $3) FROM pg_locks
WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid = $1 AND objid = $2 AND objsubid = 2
"""
_HELP = "SELECT pg_try_advisory_lock_shared($1, $2)"
_IS_ITS_TURN = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = $1 AND objid = $2 AND objsubid = 2 AND granted AND pid = $3
)
"""
_FIRST = """
INSERT INTO eras (era, system_identifier, timeline, reason) VALUES (0, $1, $2, 'the first')
ON CONFLICT DO NOTHING
"""
_ENTER = """
INSERT INTO eras (era, system_identifier, timeline, reason) VALUES ($1, $2, $3, $4)
"""
# These statements change rows as they were restored. Assignments get an epoch that nobody ever had,
# so that no memory continues from it.
_DISOWN = "UPDATE assignments SET owner = NULL, epoch_era = $1, epoch_n = epoch_n + 1"
_FENCE_CURSORS = "UPDATE cursors SET epoch_era = $1, epoch_n = 0"
_FENCE_LOCKS = "UPDATE locks SET fence = greatest(fence, $1)"
# A holder may have renewed until the last moment, so it may believe that it holds for a whole time
# to live from then. Rows that are renewed all the time tell the time of the backup, and so which
# locks were held then; the holders of those that were over before it know that.
_FREE_LOCKS = """
WITH backup AS (
    SELECT max(lease_until) - make_interval(secs => $2) AS time FROM (
        SELECT lease_until FROM forwarders
        UNION ALL SELECT lease_until FROM locks WHERE tenant_id = $1
    ) AS renewed
)
UPDATE locks AS l SET owner = NULL, lease_until = clock_timestamp(), holder = NULL,
    request_id = NULL, labels = '{}'
FROM backup
WHERE l.tenant_id = $1 OR l.owner IS NULL OR l.lease_until < backup.time
"""
_KEEP_LOCKS = """
UPDATE locks
SET lease_until = greatest(
    lease_until, clock_timestamp() + make_interval(secs => coalesce(ttl_seconds, $1))
)
WHERE owner IS NOT NULL
"""
# Places in lines that were taken in the lost future are before all that are taken from now on.
_LATER_TICKETS = "SELECT setval('lock_tickets', greatest(nextval('lock_tickets'), $1))"
_RESET_CACHES = """
UPDATE change_counter
SET version = greatest(version, $1) + 1, pruned_to = greatest(version, $1) + 1
"""
# Readers take the row with the higher version, and one of two may come from the lost future.
_NEWER = (
    "UPDATE topics SET version = greatest(version, $1)",
    "UPDATE subscriptions SET version = greatest(version, $1)",
)
# Acks under these leases stay: a client may have lost the answer to one, and repeats it.
_END_LEASES = """
UPDATE delivery_leases
SET offsets = acked, expires_at = clock_timestamp() + make_interval(secs => $1)
WHERE offsets <> acked AND NOT isempty(acked)
"""
_FORGET = (
    "DELETE FROM forwarders",
    "DELETE FROM assignment_hints",
    "DELETE FROM delivery_leases WHERE isempty(acked)",
    "DELETE FROM changes",
    "TRUNCATE due_index, due_progress",
)
_LIFT = """
UPDATE partitions SET trimmed_to = least($5, coalesce(sealed_at, $5))
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4
  AND base <= $5 AND trimmed_to < least($5, coalesce(sealed_at, $5))
"""


class Position(NamedTuple):
    """The position of Postgres in its own history.

    `wal_bytes` counts the bytes of log that it ever flushed. `era` and the members after it are
    those of the newest row of `eras`, or None without a row.
    """

    system_identifier: str
    timeline: int
    wal_bytes: int
    era: int | None
    era_system: str | None
    era_timeline: int | None


class Lift(NamedTuple):
    """The store has nothing below `first` of this partition and lane."""

    tenant_id: bytes
    topic_uid: bytes
    partition: int
    lane: int
    first: int


async def observe(connection: Connection) -> Position:
    """Return the position of Postgres; raises MetadataUnavailable if the server only follows
    another.
    """
    try:
        return Position(*await connection.fetchrow(POSITION))
    except asyncpg.ObjectNotInPrerequisiteStateError as error:
        raise MetadataUnavailable(f"the server takes no writes: {error}") from error


def went_back(seen: Position | None, now: Position) -> str | None:
    """Return why `now` may lack earlier commits, or None.

    `seen` is an earlier position that this process saw. The newest era has the position at which it
    began.
    """
    if seen is not None:
        if _order(now)[0] < _order(seen)[0]:
            return f"era {seen.era} is not in it, only {now.era}"
        if now.era == seen.era and now.wal_bytes < seen.wal_bytes:
            lost = seen.wal_bytes - now.wal_bytes
            return f"its log ends {lost} bytes before where it was"
    if now.era is None:
        return None
    if now.era_system != now.system_identifier:
        return f"another server: {now.system_identifier}, not {now.era_system}"
    if now.era_timeline != now.timeline:
        return f"another timeline: {now.timeline}, not {now.era_timeline}"
    return None


def behind_store(now: Position, store_era: int, witness: int) -> str | None:
    """Return why the store knows more than Postgres, or None; both numbers of the store were read
    before `now`.
    """
    if (now.era or 0) < store_era:
        return f"the store is in era {store_era}, its newest is {now.era}"
    if (now.era or 0) == store_era and now.wal_bytes < witness:
        return f"its log ends {witness - now.wal_bytes} bytes before where the store saw it"
    return None


class _Loss(NamedTuple):
    """Postgres lacks what was committed before. It goes on lacking it in `era`, the newest that it
    had then, however far its log grows."""

    reason: str
    era: int


class HistoryCheck:
    """This process's knowledge of Postgres' position; each new connection asks `check`."""

    def __init__(self) -> None:
        self._loss: _Loss | None = None
        self.seen: Position | None = None
        self.suspicion: str | None = "not yet compared with the store"
        """The reason for which no connection may be used, or None."""
        self.doubted = asyncio.Event()
        """Set when something has to be compared with the store."""

    async def check(self, connection: Connection) -> None:
        """Raises MetadataUnavailable."""
        before = self.seen
        if self.suspicion is None:
            self.saw(await observe(connection), before)
        if self.suspicion is not None:
            raise MetadataUnavailable(f"Postgres is not used: {self.suspicion}")

    def saw(self, now: Position, before: Position | None) -> None:
        """Compare the answer of a statement with `before`, the value of `seen` when it was sent."""
        if self.suspicion is not None:
            return
        reason = self.lacks(now, went_back(before, now))
        if reason is not None:
            self.suspicion = f"it may have gone back in time ({reason})"
            self.doubted.set()
            return
        if before is not None and before.era != now.era:
            self.doubted.set()  # another process went through it; the store confirms
        self._further(now)

    def lacks(self, now: Position, reason: str | None) -> str | None:
        """Return why `now` lacks what was committed before: `reason`, if it is not None, else what
        was found earlier, until a newer era has begun: a repair began that."""
        era = -1 if now.era is None else now.era
        if reason is not None:
            self._loss = _Loss(reason, era)
        elif self._loss is not None and era > self._loss.era:
            self._loss = None
        return self._loss and self._loss.reason

    def confirm(self, now: Position) -> None:
        """Take `now` for good: a comparison with the store found no loss."""
        self.suspicion = None
        self.doubted.clear()
        self._further(now)

    def _further(self, now: Position) -> None:
        """Answers may come in another order than they were given."""
        if self.seen is None or _order(now) > _order(self.seen):
            self.seen = now


def _order(position: Position) -> tuple[int, int]:
    return (-1 if position.era is None else position.era), position.wal_bytes


async def begin_first(connection: Connection, now: Position) -> None:
    """Insert the first row of an installation that never had one. Idempotent."""
    await connection.execute(_FIRST, now.system_identifier, now.timeline)


async def alone(connection: Connection) -> bool:
    """Return whether this connection may repair now: one at a time may, until it is closed.

    The helpers of the repairer before are ended first, so nothing of its repair comes after ours.
    """
    await connection.execute(_PATIENCE, f"{REPAIR_STATEMENT_S}s", f"{REPAIR_IDLE_S}s", f"{CUT_S}s")
    taken: bool = await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", *ADVISORY_LOCK)
    if taken:
        async with connection.transaction():
            # Connections belong to the login, and the roles that they take may not end them.
            await connection.execute("SET LOCAL ROLE NONE")
            ended = await connection.fetch(
                _END_OTHERS, *HELPING_LOCK, END_MS, timeout=REPAIR_STATEMENT_S
            )
        if not all(row[0] for row in ended):
            raise MetadataUnavailable("the repair of another goes on")
    return taken


async def help_repair(repairer: int, connection: Connection) -> None:
    """Join the repair of this process, whose connection with the pid `repairer` repairs.

    Raises MetadataUnavailable if its turn is over. Either this statement sees that another has the
    turn, or the other sees this one.
    """
    await connection.execute(_HELP, *HELPING_LOCK)
    if not await connection.fetchval(_IS_ITS_TURN, *ADVISORY_LOCK, repairer):
        raise MetadataUnavailable("the turn to repair is over")


async def enter(connection: Connection, era: int, reason: str, lifts: Sequence[Lift]) -> Position:
    """Take the last step of a repair, all or nothing: end all earlier ownership, leases and locks,
    make caches and projections anew, and write the row of the era.
    """
    # Statements over whole tables may take long, and nobody else can repair meanwhile. A repairer
    # that dies, in one of them or between two, holds nobody up that long: the server ends the first
    # within CUT_S, and an idle transaction by the usual deadline. Where the network loses packets
    # without a word, the others wait until the statement has run, and this process for its timeout.
    async with connection.transaction():
        now = await observe(connection)
        fence = era << FENCE_BITS
        # The counter's row first, as every transaction of the control plane does.
        await connection.execute(_RESET_CACHES, fence)
        await connection.execute(_DISOWN, era, timeout=REPAIR_STATEMENT_S)
        await connection.execute(_FREE_LOCKS, UUID(bytes=PLATFORM), LEASE_S + _SLACK_S)
        await connection.execute(_KEEP_LOCKS, LEASE_S)
        await connection.execute(_FENCE_LOCKS, fence)
        await connection.execute(_LATER_TICKETS, fence)
        await connection.execute(_FENCE_CURSORS, era, timeout=REPAIR_STATEMENT_S)
        for statement in _NEWER:
            await connection.execute(statement, fence, timeout=REPAIR_STATEMENT_S)
        await connection.execute(_END_LEASES, ACKS_KEPT_S, timeout=REPAIR_STATEMENT_S)
        for statement in _FORGET:
            await connection.execute(statement, timeout=REPAIR_STATEMENT_S)
        if lifts:
            rows = [(UUID(bytes=one[0]), UUID(bytes=one[1]), *one[2:]) for one in lifts]
            await connection.executemany(_LIFT, rows, timeout=REPAIR_STATEMENT_S)
        await connection.execute(_ENTER, era, now.system_identifier, now.timeline, reason)
        await connection.execute("SELECT pg_notify($1, '')", CHANNEL)
    return await observe(connection)
