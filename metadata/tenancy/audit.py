"""Keeps the audit: who asked for which change, and its outcome.

A row is committed before what it tells of is begun, and has a status once its outcome is known: a
row without one tells of a change that may or may not have been made. So there is no change without
its row, whenever a process dies. Ids are UUIDs of version 7: they sort by time.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Connection, Database
from metadata.errors import BadPageToken
from metadata.models import AuditRow
from metadata.types import Page

_APPEND = """
INSERT INTO audit (tenant_id, id, actor, action, resource, status, request_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb)
"""
_FINISH = "UPDATE audit SET status = $3 WHERE tenant_id = $1 AND id = $2"
_VERSION = b"2"
_UID_BYTES = 16


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request that would change something, or what the platform did by itself. `actor` is a
    subject, `resource` a path without its first slash, `detail` holds no secrets."""

    tenant_id: bytes
    id: bytes
    actor: str
    action: str
    resource: str
    status: int | None
    """The status of the answer; None until it is known."""
    request_id: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    """The time by Postgres' clock; None before the row is there."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The wanted entries; None in a field allows any value.

    `resource` also finds resources below it; times are half-open.
    """

    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    oldest_first: bool = False


class AuditLog:
    """Rows are added and get their status; they never change otherwise, and go by age."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries of one tenant; they are committed when this returns."""

        async def work(connection: Connection) -> None:
            for entry in entries:
                await connection.execute(_APPEND, *_columns(entry))

        if entries:
            await self._database.of(entries[0].tenant_id).transaction(work)

    @staticmethod
    def add(session: AsyncSession, entries: Sequence[AuditEntry]) -> None:
        """Add entries to the session, of the session's tenant: changes that the platform
        made by itself.
        """
        session.add_all([_row(entry) for entry in entries])

    async def finish(self, entry: AuditEntry, status: int) -> None:
        """Set the outcome of an entry.

        The platform writes it: tenants' sessions cannot change rows.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_FINISH, entry.tenant_id, entry.id, status)

        await self._database.statement(work, writes=True)

    async def page(
        self,
        tenant_id: bytes,
        wanted: AuditFilter,
        *,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[AuditEntry]:
        """Return the newest entries first, or the oldest if those are wanted first.

        Raises BadPageToken.
        """
        statement = _matching(tenant_id, wanted).limit(page_size + 1)
        if page_token is not None:
            last = _id_of(page_token)
            statement = statement.where(
                AuditRow.id > last if wanted.oldest_first else AuditRow.id < last
            )

        async def work(session: AsyncSession) -> Page[AuditEntry]:
            found = [_entry(row) for row in await session.scalars(statement)]
            if len(found) <= page_size:
                return Page(tuple(found), None)
            kept = tuple(found[:page_size])
            return Page(kept, urlsafe_b64encode(_VERSION + kept[-1].id).decode())

        return await self._database.of(tenant_id).read(work)

    async def prune(self, older_than_s: float, limit: int) -> int:
        """Delete old entries of all tenants, at most `limit`; return their number."""
        key = tuple_(AuditRow.tenant_id, AuditRow.id)
        old = (
            select(AuditRow.tenant_id, AuditRow.id)
            .where(AuditRow.at < func.now() - timedelta(seconds=older_than_s))
            .order_by(AuditRow.at)
            .limit(limit)
        )
        statement = delete(AuditRow).where(key.in_(old)).returning(AuditRow.id)
        # The session has none of these rows; else it asks for their keys too, in any order.
        statement = statement.execution_options(synchronize_session=False)

        async def work(session: AsyncSession) -> int:
            return len((await session.execute(statement)).all())

        return await self._database.platform.write(work)


def _matching(tenant_id: bytes, wanted: AuditFilter) -> Select[AuditRow]:
    order = AuditRow.id.asc() if wanted.oldest_first else AuditRow.id.desc()
    conditions: list[ColumnElement[bool]] = [AuditRow.tenant_id == tenant_id]
    if wanted.actor is not None:
        conditions.append(AuditRow.actor == wanted.actor)
    if wanted.action is not None:
        conditions.append(AuditRow.action == wanted.action)
    if wanted.resource is not None:
        below = AuditRow.resource.startswith(wanted.resource + "/", autoescape=True)
        conditions.append((AuditRow.resource == wanted.resource) | below)
    if wanted.start is not None:
        conditions.append(AuditRow.at >= wanted.start)
    if wanted.end is not None:
        conditions.append(AuditRow.at < wanted.end)
    return select(AuditRow).where(*conditions).order_by(order)


def _id_of(page_token: str) -> bytes:
    try:
        raw = urlsafe_b64decode(page_token.encode("ascii"))
    except ValueError as error:
        raise BadPageToken("the page token is not one of ours") from error
    if raw[:1] != _VERSION or len(raw) != 1 + _UID_BYTES:
        raise BadPageToken("the page token is not one of ours")
    return raw[1:]


def _columns(entry: AuditEntry) -> tuple[object, ...]:
    """Return the parameters of `_APPEND`."""
    return (
        *(entry.tenant_id, entry.id, entry.actor, entry.action, entry.resource),
        *(entry.status, entry.request_id, json.dumps(dict(entry.detail))),
    )


def _row(entry: AuditEntry) -> AuditRow:
    return AuditRow(
        tenant_id=entry.tenant_id,
        id=entry.id,
        actor=entry.actor,
        action=entry.action,
        resource=entry.resource,
        status=entry.status,
        request_id=entry.request_id,
        detail=dict(entry.detail),
    )


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        tenant_id=row.tenant_id,
        id=row.id,
        actor=row.actor,
        action=row.action,
        resource=row.resource,
        status=row.status,
        request_id=row.request_id,
        detail=dict(row.detail),
        at=row.at,
    )
