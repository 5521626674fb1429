"""Keys that the platform signs tokens with: made, followed and dropped under one lock.

At each moment one key signs. `signs_from` and `signs_until` of the keys are half-open and disjoint,
by Postgres' clock, and a constraint of the table says so too. A key is published before it signs,
and verifies until the last token it signed is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.models.identity import SigningKeyRow
from metadata.types import ChangeKind

_LOCK = 7_021_901_001
"""The number of the advisory lock for changes of signing keys; nothing else uses it."""
NOBODY = bytes(16)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """`public_jwk` is a JWK without its private members; `private_sealed` the whole one, sealed."""

    kid: str
    algorithm: str
    public_jwk: Mapping[str, str]
    private_sealed: bytes = field(repr=False)
    signs_from: datetime
    signs_until: datetime
    verifies_until: datetime


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys that sign, will sign or verify still, by `signs_from`; `now` is Postgres' clock."""

    now: datetime
    keys: tuple[SigningKey, ...]


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """A change of a ring.

    `ended` are keys that stop at once, to sign and to verify; `sealed` are private parts, sealed
    anew.
    """

    added: SigningKey | None = None
    replaced: SigningKey | None = None
    """The present key; one with the same kid takes its place."""
    ended: frozenset[str] = frozenset()
    sealed: Mapping[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.replaced or self.ended or self.sealed)


class SigningKeyRepository:
    """The signing keys of the whole installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ring(self) -> KeyRing:
        return await self._database.platform.read(_ring)

    async def turn(self, plan: Callable[[KeyRing], KeyRotation]) -> KeyRing:
        """Apply `plan` to the present ring, while nobody else changes it; return the new ring.

        A change is told to the feed, and drops keys that verify nothing any more.
        """

        async def work(session: AsyncSession) -> KeyRing:
            await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            ring = await _ring(session)
            turn = plan(ring)
            if not turn:
                return ring
            await _apply(session, turn)
            await session.execute(
                delete(SigningKeyRow).where(SigningKeyRow.verifies_until <= func.now())
            )
            kid = turn.added.kid if turn.added is not None else ""
            await session.flush()
            ring = await _ring(session)
            await changes.tell(session, changes.FeedChange(ChangeKind.TOKEN, NOBODY, NOBODY, kid))
            return ring

        return await self._database.platform.write(work)


async def _ring(session: AsyncSession) -> KeyRing:
    # The clock, not the transaction's beginning: a wait for the lock may lie between.
    now = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    rows = await session.scalars(
        select(SigningKeyRow)
        .where(SigningKeyRow.verifies_until > now)
        .order_by(SigningKeyRow.signs_from)
        .execution_options(populate_existing=True)
    )
    return KeyRing(now, tuple(_key(row) for row in rows))


async def _apply(session: AsyncSession, turn: KeyRotation) -> None:
    if turn.ended:
        await session.execute(delete(SigningKeyRow).where(SigningKeyRow.kid.in_(turn.ended)))
    if turn.replaced is not None:
        row = await session.get_one(SigningKeyRow, turn.replaced.kid)
        row.signs_until = turn.replaced.signs_until
        row.verifies_until = turn.replaced.verifies_until
    for kid, sealed in turn.sealed.items():
        (await session.get_one(SigningKeyRow, kid)).private_sealed = sealed
    # Written before the new one comes: the two may not overlap at any moment.
    await session.flush()
    if turn.added is not None:
        key = turn.added
        session.add(
            SigningKeyRow(
                kid=key.kid,
                algorithm=key.algorithm,
                public_jwk=dict(key.public_jwk),
                private_sealed=key.private_sealed,
                signs_from=key.signs_from,
                signs_until=key.signs_until,
                verifies_until=key.verifies_until,
            )
        )


def _key(row: SigningKeyRow) -> SigningKey:
    return SigningKey(
        kid=row.kid,
        algorithm=row.algorithm,
        public_jwk=row.public_jwk,
        private_sealed=row.private_sealed,
        signs_from=row.signs_from,
        signs_until=row.signs_until,
        verifies_until=row.verifies_until,
    )
