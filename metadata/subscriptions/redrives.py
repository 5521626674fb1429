"""Keeps redrives, which the scheduler carries out, and which anyone may see and cancel.

A redrive takes the open dead letters that were there when it was asked for, oldest first. Its
counters and the state of the letters it has published are written in one transaction, so both are
right after any crash; a dead letter that was published and not written down is published again
under the same name, which the log finds stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from metadata import changes
from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.locks import locks
from metadata.locks.locks import Lock
from metadata.subscriptions.dead_letters import COLUMNS as LETTER_COLUMNS
from metadata.subscriptions.dead_letters import (
    KEPT_DAYS,
    PRUNE_AT_ONCE,
    DeadLetterPosition,
    StoredDeadLetter,
    dead_letter_of,
)
from openapi.dead_letters import RedriveState

MAX_UNFINISHED = 10
"""The number of unfinished redrives that one subscription may have."""
NEWEST = datetime(9999, 1, 1, tzinfo=UTC)

_COLUMNS = """
    redrives.tenant_id, redrives.uid, redrives.subscription_uid, redrives.filter, redrives.picked,
    redrives.destination, redrives.edit::text, redrives.rate, redrives.state, redrives.detail,
    redrives.total, redrives.redriven, redrives.failed, redrives.created_at, redrives.updated_at
"""
# Taken by everyone who makes one, so that the count below holds.
_LOCK_SUBSCRIPTION = """
SELECT 1 FROM subscriptions WHERE tenant_id = $1 AND uid = $2 FOR NO KEY UPDATE
"""
_UNFINISHED_OF = """
SELECT count(*) FROM redrives
WHERE tenant_id = $1 AND subscription_uid = $2 AND state IN ('running', 'cancelling')
"""
_CREATE = (
    "INSERT INTO redrives"
    " (tenant_id, uid, subscription_uid, filter, picked, destination, edit, rate, total)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9) RETURNING" + _COLUMNS
)
_PICK = """
WITH picked AS (
    UPDATE dead_letters SET redrive_uid = $3
    WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = ANY($4::uuid[]) AND state = 'open'
    RETURNING 1
)
SELECT count(*) FROM picked
"""
_GET = (
    "SELECT"
    + _COLUMNS
    + "FROM redrives WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = $3"
)
_PAGE = (
    "SELECT"
    + _COLUMNS
    + """
    FROM redrives
    WHERE tenant_id = $1 AND subscription_uid = $2 AND (created_at, uid) < ($3, $4)
    ORDER BY created_at DESC, uid DESC LIMIT $5
    """
)
_CANCEL = """
UPDATE redrives SET state = 'cancelling', updated_at = now()
WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = $3 AND state = 'running'
"""
_UNFINISHED = (
    "SELECT"
    + _COLUMNS
    + """, subscriptions.name, topics.name
    FROM redrives
    JOIN subscriptions ON subscriptions.tenant_id = redrives.tenant_id
        AND subscriptions.uid = redrives.subscription_uid
    JOIN topics ON topics.tenant_id = redrives.tenant_id AND topics.uid = subscriptions.topic_uid
    JOIN tenants ON tenants.tenant_id = redrives.tenant_id
    WHERE redrives.state = 'cancelling' OR redrives.state = 'running' AND tenants.state = 'active'
    ORDER BY redrives.created_at, redrives.uid LIMIT $1
    """
)
_OPEN = (
    "SELECT"
    + LETTER_COLUMNS
    + """
    FROM dead_letters
    WHERE tenant_id = $1 AND subscription_uid = $2 AND state = 'open'
      AND (dead_at, uid) > ($3, $4) AND dead_at <= $5 AND ($6::uuid IS NULL OR redrive_uid = $6)
    ORDER BY dead_at, uid LIMIT $7
    """
)
_REDRIVEN = """
WITH redriven AS (
    UPDATE dead_letters SET state = 'redriven', redrive_uid = $3
    WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = ANY($4::uuid[]) AND state = 'open'
    RETURNING 1
)
SELECT count(*) FROM redriven
"""
_PROGRESS = """
UPDATE redrives
SET redriven = redriven + $3, failed = $4, detail = $5, updated_at = now(),
    total = greatest(total, redriven + $3 + $4)
