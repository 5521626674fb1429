"""All rows of the database in files, as they were at one moment, and a new database made of them.

Written by COPY, in text, in one transaction that sees one moment and changes nothing; read back in
one transaction, all or nothing, by the owner of the tables. No program of Postgres is needed, and
the version of the server may be another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from graphlib import TopologicalSorter
from typing import Any, Protocol

import asyncpg
import msgspec

from metadata.database import Connection
from metadata.errors import MetadataError
from metadata.postgres.migrate import upgrade_async
from metadata.subscriptions.seeks import ERA_SHIFT

CONNECT_TIMEOUT_S = 10.0
REVISIONS = "alembic_version"
_TABLES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname
"""
_REFERENCES = """
SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
WHERE connamespace = current_schema()::regnamespace AND contype = 'f' AND conrelid <> confrelid
"""
_SEQUENCES = """
SELECT sequencename::text, last_value FROM pg_sequences
WHERE schemaname = current_schema() AND last_value IS NOT NULL
"""
_COLUMNS = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
# Attempts that began after the backup, and are forgotten, had generations below these.
_FENCE = (
    "UPDATE subscriptions SET generation = greatest(generation + 1, $1)",
    "UPDATE cursors SET generation = subscriptions.generation FROM subscriptions"
    " WHERE subscriptions.tenant_id = cursors.tenant_id"
    " AND subscriptions.uid = cursors.subscription_uid",
)


class Sink(Protocol):
    """A file to write to."""

    def write(self, data: bytes) -> object: ...


class Table(msgspec.Struct, frozen=True):
    """The written part of one table: its columns in their order."""

    name: str
    columns: tuple[str, ...]
    rows: int


class Dump(msgspec.Struct, frozen=True):
    """The content of a dump beside its files. `era` is the newest of the rows."""

    revision: str
    era: int
    tables: tuple[Table, ...]
    sequences: dict[str, int]


class NotEmpty(MetadataError):
    """The database to restore into has tables already."""

    code = "database_not_empty"


class NoSchema(MetadataError):
    """There is nothing of ours in the database."""

    code = "no_schema"


async def dump(url: str, open_file: Callable[[str], AbstractContextManager[Sink]]) -> Dump:
    """Write every table into the file of its name. Raises NoSchema, asyncpg's errors, OSError."""
    connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            names = [row[0] for row in await connection.fetch(_TABLES)]
            if REVISIONS not in names:
                raise NoSchema("the database has no tables of Packetboat")
            revision = await connection.fetchval("SELECT version_num FROM alembic_version")
            era = await connection.fetchval("SELECT max(era) FROM eras")
            tables = []
            for name in names:
                if name != REVISIONS:
                    with open_file(name) as file:
                        tables.append(await _write(connection, name, file))
        # After the rows: what a sequence gave to those is below it.
        sequences = {row[0]: row[1] for row in await connection.fetch(_SEQUENCES)}
        return Dump(revision, era or 0, tuple(tables), sequences)
    finally:
        await connection.close()


async def load(
    url: str, dumped: Dump, open_file: Callable[[str], AbstractContextManager[Any]], *, era: int
) -> None:
    """Make a new database of a dump, in the schema of the dump; `era`: the one that begins next.

    Cursors begin a new generation, so ack ids from before are stale. Raises NotEmpty, RolesNeeded,
    asyncpg's errors, OSError.
    """
    connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    try:
        if await connection.fetch(_TABLES):
            raise NotEmpty("the database is not empty: restore into a new one")
        await upgrade_async(url, dumped.revision)
        async with connection.transaction():
            await _load(connection, dumped, open_file)
            for statement in _FENCE:
                arguments = (era << ERA_SHIFT,) if "$1" in statement else ()
                await connection.execute(statement, *arguments)
    finally:
        await connection.close()


async def _write(connection: Connection, name: str, file: Sink) -> Table:
    columns = tuple(row[0] for row in await connection.fetch(_COLUMNS, name))

    async def write(data: bytes) -> None:
        file.write(data)

    status = await connection.copy_from_table(name, output=write, columns=columns)
    return Table(name, columns, _rows(status))


async def _load(
    connection: Connection,
    dumped: Dump,
    open_file: Callable[[str], AbstractContextManager[Any]],
) -> None:
    tables = {table.name: table for table in dumped.tables}
    references = await connection.fetch(_REFERENCES)
    for name in _in_order(tables, references):
        table = tables[name]
        # Rows that a migration made of its own are in the dump, too.
        await _run(connection, "DELETE FROM %I", name)
        forced = await _unforce(connection, name)
        with open_file(name) as file:
            status = await connection.copy_to_table(name, source=file, columns=table.columns)
        await forced()
        if _rows(status) != table.rows:
            raise MetadataError(f"{name}: {table.rows} rows were dumped, {status} came back")
    for sequence, value in dumped.sequences.items():
        await connection.execute("SELECT setval($1::regclass, $2)", sequence, value)


async def _unforce(connection: Connection, name: str) -> Callable[[], Awaitable[None]]:
    """Suspend a table's row security, which COPY refuses while it binds the current role;
    return a function that restores it.
    """
    was = await connection.fetchval(
        "SELECT relforcerowsecurity FROM pg_class WHERE oid = $1::regclass", name
    )
    if was:
        await _run(connection, "ALTER TABLE %I NO FORCE ROW LEVEL SECURITY", name)

    async def back() -> None:
        if was:
            await _run(connection, "ALTER TABLE %I FORCE ROW LEVEL SECURITY", name)

    return back


def _in_order(names: Mapping[str, Table], references: Iterable[tuple[str, str]]) -> list[str]:
    """Return the tables so that each comes after those that it refers to."""
    order: TopologicalSorter[str] = TopologicalSorter({name: () for name in names})
    for referring, referred in references:
        if referring in names and referred in names:
            order.add(referring, referred)
    return list(order.static_order())


async def _run(connection: Connection, statement: str, table: str) -> None:
    """Run a statement with the table's name in place of %I."""
    await connection.execute(
        await connection.fetchval("SELECT format($1::text, $2::text)", statement, table)
    )


def _rows(status: str) -> int:
    """Return the number of rows in a status such as `COPY 12`."""
    return int(status.rsplit(" ", 1)[1])
