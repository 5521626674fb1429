"""The database as the holder of a lock has it: nothing is written but under the lock's fence.

A process that may be deposed while it works is given this in the place of the `Database`, and its
repositories are made of it: so there is no way for it to write without the fence. Each transaction
that writes begins with the check, in the round trip of its BEGIN, whatever role it goes on in. A
new holder waits for what was checked before it (locks.py), and comes before what is after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Connection, Database
from metadata.locks.locks import Lock
from metadata.outcome import FENCED_OUT
from metadata.postgres.role_names import PLATFORM_ROLE
from metadata.settings import DatabaseSettings

T = TypeVar("T")

# BEGIN takes no parameters, so neither does what goes with it: all values are numbers or digits.
_CHECK = """
SET LOCAL ROLE {role};
DO $check$ BEGIN
    PERFORM FROM locks
    WHERE tenant_id = '{tenant_id}' AND name = convert_from('\\x{name}', 'UTF8')
      AND owner = '{owner}' AND fence = {fence:d}
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lock has a new holder' USING ERRCODE = '{fenced_out}';
    END IF;
END $check$;
"""


class FencedDatabase(Database):
    """`held` gives the lock as it was last renewed, or raises LeaseLost, as every write here does
    when the lock has a new holder. Reads are as ever. The maker of the database connects and
    closes it. All of it is the platform's work: it does not wait in the line of any tenant."""

    def __init__(self, database: Database, held: Callable[[], Lock]) -> None:
        self._database = database
        self._held = held

    @property
    def settings(self) -> DatabaseSettings:
        return self._database.settings

    async def session(
        self,
        work: Callable[[AsyncSession], Awaitable[T]],
        becoming: str,
        writes: bool,
        deadline_s: float | None,
        tenant_id: bytes | None = None,
    ) -> T:
        if writes:
            becoming = self._check() + becoming
        return await self._database.session(work, becoming, writes, deadline_s)

    async def statement(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool,
        deadline_s: float | None = None,
        always: bool = False,
        tenant_id: bytes | None = None,
    ) -> T:
        """Run one statement; one that writes becomes a transaction: three round trips instead of
        one.
        """
        if writes:
            return await self.transaction(work, deadline_s=deadline_s)
        return await self._database.statement(
            work, writes=False, deadline_s=deadline_s, always=always
        )

    async def transaction(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool = True,
        deadline_s: float | None = None,
        becoming: str = "",
        tenant_id: bytes | None = None,
    ) -> T:
        if writes:
            becoming = self._check() + becoming
        return await self._database.transaction(
            work, writes=writes, deadline_s=deadline_s, becoming=becoming
        )

    def _check(self) -> str:
        lock = self._held()
        return _CHECK.format(
            role=PLATFORM_ROLE,
            tenant_id=lock.tenant_id.hex(),
            name=lock.name.encode().hex(),
            owner=lock.owner.hex(),
            fence=lock.fence,
            fenced_out=FENCED_OUT,
        )
