from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from metadata.database import Database
from metadata.postgres import database_schema
from metadata.postgres.database_schema import OLDEST, REVISION, DatabaseSchema, UnfitSchema, judge
from metadata.postgres.migrate import configuration, upgrade_async
from metadata.settings import DatabaseSettings

LATER = "9998"


def scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(configuration(None))  # type: ignore[arg-type]


EARLIER = str(scripts().get_revision(REVISION).down_revision)
"""The schema before this release's. OLDEST is no earlier one where a release migrates nothing."""


@pytest.fixture
async def url(postgres_url: str) -> AsyncIterator[str]:
    """Yield the URL of a database without tables."""
    server, _, _ = postgres_url.rpartition("/")
    admin = await asyncpg.connect(postgres_url)
    try:
        await admin.execute("CREATE DATABASE other_schema TEMPLATE template0")
        yield f"{server}/other_schema"
    finally:
        await admin.execute("DROP DATABASE other_schema WITH (FORCE)")
        await admin.close()


async def said(url: str) -> DatabaseSchema | None:
    connection = await asyncpg.connect(url)
    try:
        return await database_schema.read(connection)
    finally:
        await connection.close()


async def make_later(url: str, oldest: str) -> None:
    """Leave the database as the migrate command of a later release does."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("UPDATE alembic_version SET version_num = $1", LATER)
        await connection.execute(
            "UPDATE database_schema SET revision = $1, oldest = $2", LATER, oldest
        )
    finally:
        await connection.close()


async def checked(url: str) -> None:
    """Check the schema as a server does when it starts."""
    database = Database(DatabaseSettings(url))
    await database.connect()
    try:
        await database_schema.check(database)
    finally:
        await database.close()


def test_it_is_named_as_the_migrations_are() -> None:
    assert scripts().get_current_head() == REVISION
    assert scripts().get_revision(OLDEST) is not None


async def test_migrate_says_what_it_made(url: str) -> None:
    assert await said(url) is None
    await upgrade_async(url, EARLIER)
    assert await said(url) is None
    await asyncio.gather(*(upgrade_async(url) for _ in range(2)))
    assert await said(url) == (REVISION, OLDEST)
    await checked(url)


async def test_an_earlier_schema_is_refused_until_it_is_migrated(url: str) -> None:
    await upgrade_async(url, EARLIER)
    with pytest.raises(UnfitSchema, match="run `packetboat migrate`"):
        await checked(url)
    await upgrade_async(url)
    await checked(url)


async def test_a_later_schema_is_used_and_left_alone_where_it_may_be(url: str) -> None:
    await upgrade_async(url)
    await make_later(url, REVISION)
    await checked(url)
    await upgrade_async(url)
    assert await said(url) == (LATER, REVISION)


async def test_a_much_later_schema_is_refused(url: str) -> None:
    await upgrade_async(url)
    await make_later(url, "9997")
    for refused in (checked, upgrade_async):
        with pytest.raises(UnfitSchema, match="run a later release"):
            await refused(url)


def test_revisions_are_compared() -> None:
    judge(DatabaseSchema(REVISION, REVISION))
    with pytest.raises(UnfitSchema):
        judge(DatabaseSchema(EARLIER, EARLIER))
