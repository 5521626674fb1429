from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from metadata.ids import new_uid
from metadata.models import Base
from metadata.postgres.current import is_current
from metadata.postgres.database_schema import REVISION
from metadata.postgres.migrate import configuration, upgrade_async
from metadata.postgres.role_names import TENANT_ROLE

PLATFORM = {
    "alembic_version",
    "change_counter",
    "changes",
    "database_schema",
    "eras",
    "forwarders",
    "signing_keys",
    "usage_reporters",
}
"""Tables that belong to no tenant."""


async def differences(url: str) -> list[Any]:
    def compare(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, Base.metadata))

    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(compare)
    finally:
        await engine.dispose()


async def test_the_migrations_make_what_the_models_say(database_url: str) -> None:
    assert await differences(database_url) == []


async def test_several_processes_may_migrate_at_once(postgres_url: str) -> None:
    server, _, _ = postgres_url.rpartition("/")
    admin = await asyncpg.connect(postgres_url)
    try:
        await admin.execute("CREATE DATABASE bare TEMPLATE template0")
        url = f"{server}/bare"
        await asyncio.gather(*(upgrade_async(url) for _ in range(3)))
        await upgrade_async(url)
        assert await differences(url) == []
        await admin.execute("DROP DATABASE bare WITH (FORCE)")
    finally:
        await admin.close()


async def test_a_database_is_current_when_a_migration_would_change_nothing(
    database_url: str,
) -> None:
    """Asked at each start of `packetboat up`: a migration costs a second of processor time."""
    assert await is_current(database_url)
    server, _, _ = database_url.rpartition("/")
    assert not await is_current(f"{server}/template1"), "it has no tables"
    assert not await is_current("postgresql://nobody@127.0.0.1:1/none"), "nobody answers"
    connection = await asyncpg.connect(database_url)
    try:
        for table, column in (("database_schema", "revision"), ("alembic_version", "version_num")):
            await connection.execute(f"UPDATE {table} SET {column} = '0001'")
            assert not await is_current(database_url)
            await connection.execute(f"UPDATE {table} SET {column} = '{REVISION}'")
        await connection.execute(f"ALTER ROLE {TENANT_ROLE} LOGIN")
        assert not await is_current(database_url)
    finally:
        await connection.execute(f"ALTER ROLE {TENANT_ROLE} NOLOGIN")
        await connection.close()
    assert await is_current(database_url)


async def test_every_key_of_a_tenants_own_starts_with_the_tenant(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT relname, attname FROM pg_index"
            " JOIN pg_class ON pg_class.oid = indrelid"
            " JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]"
            " WHERE indisprimary AND relnamespace = 'public'::regnamespace"
        )
    finally:
        await connection.close()
    firsts = {table: column for table, column in rows if table not in PLATFORM}
    assert len(firsts) >= 8
    assert set(firsts.values()) == {"tenant_id"}


def test_there_is_one_line_of_revisions() -> None:
    script = ScriptDirectory.from_config(configuration(None))  # type: ignore[arg-type]
    assert len(script.get_heads()) == 1
    assert [revision.revision for revision in script.walk_revisions()][-1] == "0001"


def test_uids_sort_by_time_and_say_what_they_are() -> None:
    uids = [new_uid() for _ in range(1000)]
    assert len(set(uids)) == 1000
    stamps = [uid[:6] for uid in uids]
    assert stamps == sorted(stamps)
    assert {(uid[6] >> 4, uid[8] >> 6) for uid in uids} == {(7, 2)}
