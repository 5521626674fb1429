"""Brings a database up to this version's schema; safe to run from several processes at once."""

from __future__ import annotations

import asyncio

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from metadata.postgres.database_schema import MIGRATIONS, OLDEST, REVISION, DatabaseSchema, judge
from metadata.postgres.roles import make_roles

_LOCK = 7_265_746_001
"""Any number will do, so long as nothing else takes an advisory lock on it."""
_CONNECT_TIMEOUT_S = 10.0
_FOUND = "SELECT revision, oldest FROM database_schema"
_FORGET = "DELETE FROM database_schema"
_SAY = "INSERT INTO database_schema (revision, oldest) VALUES (:revision, :oldest)"


def upgrade(url: str, revision: str = "head") -> None:
    """Migrate the schema, without an event loop; all migrations commit together or not at all.

    Does nothing where the schema is a later release's that this one may use; UnfitSchema where it
    may not. RolesNeeded where somebody else has to make the database roles first.
    """
    asyncio.run(upgrade_async(url, revision))


async def upgrade_async(url: str, revision: str = "head") -> None:
    """Migrate the schema inside an event loop."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(url, timeout=_CONNECT_TIMEOUT_S),
        poolclass=NullPool,
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await connection.run_sync(_run, revision)
    finally:
        await engine.dispose()


def configuration(connection: Connection) -> Config:
    """Return Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _run(connection: Connection, revision: str) -> None:
    # Each time: a restored database may be in a cluster without them, or the login another.
    make_roles(connection)
    config = configuration(connection)
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    found = _revision(connection)
    if found is not None and found not in known:
        judge(DatabaseSchema(*connection.execute(text(_FOUND)).one()))
        return
    command.upgrade(config, revision)
    if _revision(connection) == REVISION:
        connection.execute(text(_FORGET))
        connection.execute(text(_SAY), {"revision": REVISION, "oldest": OLDEST})


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
