"""One gateway process's part in locks, and what Postgres says of them."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from gateway.locks.wait_list import LockWaitList
from metadata.database import Connection, Database
from metadata.locks.locks import Claim, Held, Lock, LockRepository
from metadata.locks.waiters import LAST_TICKET

TENANT = bytes(15) + b"\x07"
NAME = "nightly"


class CountingLocks(LockRepository):
    """Counts its tries."""

    tries = 0

    async def acquire(self, claim: Claim, ticket: int = LAST_TICKET) -> Lock | Held:
        self.tries += 1
        return await super().acquire(claim, ticket)


class Process:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.locks = CountingLocks(database)
        self.line = LockWaitList(database, locks=self.locks)
        self._running = asyncio.create_task(self.line.run())

    async def acquire(
        self, holder: str = "x", *, wait_s: float = 20.0, ttl_s: float = 60.0, request_id: str = ""
    ) -> Lock | Held:
        claim = Claim(
            TENANT,
            NAME,
            secrets.token_bytes(16),
            ttl_s,
            holder,
            request_id or secrets.token_hex(8),
        )
        return await self.line.acquire(claim, wait_s, repeatable=bool(request_id))

    async def taken(self, holder: str = "x", **options: Any) -> Lock:
        got = await self.acquire(holder, **options)
        assert isinstance(got, Lock), got
        return got

    async def stop(self) -> None:
        """Let the process die: it renews none of its places and hears nothing more."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def close(self) -> None:
        await self.stop()
        await self.line.waits.close()


async def ask(database: Database, query: str, *arguments: object) -> Any:
    async def work(connection: Connection) -> Any:
        return await connection.fetchval(query, *arguments)

    return await database.statement(work, writes=True)


async def places(database: Database) -> int:
    count: int = await ask(database, "SELECT count(*) FROM lock_waiters")
    return count


async def until_places(database: Database, count: int) -> None:
    async with asyncio.timeout(10):
        while await places(database) != count:
            await asyncio.sleep(0.01)


async def holder(database: Database) -> str | None:
    query = "SELECT holder FROM locks WHERE owner IS NOT NULL AND lease_until > clock_timestamp()"
    found: str | None = await ask(database, query)
    return found
