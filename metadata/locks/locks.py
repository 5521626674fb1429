"""Named locks with a lease and a fence: who runs what must run once.

A lock is held for its time to live from each renewal on, judged by Postgres' clock; the holder
stops before, by its own (metadata/lease.py). The fence grows with each new holder: what a holder
writes to Postgres checks it in the same transaction (`check`, and fenced.py for all that a role
writes), so a holder that was paused past its lease writes nothing any more. Other resources refuse
a fence below the highest they have seen.

A fence never comes twice: a row's own grows, rows that were removed leave the tenant's floor behind
(fences.py), and where Postgres lost history the new era is above all fences before it.

A caller that waits has a ticket (waiters.py); the lock goes to the lowest live ticket.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from metadata.database import Connection, Database
from metadata.errors import LeaseLost, MetadataError
from metadata.lease import LEASE_S, RENEW_DEADLINE_S, Holding, valid_until_s
from metadata.locks.fences import hold_floor
from metadata.locks.waiters import LAST_TICKET, notify

MAX_LOCKS = 10_000
"""The limit of locks for one tenant."""
PLATFORM = bytes(16)
"""The tenant of the platform's own locks."""

# Which holding it is, is decided once for all columns: the clock goes on within a statement.
_ACQUIRE = """
WITH era AS (SELECT coalesce(max(era), 0) << 40 AS fence FROM eras),
taken AS (
    UPDATE locks AS l
    SET (owner, fence, taken_at) = (
            SELECT CASE WHEN again THEN l.owner ELSE $3 END,
                CASE WHEN again THEN l.fence ELSE greatest(l.fence, era.fence) + 1 END,
                CASE WHEN again THEN l.taken_at ELSE clock_timestamp() END
            FROM (
                SELECT l.owner IS NOT NULL AND l.request_id = $6::text
                    AND l.lease_until > clock_timestamp() AS again
            ) AS holding
        ),
        lease_until = clock_timestamp() + make_interval(secs => $4::float8),
        ttl_seconds = $4, holder = $5::text, request_id = $6, labels = $7::jsonb
    FROM era
    WHERE l.tenant_id = $1 AND l.name = $2
      AND (
        l.owner IS NOT NULL AND l.lease_until > clock_timestamp()
            AND (l.owner = $3 OR l.request_id = $6)
        OR (l.owner IS NULL OR l.lease_until <= clock_timestamp())
            AND NOT EXISTS (
                SELECT FROM lock_waiters AS w
                WHERE w.tenant_id = $1 AND w.name = $2 AND w.ticket < $8
                  AND w.alive_until > clock_timestamp()
            )
      )
    RETURNING l.owner, l.fence, l.lease_until
), left_line AS (
    DELETE FROM lock_waiters
    WHERE tenant_id = $1 AND name = $2 AND ticket = $8 AND EXISTS (SELECT FROM taken)
)
SELECT owner, fence, lease_until, NULL AS holder, NULL AS lease_s, NULL AS ahead_s FROM taken
UNION ALL
SELECT NULL, l.fence, NULL, l.holder,
    extract(epoch FROM l.lease_until - clock_timestamp())::float8,
    (
        SELECT extract(epoch FROM min(w.alive_until) - clock_timestamp())::float8
        FROM lock_waiters AS w
        WHERE w.tenant_id = $1 AND w.name = $2 AND w.ticket < $8
          AND w.alive_until > clock_timestamp()
    )
FROM locks AS l
WHERE l.tenant_id = $1 AND l.name = $2 AND NOT EXISTS (SELECT FROM taken)
"""
_COUNT = "SELECT count(*) FROM locks WHERE tenant_id = $1"
_MAKE = """
INSERT INTO locks (tenant_id, name, fence, lease_until)
VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT DO NOTHING
"""
_RENEW = """
UPDATE locks
SET lease_until = clock_timestamp() + make_interval(secs => coalesce($5::float8, ttl_seconds)),
    ttl_seconds = coalesce($5::float8, ttl_seconds)
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = coalesce($4::bigint, fence)
  AND lease_until > clock_timestamp()
RETURNING fence, ttl_seconds, holder, labels::text AS labels, lease_until
"""
_RELEASE = """
UPDATE locks
SET owner = NULL, lease_until = clock_timestamp(), holder = NULL, request_id = NULL, labels = '{}'
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = coalesce($4::bigint, fence)
  AND lease_until = coalesce($5::timestamptz, lease_until)
RETURNING fence
"""
# A check keeps a lock on the row that renewals pass, for any number of checks. The next holder of a
# lock of the platform waits for it: the new holding begins after earlier checks, and before later
# ones.
_CHECK = """
SELECT fence FROM locks
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = $4
FOR KEY SHARE
"""
_WAIT_FOR_CHECKED = """
SELECT FROM locks
WHERE tenant_id = $1 AND name = $2
  AND (owner IS NULL OR owner = $3 OR lease_until <= clock_timestamp())
FOR UPDATE
"""


