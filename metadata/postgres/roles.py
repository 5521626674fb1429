"""The two roles in which every statement runs; the login only switches to them.

    packetboat_platform  rows of all tenants: what the platform does by itself, and the hot paths
    packetboat_tenant    rows of the tenant that its transaction names, and no others

Roles belong to a whole Postgres cluster, so all its databases share these two; each database grants
them their permissions (row_security.py). Neither can log in.
"""

from __future__ import annotations

from typing import Any

import asyncpg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from metadata.errors import MetadataError
from metadata.postgres.role_names import PLATFORM_ROLE, TENANT_ROLE

_STATE = text(
    """
    SELECT wanted.rolname AS name, pg_roles.oid IS NOT NULL AS there,
        coalesce(rolsuper OR rolbypassrls, false) AS sees_all,
        coalesce(rolcanlogin, false) AS can_login,
        coalesce(pg_has_role(current_user, pg_roles.oid, 'USAGE'), false) AS ours
    FROM unnest(CAST(:names AS name[])) AS wanted (rolname)
    LEFT JOIN pg_roles USING (rolname)
    """
)
# From Postgres 16 on, a login that may create a role is its administrator, but no member yet.
_MAY_SWITCH = text(
    """
    SELECT bool_and(pg_has_role(current_user, rolname, CASE
        WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END))
    FROM pg_roles WHERE rolname = ANY(CAST(:names AS name[]))
    """
)
_CROSSED = text("SELECT pg_has_role(CAST(:tenant AS name), CAST(:platform AS name), 'MEMBER')")
# Another database of the same cluster may be doing the same: roles are not locked by ours.
_CREATE = """
DO $$ BEGIN
    CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$
"""
_GRANT = """
DO $$ BEGIN
    EXECUTE format('GRANT {role} TO %I {options}', current_user);
EXCEPTION WHEN unique_violation THEN
    NULL;
END $$
"""
_OPTIONS = "WITH INHERIT TRUE, SET TRUE"
_NAMES = {"names": [PLATFORM_ROLE, TENANT_ROLE]}


class RolesNeeded(MetadataError):
    """The login may not make the roles, or they are not what they have to be: says what to run."""

    code = "roles_needed"


def make_roles(connection: Connection) -> None:
    """Makes the roles that are missing and the login a member of both; RolesNeeded, with the
    statements for somebody who may. Idempotent, and quick where there is nothing to do."""
    try:
        with connection.begin_nested():
            _make(connection)
    except DBAPIError as error:
        if _is_refusal(error):
            raise RolesNeeded(_by_hand(connection)) from error
        raise
    for role in _state(connection):
        if role.sees_all or role.can_login:
            raise RolesNeeded(
                f"the role {role.name} must be neither superuser nor BYPASSRLS nor able to log in:"
                f" ALTER ROLE {role.name} NOSUPERUSER NOBYPASSRLS NOLOGIN"
            )
        if not role.ours:
            raise RolesNeeded(_by_hand(connection))
    if connection.scalar(_CROSSED, {"tenant": TENANT_ROLE, "platform": PLATFORM_ROLE}):
        raise RolesNeeded(
            f"{TENANT_ROLE} is a member of {PLATFORM_ROLE}, so it sees every tenant:"
            f" REVOKE {PLATFORM_ROLE} FROM {TENANT_ROLE}"
        )
    if not connection.scalar(_MAY_SWITCH, _NAMES):
        raise RolesNeeded(_by_hand(connection))


def _make(connection: Connection) -> None:
    for role in _state(connection):
        if not role.there:
            connection.execute(text(_CREATE.format(role=role.name)))
    for role in _state(connection):
        if not role.ours:
            options = _OPTIONS if _knows_options(connection) else ""
            connection.execute(text(_GRANT.format(role=role.name, options=options)))


def _state(connection: Connection) -> list[Any]:
    return list(connection.execute(_STATE, _NAMES))


def _knows_options(connection: Connection) -> bool:
    """Return whether the server has options of memberships; before Postgres 16 the member has the
    attribute.
    """
    info = connection.dialect.server_version_info
    return info is not None and info >= (16,)


def _by_hand(connection: Connection) -> str:
    login = connection.scalar(text("SELECT quote_ident(current_user)"))
    grant = f"\n    GRANT {PLATFORM_ROLE}, {TENANT_ROLE} TO {login}"
    if _knows_options(connection):
        grant += f" {_OPTIONS};"
    else:
        grant = f"\n    ALTER ROLE {login} INHERIT;{grant};"
    return (
        f"the login {login} may not make the database roles that Packetboat works in, or become"
        " them. As somebody who may, run:"
        + "".join(
            f"\n    CREATE ROLE {role} NOLOGIN;  -- unless it is there"
            for role in (PLATFORM_ROLE, TENANT_ROLE)
        )
        + grant
        + "\nthen migrate again."
    )


def _is_refusal(error: DBAPIError) -> bool:
    cause: BaseException | None = error.orig
    while cause is not None:
        if isinstance(cause, asyncpg.InsufficientPrivilegeError):
            return True
        cause = cause.__cause__
    return False