WHERE tenant_id = $1 AND uid = $2
RETURNING state, EXISTS (SELECT FROM tenants t WHERE t.tenant_id = $1 AND t.state = 'active')
"""
_FINISH = """
UPDATE redrives
SET state = CASE state WHEN 'cancelling' THEN 'cancelled' ELSE $3 END,
    detail = coalesce($4, detail), updated_at = now()
WHERE tenant_id = $1 AND uid = $2 AND state IN ('running', 'cancelling')
"""
_PRUNE = """
DELETE FROM redrives WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM redrives
    WHERE state NOT IN ('running', 'cancelling') AND updated_at < now() - make_interval(days => $1)
    LIMIT $2
))
"""


@dataclass(frozen=True, slots=True)
class Redrive:
    """A row of `redrives`."""

    tenant_id: bytes
    uid: bytes
    subscription_uid: bytes
    filter: str | None
    picked: bool
    """Whether it takes only the dead letters that name it in `redrive_uid`, which were
    picked by id.
    """
    destination: str | None
    """The name of a topic; None: back to the subscription, and to it alone."""
    edit: Mapping[str, Any]
    """The changes of each message.

    `attributes` with the new value by name, None to drop it; `data_base64`; `content_type`; `key`.
    All may be absent.
    """
    rate: float | None
    """Messages per second."""
    state: RedriveState
    detail: str | None
    total: int
    redriven: int
    failed: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RedriveSpec:
    """The wanted redrive, of the dead letters in `uids` alone, or of all for which `filter`
    is true.
    """

    filter: str | None = None
    uids: Sequence[bytes] | None = None
    destination: str | None = None
    edit: Mapping[str, Any] | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A redrive with work to do, of which subscription, of which topic."""

    redrive: Redrive
    subscription_name: str
    topic_name: str