class TooManyLocks(MetadataError):
    """The tenant has as many as it may."""

    code = "too_many_locks"


@dataclass(frozen=True, slots=True)
class Lock(Holding):
    """A lock as its holder knows it."""

    tenant_id: bytes
    name: str
    owner: bytes
    fence: int
    valid_until_s: float
    ttl_s: float = LEASE_S
    holder: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_until: datetime | None = None
    """As Postgres has it: another value there means that somebody took or renewed it since."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A wish for a lock.

    A live holding with the same `request_id` is returned again, with its owner and fence. `owner`
    is 16 bytes that nobody else knows.
    """

    tenant_id: bytes
    name: str
    owner: bytes
    ttl_s: float = LEASE_S
    holder: str | None = None
    request_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """Another has the lock, or comes first; `free_in_s` is when that may end, if nothing renews
    it."""

    holder: str | None
    free_in_s: float


async def check(connection: Connection, lock: Lock) -> None:
    """Check that `lock` is still held; call it first in a transaction that only the holder of a
    lock of the platform may make.

    Raises LeaseLost if there is a new holder.
    """
    if await connection.fetchval(_CHECK, lock.tenant_id, lock.name, lock.owner, lock.fence) is None:
        raise LeaseLost(f"the lock {lock.name!r} has a new holder")


