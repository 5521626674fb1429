"""A backup holds the history of all topics for its length.

Postgres is copied before the store, so what its rows say is not acked yet must still be in the
store when that is copied. The hold is a lock of the platform: it ends a minute after a backup that
died, and a backup whose hold ended too early is no backup (`LeaseLost`).

Order: the hold is taken before the first row is copied. A trim asks for holds after it has read
what pins and cursors hold (retention.py), so one that finds none has read what was so before the
hold, and trims nothing that the copy speaks of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from metadata.database import Database
from metadata.errors import LeaseLost, MetadataError
from metadata.ids import new_uid
from metadata.locks.locks import PLATFORM, Claim, Lock, LockRepository

NAMES = tuple(f"backup/{number}" for number in range(8))
"""One for each backup that may be under way at a time."""
TTL_S = 60.0
RENEW_EVERY_S = 10.0
HELD = """
SELECT EXISTS (
    SELECT FROM locks
    WHERE tenant_id = $1 AND name = ANY($2::text[]) AND owner IS NOT NULL
      AND lease_until > clock_timestamp()
)
"""
HELD_ARGUMENTS = (PLATFORM, NAMES)

Check = Callable[[], Awaitable[None]]


@asynccontextmanager
async def holding(database: Database) -> AsyncIterator[Check]:
    """Hold all history: nothing is trimmed while this is open. Raises MetadataError.

    Call the yielded check at the end, before the backup counts: it raises LeaseLost where the hold
    ended meanwhile.
    """
    locks = LockRepository(database)
    lock = await _take(locks)
    renewing = asyncio.create_task(_renew(locks, lock))

    async def check() -> None:
        await locks.renew(lock)

    try:
        yield check
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        with suppress(MetadataError):  # it ends by itself
            await locks.release(lock)


async def _take(locks: LockRepository) -> Lock:
    owner = new_uid()
    for name in NAMES:
        got = await locks.acquire(Claim(PLATFORM, name, owner, TTL_S, holder="backup"))
        if isinstance(got, Lock):
            return got
    raise LeaseLost(f"{len(NAMES)} backups are under way: wait for one to end")


async def _renew(locks: LockRepository, lock: Lock) -> None:
    """Renew the lock of a backup for ever; the check at the end reports a failure."""
    while True:
        await asyncio.sleep(RENEW_EVERY_S)
        with suppress(MetadataError):
            await locks.renew(lock)
