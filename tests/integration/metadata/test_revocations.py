"""Revocations in a real Postgres: known to all that follow the feed, and after a start."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from auth.errors import VerifierUnavailable
from auth.revocations import Revocations
from metadata.database import Database
from metadata.errors import Conflict
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.models.identity import RevokedTokenRow
from metadata.settings import DatabaseSettings
from metadata.tenancy.revoked_tokens import RevokedToken, RevokedTokenRepository
from metadata.types import Change, ChangeKind

TENANT = b"t" * 16
TOLD_WITHIN_S = 5.0


def token(*, over_in_s: float = 3600.0, tenant_id: bytes = TENANT) -> RevokedToken:
    return RevokedToken(new_uid(), tenant_id, datetime.now(UTC) + timedelta(seconds=over_in_s))


async def test_another_process_hears_of_it(database: Database, database_url: str) -> None:
    other = Database(DatabaseSettings(database_url))
    await other.connect()
    feed, known = ChangeFeed(other), Revocations(RevokedTokenRepository(other))
    feed.add_listener(known.on_changes)
    await feed.start()
    try:
        before, after = token(), token()
        await RevokedTokenRepository(database).revoke(before)
        assert await known.includes(before.jti)
        assert not await known.includes(after.jti)
        await RevokedTokenRepository(database).revoke(after)
        # The feed's own task: nothing here asks it to look.
        async with asyncio.timeout(TOLD_WITHIN_S):
            while not await known.includes(after.jti):
                await asyncio.sleep(0.01)
    finally:
        await feed.close()
        await other.close()


async def test_a_start_finds_those_of_before(database: Database) -> None:
    repository = RevokedTokenRepository(database)
    revoked = token()
    await repository.revoke(revoked)
    await repository.revoke(revoked)
    known = Revocations(repository)
    assert await known.includes(revoked.jti)
    assert not await known.includes(new_uid())


async def test_a_feed_that_missed_too_much_reads_all_again(database: Database) -> None:
    repository = RevokedTokenRepository(database)
    known = Revocations(repository)
    missed = token()
    assert not await known.includes(missed.jti)
    await repository.revoke(missed)
    assert not await known.includes(missed.jti)
    await known.on_changes([Change(9, ChangeKind.RESET, b"", b"", "")])
    assert await known.includes(missed.jti)


async def test_rows_go_when_the_token_is_over(database: Database) -> None:
    repository = RevokedTokenRepository(database)
    over, live = token(over_in_s=-1), token()
    await repository.revoke(over)
    await repository.revoke(live)
    assert {one.jti for one in await repository.all()} == {live.jti}
    kept = await database.platform.read(
        lambda session: session.scalar(select(func.count()).select_from(RevokedTokenRow))
    )
    assert kept == 1


async def test_a_tenant_has_a_bounded_number(database: Database) -> None:
    repository = RevokedTokenRepository(database)
    for _ in range(3):
        await repository.revoke(token(), most=3)
    with pytest.raises(Conflict):
        await repository.revoke(token(), most=3)
    await repository.revoke(token(tenant_id=b"o" * 16), most=3)


async def test_without_postgres_nothing_is_guessed_before_the_first_look() -> None:
    nowhere = Database(DatabaseSettings("postgresql://nobody@127.0.0.1:1/none"))
    await nowhere.connect()
    try:
        with pytest.raises(VerifierUnavailable):
            await Revocations(RevokedTokenRepository(nowhere)).includes(new_uid())
    finally:
        await nowhere.close()
