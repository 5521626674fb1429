"""The rows and tables that the roles of roles.py may use, by the catalogue.

Every table with a `tenant_id` has row-level security, forced, so that it binds the table's owner
too: the tenant's role sees and writes rows of the tenant that its transaction has named, and no
statement of it works where none is named; the platform's role has all rows. The tenant's role gets
the tables and columns of tenants that requests need, and those of the platform that are listed
here.

A migration that makes a table ends with `secure_tables`. A migration that changes rows may: it runs
as a login that has the platform's privileges (roles.make_roles refuses one that has not).
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from metadata.postgres.role_names import PLATFORM_ROLE, TENANT_ROLE, TENANT_SETTING

ALL = "SELECT, INSERT, UPDATE, DELETE"
ADDS = "SELECT, INSERT"
READS = "SELECT"
NOTHING = ""

TENANT_MAY = {
    # Tables of operators' decisions, and of events.
    "tenants": READS,
    "quotas": READS,
    "usage_hours": READS,
    "audit": "SELECT, INSERT, UPDATE (status)",
    "changes": ADDS,
    "revoked_tokens": READS,
    # Tables that the platform uses beside a tenant's objects. Rows that go with a topic or a
    # subscription go by foreign keys, which need no permission.
    "ack_history": READS,
    "ack_publications": NOTHING,
    "assignment_hints": NOTHING,
    "due_index": NOTHING,
    "due_progress": NOTHING,
    "forwarded": NOTHING,
    "push_attempts": READS,
    "quota_demands": NOTHING,
    "topic_usage": READS,
    "lock_waiters": READS,
    "locks": "SELECT, DELETE",
    # Tables of the platform: each change of a tenant takes a version; a seek asks the era, and so
    # does every connection (metadata/eras.py).
    "change_counter": "SELECT, UPDATE (version)",
    "eras": READS,
}
"""Tables not named: `ALL` where they have a `tenant_id`, else nothing."""
TRUNCATED = ("due_index", "due_progress")
"""Emptied by the repair of a Postgres that went back in time; row security knows no TRUNCATE."""

_TABLES = text(
    """
    SELECT relname AS name, EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attname = 'tenant_id' AND NOT attisdropped
    ) AS of_tenants
    FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
      AND relname <> 'alembic_version'
    ORDER BY relname
    """
)
_OWN = f"tenant_id = current_setting('{TENANT_SETTING}')::uuid"
_SECURE = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    "DROP POLICY IF EXISTS own_tenant ON {table}",
    f"CREATE POLICY own_tenant ON {{table}} TO {TENANT_ROLE} USING ({_OWN}) WITH CHECK ({_OWN})",
    "DROP POLICY IF EXISTS all_tenants ON {table}",
    f"CREATE POLICY all_tenants ON {{table}} TO {PLATFORM_ROLE} USING (true) WITH CHECK (true)",
)
_SCHEMA = (
    "GRANT USAGE ON SCHEMA {schema} TO {platform}, {tenant}",
    "GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {platform}",
)


def secure_tables(connection: Connection) -> None:
    """Brings every table of the schema to what is said above. Idempotent; takes short exclusive
    locks."""
    quote = connection.dialect.identifier_preparer.quote
    schema = quote(connection.scalar(text("SELECT current_schema()::text")))
    for statement in _SCHEMA:
        connection.exec_driver_sql(
            statement.format(schema=schema, platform=PLATFORM_ROLE, tenant=TENANT_ROLE)
        )
    for name, of_tenants in connection.execute(_TABLES).all():
        table = quote(name)
        if of_tenants:
            for statement in _SECURE:
                # Not text(): the casts' colons would be parameters.
                connection.exec_driver_sql(statement.format(table=table))
        platform = ALL + ", TRUNCATE" if name in TRUNCATED else ALL
        _grant(connection, table, PLATFORM_ROLE, platform)
        default = ALL if of_tenants else NOTHING
        _grant(connection, table, TENANT_ROLE, TENANT_MAY.get(name, default))


def _grant(connection: Connection, table: str, role: str, privileges: str) -> None:
    connection.exec_driver_sql(f"REVOKE ALL ON {table} FROM {role}")
    if privileges:
        connection.exec_driver_sql(f"GRANT {privileges} ON {table} TO {role}")