class LockRepository:
    """Rows of `locks`; a lease that has run out is never renewed: take the lock anew."""

    def __init__(
        self, database: Database, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic_s = monotonic_s

    async def take(self, name: str, owner: bytes, *, tenant_id: bytes = PLATFORM) -> Lock | None:
        """Take the lock with a new fence, or return None while another holds it.

        Can be repeated after OutcomeUnknown: the owner gets its own lock again, with a new fence.
        """
        got = await self.acquire(Claim(tenant_id, name, owner))
        return got if isinstance(got, Lock) else None

    async def acquire(self, claim: Claim, ticket: int = LAST_TICKET) -> Lock | Held:
        """Return the lock, if it is free and nobody with a lower ticket waits; the ticket is used
        up.

        Raises TooManyLocks at the tenant's limit. Can be repeated after OutcomeUnknown.
        """
        while (got := await self._acquire(claim, ticket)) is None:
            await self._make(claim.tenant_id, claim.name)
        return got

    async def _acquire(self, claim: Claim, ticket: int) -> Lock | Held | None:
        """Try to take the lock; return None if it has no row."""

        async def work(connection: Connection) -> Any:
            if claim.tenant_id == PLATFORM:
                await connection.execute(
                    _WAIT_FOR_CHECKED, claim.tenant_id, claim.name, claim.owner
                )
            labels = msgspec.json.encode(dict(claim.labels)).decode()
            return await connection.fetchrow(
                _ACQUIRE,
                claim.tenant_id,
                claim.name,
                claim.owner,
                claim.ttl_s,
                claim.holder,
                claim.request_id,
                labels,
                ticket,
            )

        sent_s = self._monotonic_s()
        if claim.tenant_id == PLATFORM:
            row = await self._database.transaction(work, deadline_s=RENEW_DEADLINE_S)
        else:
            row = await self._database.statement(
                work, writes=True, deadline_s=RENEW_DEADLINE_S, tenant_id=claim.tenant_id
            )
        if row is None:
            return None
        if row["owner"] is None:
            lease_s = max(0.0, row["lease_s"] or 0.0)
            return Held(row["holder"] if lease_s else None, lease_s or row["ahead_s"] or 0.0)
        return Lock(
            claim.tenant_id,
            claim.name,
            row["owner"],
            row["fence"],
            valid_until_s(sent_s, claim.ttl_s),
            claim.ttl_s,
            claim.holder,
            claim.labels,
            row["lease_until"],
        )

    async def _make(self, tenant_id: bytes, name: str) -> None:
        async def work(connection: Connection) -> None:
            floor = await hold_floor(connection, tenant_id)
            if await connection.fetchval(_COUNT, tenant_id) >= MAX_LOCKS:
                raise TooManyLocks(f"a tenant has at most {MAX_LOCKS} locks; delete some")
            await connection.execute(_MAKE, tenant_id, name, floor)

        await self._database.transaction(
            work, deadline_s=RENEW_DEADLINE_S, tenant_id=_asking(tenant_id)
        )

    async def renew(self, lock: Lock) -> Lock:
        """LeaseLost when it was over when the renewal arrived, or has a new holder."""
        return await self._renew(lock.tenant_id, lock.name, lock.owner, lock.fence, lock.ttl_s)

    async def renew_holding(
        self, tenant_id: bytes, name: str, owner: bytes, ttl_s: float | None
    ) -> Lock:
        """Renew the lock for `ttl_s` from now on, or by the time of the last renewal; raises
        LeaseLost.
        """
        return await self._renew(tenant_id, name, owner, None, ttl_s)

    async def _renew(
        self, tenant_id: bytes, name: str, owner: bytes, fence: int | None, ttl_s: float | None
    ) -> Lock:
        async def work(connection: Connection) -> Any:
            return await connection.fetchrow(_RENEW, tenant_id, name, owner, fence, ttl_s)

        sent_s = self._monotonic_s()
        row = await self._database.statement(
            work,
            writes=True,
            deadline_s=RENEW_DEADLINE_S,
            always=True,
            tenant_id=_asking(tenant_id),
        )
        if row is None:
            raise LeaseLost(f"the lease of the lock {name!r} is over")
        return Lock(
            tenant_id,
            name,
            owner,
            row["fence"],
            valid_until_s(sent_s, row["ttl_seconds"]),
            row["ttl_seconds"],
            row["holder"],
            msgspec.json.decode(row["labels"]),
            row["lease_until"],
        )

    async def release(self, lock: Lock) -> None:
        """Free for the next at once. Idempotent, and nothing when it has a new holder."""
        await self._release(lock.tenant_id, lock.name, lock.owner, lock.fence, None)

    async def release_holding(self, tenant_id: bytes, name: str, owner: bytes) -> None:
        """Release the lock as `release` does, for a caller that knows only the owner."""
        await self._release(tenant_id, name, owner, None, None)

    async def undo(self, lock: Lock) -> None:
        """Release, unless it was renewed or acquired again since this."""
        await self._release(lock.tenant_id, lock.name, lock.owner, lock.fence, lock.lease_until)

    async def _release(
        self,
        tenant_id: bytes,
        name: str,
        owner: bytes,
        fence: int | None,
        lease_until: datetime | None,
    ) -> None:
        async def work(connection: Connection) -> None:
            key = (tenant_id, name, owner, fence, lease_until)
            if await connection.fetchval(_RELEASE, *key) is not None:
                # A statement of its own: it sees who has begun to wait before the row was ours.
                await notify(connection, tenant_id, name)

        await self._database.transaction(
            work, deadline_s=RENEW_DEADLINE_S, tenant_id=_asking(tenant_id)
        )


def _asking(tenant_id: bytes) -> bytes | None:
    return None if tenant_id == PLATFORM else tenant_id
