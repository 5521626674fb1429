"""Named locks with a lease and a fence: who runs what must run once.

A lock is held for `LEASE_S` from each renewal on, judged by Postgres' clock; the holder goes by its
own monotonic clock, counted from before it asked and less a margin, so it stops first. The fence
grows with each new holder: what a holder writes to Postgres checks it in the same transaction
(`check`), so a holder that was paused past its lease writes nothing any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from metadata.database import Connection, Database
from metadata.errors import LeaseLost

LEASE_S = 4.0
RENEW_EVERY_S = 1.0
MARGIN_S = 0.5
RENEW_DEADLINE_S = 1.5
PLATFORM = bytes(16)
"""The tenant of the platform's own locks."""

_LENGTH = timedelta(seconds=LEASE_S)
_TAKE = """
INSERT INTO locks (tenant_id, name, owner, fence, lease_until)
VALUES ($1, $2, $3, 1, clock_timestamp() + $4)
ON CONFLICT (tenant_id, name) DO UPDATE
SET owner = $3, fence = locks.fence + 1, lease_until = clock_timestamp() + $4
WHERE locks.owner IS NULL OR locks.owner = $3 OR locks.lease_until <= clock_timestamp()
RETURNING fence
"""
_RENEW = """
UPDATE locks SET lease_until = clock_timestamp() + $5
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = $4
  AND lease_until > clock_timestamp()
RETURNING fence
"""
_RELEASE = """
UPDATE locks SET owner = NULL, lease_until = NULL
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = $4
"""
# A share lock: a new holder waits for what was checked before it, and comes before what is after.
_CHECK = """
SELECT fence FROM locks
WHERE tenant_id = $1 AND name = $2 AND owner = $3 AND fence = $4
FOR SHARE
"""


@dataclass(frozen=True, slots=True)
class Lock:
    """What the holder knows: good while `held(now)`; `now_s` is time.monotonic()."""

    tenant_id: bytes
    name: str
    owner: bytes
    fence: int
    valid_until_s: float

    def held(self, now_s: float) -> bool:
        return now_s < self.valid_until_s


async def check(connection: Connection, lock: Lock) -> None:
    """First in a transaction that only the holder may make; LeaseLost when there is a new one."""
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
        """The lock with a new fence, or None while another holds it.

        Can be repeated after OutcomeUnknown: its own lock it gets again, with a fence anew.
        """

        async def work(connection: Connection) -> int | None:
            fence: int | None = await connection.fetchval(_TAKE, tenant_id, name, owner, _LENGTH)
            return fence

        sent_s = self._monotonic_s()
        fence = await self._database.statement(work, writes=True, deadline_s=RENEW_DEADLINE_S)
        if fence is None:
            return None
        return Lock(tenant_id, name, owner, fence, sent_s + LEASE_S - MARGIN_S)

    async def renew(self, lock: Lock) -> Lock:
        """LeaseLost when it was over when the renewal arrived, or has a new holder."""

        async def work(connection: Connection) -> bool:
            row = await connection.fetchval(_RENEW, *_key(lock), _LENGTH)
            return row is not None

        sent_s = self._monotonic_s()
        if not await self._database.statement(work, writes=True, deadline_s=RENEW_DEADLINE_S):
            raise LeaseLost(f"the lease of the lock {lock.name!r} is over")
        valid_until_s = sent_s + LEASE_S - MARGIN_S
        return Lock(lock.tenant_id, lock.name, lock.owner, lock.fence, valid_until_s)

    async def release(self, lock: Lock) -> None:
        """Free for the next at once. Idempotent, and nothing when it has a new holder."""

        async def work(connection: Connection) -> None:
            await connection.execute(_RELEASE, *_key(lock))

        await self._database.statement(work, writes=True, deadline_s=RENEW_DEADLINE_S)


def _key(lock: Lock) -> tuple[bytes, str, bytes, int]:
    return lock.tenant_id, lock.name, lock.owner, lock.fence
