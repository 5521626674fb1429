"""Schemas and their versions. A version is never changed; numbers grow by one, from 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.counts import NO_LIMITS, SCHEMAS, Defaults, require_room
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.models import SchemaRow, SchemaVersionRow, TopicRow
from metadata.paging import name_after, page_of
from metadata.types import ChangeKind, Page
from openapi.schemas import Compatibility, Type

_Found = Row[SchemaRow, SchemaVersionRow]
NO_UID = bytes(16)
"""Schemas are known by their names alone."""
MAX_VERSIONS = 1000
"""The number of versions that one schema may have; the code that adds them enforces it."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema with its latest version, `number` and `definition`. `version` is its ETag."""

    tenant_id: bytes
    name: str
    type: Type
    compatibility: Compatibility
    number: int
    definition: str
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One definition."""

    number: int
    definition: str
    created_at: datetime


class SchemaRepository:
    """Names are unique per tenant."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` of the platform, by name; counts.OBJECT_LIMITS where they say nothing."""
        self._database = database
        self._limits = limits

    async def create(
        self,
        tenant_id: bytes,
        name: str,
        *,
        type_: Type,
        compatibility: Compatibility,
        definition: str,
    ) -> Schema:
        """Create a schema with version 1. Raises Conflict when the name is taken; QuotaExceeded."""

        async def work(session: AsyncSession) -> Schema:
            await changes.wait_turn(session, tenant_id)
            if await session.get(SchemaRow, (tenant_id, name)) is not None:
                raise Conflict("schema", name, "exists already")
            count = select(func.count()).where(SchemaRow.tenant_id == tenant_id)
            await require_room(session, tenant_id, SCHEMAS, count, self._limits)
            session.add(
                SchemaRow(
                    tenant_id=tenant_id,
                    name=name,
                    type=type_,
                    compatibility=compatibility,
                    version=changes.UNTOLD,
                )
            )
            await session.flush()
            return await _add_version(session, tenant_id, name, 1, definition)

        return await self._database.of(tenant_id).write(work)

    async def add_version(
        self, tenant_id: bytes, name: str, definition: str, *, after: int
    ) -> Schema:
        """Add the version after number `after`, with which it was compared.

        Raises NotFound; Conflict when that is not the latest any more.
        """

        async def work(session: AsyncSession) -> Schema:
            await changes.wait_turn(session, tenant_id)
            latest = await _require(session, tenant_id, name)
            if latest.number != after:
                raise Conflict("schema", name, f"is at number {latest.number}", latest)
            return await _add_version(session, tenant_id, name, after + 1, definition)

        return await self._database.of(tenant_id).write(work)

    async def set_compatibility(
        self,
        tenant_id: bytes,
        name: str,
        compatibility: Compatibility,
        *,
        if_version: int | None = None,
    ) -> Schema:
        """Set the compatibility. Raises NotFound; Conflict when `if_version` is another."""

        async def work(session: AsyncSession) -> Schema:
            await changes.wait_turn(session, tenant_id)
            found = await _require(session, tenant_id, name)
            _check_version(found, if_version)
            row = await session.get_one(SchemaRow, (tenant_id, name))
            row.compatibility = compatibility
            return await _touch(session, row)

        return await self._database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, name: str) -> Schema:
        """Return the schema. Raises NotFound."""
        return await self._database.of(tenant_id).read(
            lambda session: _require(session, tenant_id, name)
        )

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Schema]:
        """Return a page of schemas by name. Raises BadPageToken."""
        statement = (
            _with_latest(tenant_id)
            .where(SchemaRow.name > name_after(page_token))
            .order_by(SchemaRow.name)
            .limit(page_size + 1)
        )

        async def work(session: AsyncSession) -> Page[Schema]:
            return page_of(
                [_schema(found) for found in await session.execute(statement)], page_size
            )

        return await self._database.of(tenant_id).read(work)

    async def versions(self, tenant_id: bytes, name: str) -> list[tuple[int, datetime]]:
        """Return the numbers and creation times of versions, the newest first."""
        statement = (
            select(SchemaVersionRow.number, SchemaVersionRow.created_at)
            .where(SchemaVersionRow.tenant_id == tenant_id, SchemaVersionRow.name == name)
            .order_by(SchemaVersionRow.number.desc())
        )

        async def work(session: AsyncSession) -> list[tuple[int, datetime]]:
            return [(number, made_at) for number, made_at in await session.execute(statement)]

        return await self._database.of(tenant_id).read(work)

    async def version(self, tenant_id: bytes, name: str, number: int) -> SchemaVersion:
        """Return the version. Raises NotFound."""

        async def work(session: AsyncSession) -> SchemaVersion:
            row = await session.get(SchemaVersionRow, (tenant_id, name, number))
            if row is None:
                raise NotFound("schema", f"{name}/versions/{number}")
            return SchemaVersion(row.number, row.definition, row.created_at)

        return await self._database.of(tenant_id).read(work)

    async def delete(self, tenant_id: bytes, name: str, *, if_version: int | None = None) -> None:
        """Delete a schema with all its versions.

        Raises NotFound; Conflict when `if_version` is another, or (`existing` is its name) when a
        topic uses it.
        """

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, tenant_id)
            _check_version(await _require(session, tenant_id, name), if_version)
            user = await session.scalar(
                select(TopicRow.name)
                .where(TopicRow.tenant_id == tenant_id, TopicRow.schema_name == name)
                .limit(1)
            )
            if user is not None:
                raise Conflict("schema", name, f"is used by the topic {user!r}", user)
            await session.execute(
                delete(SchemaRow).where(SchemaRow.tenant_id == tenant_id, SchemaRow.name == name)
            )
            await changes.tell(session, _told(tenant_id, name))

        await self._database.of(tenant_id).write(work)


