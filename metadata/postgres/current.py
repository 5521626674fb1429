"""Asks in one statement whether a database has the schema of this release.

A start that has nothing to migrate does not load the migrations: these, and the library that runs
them, take more than a second of processor time.
"""

from __future__ import annotations

import asyncpg

from metadata.postgres.database_schema import OLDEST, REVISION
from metadata.postgres.role_names import PLATFORM_ROLE, TENANT_ROLE

_TIMEOUT_S = 10.0
_CURRENT = """
SELECT (SELECT array_agg(version_num::text) = ARRAY[$1] FROM alembic_version)
    AND (SELECT array_agg(revision::text) = ARRAY[$1] AND array_agg(oldest::text) = ARRAY[$2]
        FROM database_schema)
    AND (SELECT count(*) = 2 FROM pg_roles
        WHERE rolname = ANY(ARRAY[$3, $4]::name[])
            AND NOT (rolsuper OR rolbypassrls OR rolcanlogin)
            AND pg_has_role(current_user, oid, 'USAGE')
            AND pg_has_role(current_user, oid, CASE
                WHEN current_setting('server_version_num')::int >= 160000
                THEN 'SET' ELSE 'MEMBER' END))
    AND NOT pg_has_role($4::name, $3::name, 'MEMBER')
"""


async def is_current(url: str) -> bool:
    """Return whether `migrate.upgrade` would change nothing and refuse nothing.

    Returns False also if no server answers; the migration then tells what is wrong.
    """
    try:
        connection = await asyncpg.connect(url, timeout=_TIMEOUT_S)
        try:
            answer = await connection.fetchval(
                _CURRENT, REVISION, OLDEST, PLATFORM_ROLE, TENANT_ROLE, timeout=_TIMEOUT_S
            )
        finally:
            await connection.close()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, RuntimeError, ValueError):
        return False
    return bool(answer)
