"""The schema of a database, and the releases that may use it.

Migrations only add, for one release: what a release has no use for any more goes with the next one.
So the processes of two neighbouring releases work on one schema, that of the later; it says itself
(table `database_schema`) which is the oldest schema whose processes may. A process whose schema is
newer than the database's, or older than that, does not start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from metadata.errors import MetadataError

if TYPE_CHECKING:
    from metadata.database import Connection, Database

MIGRATIONS = Path(__file__).parents[1] / "migrations"
REVISION = max(path.stem[1:5] for path in (MIGRATIONS / "versions").glob("v*.py"))
"""The schema that this release is made for: the number of its newest migration."""
OLDEST = "0012"
"""The schema of release 0.2.0: processes made for it, or for a later one, may use this schema."""
_FOUND = "SELECT revision, oldest FROM database_schema"


class UnfitSchema(MetadataError):
    """This release can't use the database as it is; the text says what to do."""

    code = "unfit_schema"


class DatabaseSchema(NamedTuple):
    """The row in which a database describes itself. Revisions sort as text."""

    revision: str
    oldest: str


async def check(database: Database, deadline_s: float | None = None) -> None:
    """Raises UnfitSchema; MetadataUnavailable where nobody can say."""
    judge(await database.statement(read, writes=False, deadline_s=deadline_s))


async def read(connection: Connection) -> DatabaseSchema | None:
    """Return None for a database that is older than the table, or has no tables at all."""
    try:
        row = await connection.fetchrow(_FOUND)
    except asyncpg.UndefinedTableError:
        return None
    return None if row is None else DatabaseSchema(*row)


def judge(found: DatabaseSchema | None) -> None:
    """Raises UnfitSchema unless this release may use it."""
    if found is None or found.revision < REVISION:
        has = "an older schema, or none" if found is None else f"schema {found.revision}"
        raise UnfitSchema(
            f"the database has {has}, and this release needs {REVISION}:"
            " run `packetboat migrate` of this release"
        )
    if found.oldest > REVISION:
        raise UnfitSchema(
            f"the database has schema {found.revision}, which releases from schema"
            f" {found.oldest} on can use, and this one has {REVISION}: run a later release"
        )
