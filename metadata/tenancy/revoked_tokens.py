"""Tokens that were revoked before their time.

Each revocation is told to the change feed; processes that check tokens keep all of them in memory,
so there is a limit of how many a tenant may have at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import Conflict
from metadata.models.identity import RevokedTokenRow
from metadata.types import ChangeKind

MAX_OF_TENANT = 10_000
"""The number of revocations of a tenant at a time.

More tokens than that are revoked all at once, by `tokens_valid_from` of their client.
"""


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """`jti` is 16 bytes."""

    jti: bytes
    tenant_id: bytes
    expires_at: datetime


class RevokedTokenRepository:
    """Across tenants: a token names its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revoke(self, token: RevokedToken, *, most: int = MAX_OF_TENANT) -> None:
        """Revoke a token; a repetition changes nothing. Raises Conflict when the tenant has `most`
        already.
        """

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, token.tenant_id)
            # Other tenants' as well, but never one that another revocation drops now.
            over = (
                select(RevokedTokenRow.jti)
                .where(RevokedTokenRow.expires_at < func.now())
                .with_for_update(skip_locked=True)
            )
            await session.execute(delete(RevokedTokenRow).where(RevokedTokenRow.jti.in_(over)))
            having = await session.scalar(
                select(func.count()).where(RevokedTokenRow.tenant_id == token.tenant_id)
            )
            if having is not None and having >= most:
                raise Conflict("tenant", token.tenant_id.hex(), f"has {most} revoked tokens")
            await session.execute(
                insert(RevokedTokenRow)
                .values(jti=token.jti, tenant_id=token.tenant_id, expires_at=token.expires_at)
                .on_conflict_do_nothing()
            )
            told = changes.FeedChange(ChangeKind.TOKEN, token.tenant_id, token.jti, "revoked")
            await changes.tell(session, told)

        await self._database.platform.write(work)

    async def all(self) -> tuple[RevokedToken, ...]:
        """Return the revocations whose time is not over."""

        async def work(session: AsyncSession) -> tuple[RevokedToken, ...]:
            rows = await session.scalars(
                select(RevokedTokenRow).where(RevokedTokenRow.expires_at >= func.now())
            )
            return tuple(RevokedToken(row.jti, row.tenant_id, row.expires_at) for row in rows)

        return await self._database.platform.read(work)
