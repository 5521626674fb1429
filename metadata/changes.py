"""Versions of control-plane changes, in commit order.

Each control-plane transaction begins by taking its version from one row, whose lock it keeps until
it has committed: versions appear in order and without gaps, and control-plane transactions, being
one at a time, can't deadlock with each other.
"""

from __future__ import annotations

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Connection
from metadata.models import ChangeCounterRow, ChangeRow
from metadata.types import ChangeKind

CHANNEL = "packetboat_changes"
_TAKE = """
WITH taken AS (
    UPDATE change_counter SET version = version + 1 WHERE id = 1 RETURNING version
)
SELECT version, pg_notify($1, '') FROM taken
"""


async def next_version(session: AsyncSession) -> int:
    """The version of the change that this transaction makes; call it before touching any row.

    Readers of the feed are woken once this commits: said here, since each round trip from now on is
    one for which everybody else's changes wait."""
    taken = (
        update(ChangeCounterRow)
        .where(ChangeCounterRow.id == 1)
        .values(version=ChangeCounterRow.version + 1)
        .returning(ChangeCounterRow.version)
        .cte("taken")
    )
    statement = select(taken.c.version, func.pg_notify(CHANNEL, ""))
    return int((await session.execute(statement)).scalar_one())


async def take_version(connection: Connection) -> int:
    """As `next_version`, for a change that only those hear of who look at the version."""
    version: int = await connection.fetchval(_TAKE, CHANNEL)
    return version


async def record(
    session: AsyncSession,
    version: int,
    kind: ChangeKind,
    tenant_id: bytes,
    uid: bytes,
    name: str,
    topic_uid: bytes | None = None,
) -> None:
    """Tells the readers of the feed, once this commits; `next_version` wakes them."""
    session.add(
        ChangeRow(
            version=version,
            kind=kind.value,
            tenant_id=tenant_id,
            uid=uid,
            name=name,
            topic_uid=topic_uid,
        )
    )
    await session.flush()