def _with_latest(tenant_id: bytes) -> Select[SchemaRow, SchemaVersionRow]:
    latest = (
        select(func.max(SchemaVersionRow.number))
        .where(
            SchemaVersionRow.tenant_id == SchemaRow.tenant_id,
            SchemaVersionRow.name == SchemaRow.name,
        )
        .correlate(SchemaRow)
        .scalar_subquery()
    )
    return (
        select(SchemaRow, SchemaVersionRow)
        .join(
            SchemaVersionRow,
            (SchemaVersionRow.tenant_id == SchemaRow.tenant_id)
            & (SchemaVersionRow.name == SchemaRow.name)
            & (SchemaVersionRow.number == latest),
        )
        .where(SchemaRow.tenant_id == tenant_id)
    )


async def _require(session: AsyncSession, tenant_id: bytes, name: str) -> Schema:
    found = await session.execute(_with_latest(tenant_id).where(SchemaRow.name == name))
    row = found.one_or_none()
    if row is None:
        raise NotFound("schema", name)
    return _schema(row)


def _check_version(found: Schema, if_version: int | None) -> None:
    if if_version is not None and found.version != if_version:
        raise Conflict("schema", found.name, f"is at version {found.version}")


async def _add_version(
    session: AsyncSession, tenant_id: bytes, name: str, number: int, definition: str
) -> Schema:
    session.add(
        SchemaVersionRow(tenant_id=tenant_id, name=name, number=number, definition=definition)
    )
    return await _touch(session, await session.get_one(SchemaRow, (tenant_id, name)))


async def _touch(session: AsyncSession, row: SchemaRow) -> Schema:
    """Give the schema a new version, and tell the feed."""
    row.updated_at = func.now()
    await session.flush()
    await session.refresh(row)
    schema = await _require(session, row.tenant_id, row.name)
    row.version = await changes.tell(session, _told(row.tenant_id, row.name))
    return replace(schema, version=row.version)


def _told(tenant_id: bytes, name: str) -> changes.FeedChange:
    return changes.FeedChange(ChangeKind.SCHEMA, tenant_id, NO_UID, name)


def _schema(found: _Found) -> Schema:
    row, latest = found
    return Schema(
        tenant_id=row.tenant_id,
        name=row.name,
        type=cast(Type, row.type),
        compatibility=cast(Compatibility, row.compatibility),
        number=latest.number,
        definition=latest.definition,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