class RedriveRepository:
    """Rows of `redrives`. Writes of the scheduler name its lock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, tenant_id: bytes, subscription_uid: bytes, spec: RedriveSpec, total: int
    ) -> Redrive:
        """Create a redrive of `total` dead letters; of picked ones those that are open are counted.

        NotFound when the subscription is gone; Conflict at `MAX_UNFINISHED`. Its version tells the
        scheduler that there is one.
        """
        uid = new_uid()

        async def work(connection: Connection) -> Redrive:
            key = (tenant_id, subscription_uid)
            if await connection.fetchval(_LOCK_SUBSCRIPTION, *key) is None:
                raise NotFound("subscription", subscription_uid.hex())
            if await connection.fetchval(_UNFINISHED_OF, *key) >= MAX_UNFINISHED:
                raise Conflict("redrive", uid.hex(), f"{MAX_UNFINISHED} are not finished")
            count = total
            if spec.uids is not None:
                count = await connection.fetchval(_PICK, *key, uid, list(spec.uids))
            row = await connection.fetchrow(
                _CREATE,
                tenant_id,
                uid,
                subscription_uid,
                spec.filter,
                spec.uids is not None,
                spec.destination,
                msgspec.json.encode(spec.edit or {}).decode(),
                spec.rate,
                count,
            )
            await changes.take_version(connection)
            return _redrive(row)

        return await changes.in_turn(self._database, tenant_id, work)

    async def get(self, tenant_id: bytes, subscription_uid: bytes, uid: bytes) -> Redrive:
        """Return the redrive. Raises NotFound."""

        async def work(connection: Connection) -> Redrive:
            row = await connection.fetchrow(_GET, tenant_id, subscription_uid, uid)
            if row is None:
                raise NotFound("redrive", uid.hex())
            return _redrive(row)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def page(
        self,
        tenant_id: bytes,
        subscription_uid: bytes,
        *,
        before: DeadLetterPosition | None = None,
        limit: int,
    ) -> list[Redrive]:
        """Return at most `limit` redrives, newest first; fewer are the last."""
        place = before or DeadLetterPosition(NEWEST, bytes(16))

        async def work(connection: Connection) -> list[Redrive]:
            rows = await connection.fetch(_PAGE, tenant_id, subscription_uid, *place, limit)
            return [_redrive(row) for row in rows]

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def cancel(self, tenant_id: bytes, subscription_uid: bytes, uid: bytes) -> Redrive:
        """Cancel a redrive: the scheduler redrives nothing more once it has seen this. A redrive
        that has ended stays as it is. Raises NotFound.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_CANCEL, tenant_id, subscription_uid, uid)

        await self._database.of(tenant_id).statement(work, writes=True)
        return await self.get(tenant_id, subscription_uid, uid)

    # The scheduler's.

    async def unfinished(self, limit: int) -> list[Unfinished]:
        """Return redrives of all active tenants, oldest first; other tenants wait, unless
        being cancelled.
        """

        async def work(connection: Connection) -> list[Unfinished]:
            rows = await connection.fetch(_UNFINISHED, limit)
            return [Unfinished(_redrive(row[:-2]), row[-2], row[-1]) for row in rows]

        return await self._database.statement(work, writes=False)

    async def letters(
        self, redrive: Redrive, after: DeadLetterPosition, limit: int
    ) -> list[StoredDeadLetter]:
        """Return the next dead letters that it may take, oldest first; fewer than `limit`
        are the last.
        """

        async def work(connection: Connection) -> list[StoredDeadLetter]:
            rows = await connection.fetch(
                _OPEN,
                redrive.tenant_id,
                redrive.subscription_uid,
                *after,
                redrive.created_at,
                redrive.uid if redrive.picked else None,
                limit,
            )
            return [dead_letter_of(row) for row in rows]

        return await self._database.statement(work, writes=False)

    async def progress(
        self,
        lock: Lock,
        redrive: Redrive,
        redriven: Sequence[bytes],
        *,
        failed: int,
        detail: str | None,
    ) -> RedriveState | Literal["suspended"] | None:
        """`redriven` were published; `failed` in all. The state it is in now, None when it is gone,
        "suspended" where it runs and its tenant is not active. LeaseLost."""

        async def work(
            connection: Connection,
        ) -> RedriveState | Literal["suspended"] | None:
            await locks.check(connection, lock)
            count = 0
            if redriven:
                count = await connection.fetchval(
                    _REDRIVEN,
                    redrive.tenant_id,
                    redrive.subscription_uid,
                    redrive.uid,
                    list(redriven),
                )
            row = await connection.fetchrow(
                _PROGRESS, redrive.tenant_id, redrive.uid, count, failed, detail
            )
            if row is None:
                return None
            state: RedriveState = row[0]
            return state if row[1] or state != "running" else "suspended"

        return await self._database.transaction(work)

    async def finish(
        self, lock: Lock, redrive: Redrive, state: RedriveState, detail: str | None
    ) -> None:
        """End the redrive as `state`, or as cancelled if that was asked for.

        Idempotent. Raises LeaseLost.
        """

        async def work(connection: Connection) -> None:
            await locks.check(connection, lock)
            await connection.execute(_FINISH, redrive.tenant_id, redrive.uid, state, detail)

        await self._database.transaction(work)

    async def prune(self) -> None:
        """Delete some redrives that ended long ago, of all tenants."""

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE, KEPT_DAYS, PRUNE_AT_ONCE)

        await self._database.statement(work, writes=True)


def _redrive(row: Any) -> Redrive:
    values = list(row)
    values[6] = msgspec.json.decode(values[6])
    return Redrive(*values)
