"""Versions of control-plane changes, in commit order.

A transaction that changes something of the control plane takes its locks in this order:

1. the turn of its tenant: transactions of one tenant come one after the other, so none of them
   finds a name free, room for one more, or an owner left, while another takes it away;
2. the rows that it reads to change them, and those that it writes;
3. the row of the counter, from which it takes its version and which it keeps until it has
   committed: so versions appear in order and without gaps. After that it writes the version into
   rows that it has locked, and commits.

Nobody who holds the counter waits for another lock, so a transaction that takes long keeps nobody
waiting but its own tenant, and no two of them can deadlock. Transactions of the data plane take
rows alone. A dry run takes neither turn nor counter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Connection, Database
from metadata.models import ChangeCounterRow, ChangeRow, SubscriptionRow
from metadata.types import ChangeKind, Subscription

T = TypeVar("T")
CHANNEL = "packetboat_changes"
UNTOLD = 0
"""The version of a row that is written before its transaction has taken one."""
_TURN = "SELECT pg_advisory_xact_lock({});"
_TAKE = """
WITH taken AS (
    UPDATE change_counter SET version = version + 1 WHERE id = 1 RETURNING version
)
SELECT version, pg_notify($1, '') FROM taken
"""
TELL_ONE = """taken AS (
    UPDATE change_counter SET version = version + 1 FROM changed WHERE id = 1
    RETURNING version, name
), told AS (
    INSERT INTO changes (version, kind, tenant_id, uid, name, topic_uid)
    SELECT version, $2, $3, $4, name, $4 FROM taken
)"""
"""Part of a WITH: it tells of the topic $4 of the tenant $3 as `tell` does, if `changed` has a row
with its name; `changed` comes before it and locks its rows. The statement notifies `CHANNEL`."""


class FeedChange(NamedTuple):
    """A change, as readers of the feed get it."""

    kind: ChangeKind
    tenant_id: bytes
    uid: bytes
    name: str
    topic_uid: bytes | None = None


def of_subscription(
    one: Subscription | SubscriptionRow, kind: ChangeKind = ChangeKind.SUBSCRIPTION
) -> FeedChange:
    return FeedChange(kind, one.tenant_id, one.uid, one.name, one.topic_uid)


async def wait_turn(session: AsyncSession, tenant_id: bytes) -> None:
    """Wait until no other change of the tenant is at work; call it before all else.

    Values that were read before may have changed since.
    """
    await session.execute(select(func.pg_advisory_xact_lock(_lock_of(tenant_id))))


async def in_turn(
    database: Database,
    tenant_id: bytes,
    work: Callable[[Connection], Awaitable[T]],
    *,
    deadline_s: float | None = None,
) -> T:
    """Run `work` in a transaction of the tenant that waits for its turn as `wait_turn` does.

    The turn is taken in the round trip of BEGIN, and before the snapshot of the first statement.
    """
    turn = _TURN.format(_lock_of(tenant_id))
    sessions = database.of(tenant_id)
    return await sessions.transaction(work, begins_with=turn, deadline_s=deadline_s)


async def tell(session: AsyncSession, *told: FeedChange) -> int:
    """Takes a version for each that is told, in their order, and returns the last one; without any
    it takes one, of which only those hear who look at the version. Call it last: what follows may
    write the version into rows of this transaction, and no more.

    Readers of the feed are woken once this commits: said here, since each round trip from now on is
    one for which everybody else's changes wait."""
    await session.flush()
    count = max(1, len(told))
    taken = (
        update(ChangeCounterRow)
        .where(ChangeCounterRow.id == 1)
        .values(version=ChangeCounterRow.version + count)
        .returning(ChangeCounterRow.version)
        .cte("taken")
    )
    statement = select(taken.c.version, func.pg_notify(CHANNEL, ""))
    last = int((await session.execute(statement)).scalar_one())
    if told:
        rows = [
            {**each._asdict(), "kind": each.kind.value, "version": last - count + number}
            for number, each in enumerate(told, 1)
        ]
        await session.execute(insert(ChangeRow), rows)
    return last


async def take_version(connection: Connection) -> int:
    """Take a version as `tell` does, for a change that only readers of the version notice."""
    version: int = await connection.fetchval(_TAKE, CHANNEL)
    return version


def _lock_of(tenant_id: bytes) -> int:
    """Return the advisory lock of the tenant's turn.

    Two tenants whose ids end alike wait for each other, with no other effect.
    """
    return int.from_bytes(tenant_id[-8:], "big", signed=True)
