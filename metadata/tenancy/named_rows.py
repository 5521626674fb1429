"""The common part of the repositories of clients, keys, policies and issuers.

Their rows are named once in each tenant.

Each change is one transaction under the version it takes, and is told by the change feed; one that
leaves everything as it was takes no new version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.counts import Defaults, require_room
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import ApiKeyRow, ClientRow, IssuerRow, PolicyRow, TenantRow
from metadata.paging import name_after, page_of
from metadata.tenancy.owners import Guard, keep_owner
from metadata.types import ChangeKind, Page

Columns = Mapping[str, Any]
_LIVING = ("active", "suspended")
READ_AT_ONCE = 50
"""Rows of a long listing that are fetched, and made into values, before others have their turn."""


@asynccontextmanager
async def unguarded(session: AsyncSession) -> AsyncIterator[None]:
    yield


class Value(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...


R = TypeVar("R", ClientRow, ApiKeyRow, PolicyRow, IssuerRow)
V = TypeVar("V", bound=Value)


class NamedRows(Generic[R, V]):
    """Reads and changes rows of one kind; a repository adds how its values are made and changed."""

    def __init__(
        self,
        database: Database,
        limits: Defaults,
        *,
        row: type[R],
        kind: str,
        change: ChangeKind,
        value: Callable[[R], V],
        quota: str,
    ) -> None:
        """Use `limits` of the platform, by name; counts.OBJECT_LIMITS where they say nothing.

        `kind` names rows in errors; `value` makes of a row what leaves the metadata store; `quota`
        is the name of the quota that limits their number.
        """
        self.database = database
        self.row: type[R] = row
        self.kind = kind
        self.change = change
        self.value: Callable[[R], V] = value
        self.quota = quota
        self.limits = limits

    async def create_row(
        self, tenant_id: bytes, name: str, columns: Columns, guard: Guard = unguarded
    ) -> V:
        """Create a row. Conflict when the name is taken (`existing` has it); QuotaExceeded.

        Raises NotFound of a tenant that is being deleted.
        """

        async def work(session: AsyncSession) -> V:
            await changes.wait_turn(session, tenant_id)
            async with guard(session):
                row = await self.add(session, tenant_id, name, columns)
            return await self._told(session, row)

        return await self.database.of(tenant_id).write(work)

    async def add(self, session: AsyncSession, tenant_id: bytes, name: str, columns: Columns) -> R:
        """Create as `create_row` does, in a transaction that changes something else as well,
        and tells of it.
        """
        tenant = await session.get(TenantRow, tenant_id)
        if tenant is None or tenant.state not in _LIVING:
            raise NotFound("tenant", tenant_id.hex())
        existing = await self.find(session, tenant_id, name)
        if existing is not None:
            raise Conflict(self.kind, name, "exists already", self.value(existing))
        count = select(func.count()).where(self.row.tenant_id == tenant_id)
        await require_room(session, tenant_id, self.quota, count, self.limits)
        row = self.row(tenant_id=tenant_id, uid=new_uid(), name=name, **columns)
        row.version = changes.UNTOLD
        session.add(row)
        await session.flush()
        await session.refresh(row)
        return row

    async def update_row(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[V], Columns],
        *,
        if_version: int | None = None,
        guard: Guard = unguarded,
    ) -> V:
        """Set the columns that `change` wants.

        Raises NotFound; Conflict when `if_version` is another.
        """

        async def work(session: AsyncSession) -> V:
            await changes.wait_turn(session, tenant_id)
            row = await self.expect(session, tenant_id, name, if_version)
            columns = change(self.value(row))
            if all(getattr(row, column) == value for column, value in columns.items()):
                return self.value(row)
            async with guard(session):
                for column, value in columns.items():
                    setattr(row, column, value)
                row.updated_at = func.now()
            await session.flush()
            await session.refresh(row)
            return await self._told(session, row)

        return await self.database.of(tenant_id).write(work)

    async def delete(
        self,
        tenant_id: bytes,
        name: str,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> V:
        """Delete a row and return it; only with `force` if the tenant has no owner without it.

        Raises NotFound; Conflict when `if_version` is another; LastOwner.
        """
        guard = unguarded if force else keep_owner(tenant_id)

        async def work(session: AsyncSession) -> V:
            await changes.wait_turn(session, tenant_id)
            row = await self.expect(session, tenant_id, name, if_version)
            gone, told = self.value(row), self.told(row)
            async with guard(session):
                await session.delete(row)
            await changes.tell(session, told)
            return gone

        return await self.database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, name: str) -> V:
        """Return the value of that name. Raises NotFound."""

        async def work(session: AsyncSession) -> V:
            return self.value(await self.expect(session, tenant_id, name, None))

        return await self.database.of(tenant_id).read(work)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[V]:
        """Return a page by name. Raises BadPageToken."""
        statement = (
            select(self.row)
            .where(self.row.tenant_id == tenant_id, self.row.name > name_after(page_token))
            .order_by(self.row.name)
            .limit(page_size + 1)
        )

        async def work(session: AsyncSession) -> Page[V]:
            rows = await session.scalars(statement)
            return page_of([self.value(row) for row in rows], page_size)

        return await self.database.of(tenant_id).read(work)

    async def of_tenant(self, tenant_id: bytes) -> tuple[V, ...]:
        """Return all values of one tenant, by name.

        There may be more of them than the event loop has time for at once.
        """
        statement = (
            select(self.row)
            .where(self.row.tenant_id == tenant_id)
            .order_by(self.row.name)
            .execution_options(yield_per=READ_AT_ONCE)
        )

        async def work(session: AsyncSession) -> tuple[V, ...]:
            found: list[V] = []
            async for rows in (await session.stream_scalars(statement)).partitions():
                found += map(self.value, rows)
            return tuple(found)

        return await self.database.of(tenant_id).read(work)

    async def anywhere(self, where: ColumnElement[bool]) -> tuple[V, ...]:
        """Return values of all tenants, for a credential that itself tells its tenant."""

        async def work(session: AsyncSession) -> tuple[V, ...]:
            rows = await session.scalars(select(self.row).where(where))
            return tuple(self.value(row) for row in rows)

        return await self.database.platform.read(work)

    async def find(self, session: AsyncSession, tenant_id: bytes, name: str) -> R | None:
        found: R | None = await session.scalar(
            select(self.row).where(self.row.tenant_id == tenant_id, self.row.name == name)
        )
        return found

    async def expect(
        self, session: AsyncSession, tenant_id: bytes, name: str, if_version: int | None
    ) -> R:
        """Return the locked row. Raises NotFound; Conflict when `if_version` is another."""
        row = await self.find(session, tenant_id, name)
        if row is None:
            raise NotFound(self.kind, name)
        if if_version is not None and row.version != if_version:
            raise Conflict(self.kind, name, f"is at version {row.version}", self.value(row))
        return row

    def told(self, row: R) -> changes.FeedChange:
        return changes.FeedChange(self.change, row.tenant_id, row.uid, row.name)

    async def _told(self, session: AsyncSession, row: R) -> V:
        row.version = await changes.tell(session, self.told(row))
        return self.value(row)
