"""Tenants, and the one above them that owns the operators.

A tenant goes in steps, each its own transaction, and any process can go on with them: `deleting` is
committed first, then its topics go as topics do, then what is left of it in Postgres, table by
table, and its own row last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, CursorResult, Table, delete, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import (
    Base,
    ChangeRow,
    ClientRow,
    IssuerRow,
    PolicyRow,
    TenantRow,
    TopicRow,
)
from metadata.paging import name_after, page_of
from metadata.tenancy import clients, issuers, policies
from metadata.tenancy.clients import Client, ClientRepository, ClientSpec
from metadata.tenancy.credentials import Secret
from metadata.tenancy.owners import EVERYTHING, OWNER
from metadata.tenancy.policies import PolicyRepository, PolicySpec
from metadata.topics.topics import topic_count
from metadata.types import ChangeKind, Page, Tenant, TenantSpec

PLATFORM_ID = bytes(16)
PLATFORM_NAME = "platform"
"""The tenant of operators; it has clients, and nothing to publish to."""
OWNERS_POLICY = "owners"
"""Name of the policy of a tenant's first client."""
ROWS_AT_ONCE = 5_000
_KEPT = (TenantRow.__tablename__, TopicRow.__tablename__, ChangeRow.__tablename__)
"""Tables that `purge` leaves: the tenant's own row goes last, topics go with their queues, and
the feed tells of deleted rows."""


class FirstOwner(NamedTuple):
    """The client that a new tenant begins with."""

    spec: ClientSpec
    client_id: str
    secret: Secret


class TenantRepository:
    """Names are unique, and taken until the tenant is gone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure(self, tenant_id: bytes, name: str) -> Tenant:
        """Return the tenant of that id; make it under that name if there is none."""

        async def work(session: AsyncSession) -> Tenant:
            row = await session.get(TenantRow, tenant_id)
            if row is None:
                await changes.wait_turn(session, PLATFORM_ID)
                row = await session.get(TenantRow, tenant_id)
            if row is None:
                row = _new_row(tenant_id, name)
                session.add(row)
                await session.flush()
                await session.refresh(row)
                row.version = await changes.tell(session, _told(row))
            return tenant(row)

        return await self._database.platform.write(work)

    async def create(
        self, spec: TenantSpec, owner: FirstOwner | None = None
    ) -> tuple[Tenant, Client | None]:
        """Make a tenant, with its first client where one is given, and a policy that makes that
        client an owner. Conflict when the name is taken (`existing` is the tenant that has it)."""

        async def work(session: AsyncSession) -> tuple[Tenant, Client | None]:
            await changes.wait_turn(session, PLATFORM_ID)
            taken = await _named(session, spec.name)
            if taken is not None:
                raise Conflict("tenant", spec.name, "exists already", tenant(taken))
            row = _new_row(new_uid(), spec.name, **_columns(spec))
            session.add(row)
            await session.flush()
            await session.refresh(row)
            if owner is None:
                row.version = await changes.tell(session, _told(row))
                return tenant(row), None
            client, policy = await self._first(session, row.tenant_id, owner)
            last = await changes.tell(
                session,
                _told(row),
                ClientRepository(self._database).told(client),
                PolicyRepository(self._database).told(policy),
            )
            row.version, client.version, policy.version = last - 2, last - 1, last
            return tenant(row), clients.client(client)

        return await self._database.platform.write(work)

    async def _first(
        self, session: AsyncSession, tenant_id: bytes, owner: FirstOwner
    ) -> tuple[ClientRow, PolicyRow]:
        columns = clients.new_columns(owner.spec, owner.client_id, owner.secret)
        client = await ClientRepository(self._database).add(
            session, tenant_id, owner.spec.name, columns
        )
        member = f"client:{owner.spec.name}"
        policy = PolicySpec(OWNERS_POLICY, OWNER, (member,), (EVERYTHING,))
        return client, await PolicyRepository(self._database).add(
            session, tenant_id, policy.name, policies.columns_of(policy)
        )

    async def update(self, spec: TenantSpec, *, if_version: int | None = None) -> Tenant:
        """Make the tenant of that name as `spec` wants it; equal values make no new version.
        NotFound; Conflict when `if_version` is another, or it is being deleted."""

        async def work(session: AsyncSession) -> Tenant:
            row = await _in_turn(session, spec.name, if_version)
            if row.state == "deleting":
                raise Conflict("tenant", spec.name, "is being deleted", tenant(row))
            columns = _columns(spec)
            if all(getattr(row, column) == value for column, value in columns.items()):
                return tenant(row)
            for column, value in columns.items():
                setattr(row, column, value)
            followed = await issuers.follow_operator(session, row.tenant_id, spec.issuers_allowed)
            return await _put(session, row, followed)

        return await self._database.platform.write(work)

    async def mark_deleting(
        self, name: str, *, if_version: int | None = None, force: bool = False
    ) -> Tenant:
        """Begin to delete a tenant, step by step; a repetition is no error.

        Raises NotFound; Conflict when `if_version` is another, or if it has topics (`existing` is
        their number) and `force` is not set.
        """

        async def work(session: AsyncSession) -> Tenant:
            row = await _in_turn(session, name, if_version)
            if row.state == "deleting":
                return tenant(row)
            topics = await session.scalar(topic_count(row.tenant_id))
            if topics and not force:
                raise Conflict("tenant", name, "has topics", topics)
            row.state = "deleting"
            return await _put(session, row)

        return await self._database.platform.write(work)

    async def deleting(self, limit: int = 100) -> tuple[Tenant, ...]:
        """Return the tenants that are being deleted, the oldest change first."""
        statement = (
            select(TenantRow)
            .where(TenantRow.state == "deleting")
            .order_by(TenantRow.updated_at)
            .limit(limit)
        )

        async def work(session: AsyncSession) -> tuple[Tenant, ...]:
            return tuple(tenant(row) for row in await session.scalars(statement))

        return await self._database.platform.read(work)

    async def has_topics(self, tenant_id: bytes) -> bool:
        """Return whether a tenant has topics in any state: those that are being deleted still have
        queues.
        """

        async def work(session: AsyncSession) -> bool:
            statement = select(TopicRow.uid).where(TopicRow.tenant_id == tenant_id).limit(1)
            return await session.scalar(statement) is not None

        return await self._database.platform.read(work)

    async def purge(self, tenant_id: bytes) -> None:
        """Drops what a tenant without topics still has, some rows at a time. Idempotent."""
        for table in reversed(Base.metadata.sorted_tables):
            if "tenant_id" in table.c and table.name not in _KEPT:
                while await self._drop_some(table, tenant_id) == ROWS_AT_ONCE:
                    pass

    async def remove(self, tenant_id: bytes) -> None:
        """Drops the row of a `deleting` tenant, its name free from then on. Idempotent; Conflict
        while it has topics."""

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, tenant_id)
            row = await session.get(TenantRow, tenant_id)
            if row is None or row.state != "deleting":
                return
            topic = select(TopicRow.uid).where(TopicRow.tenant_id == tenant_id).limit(1)
            if await session.scalar(topic) is not None:
                raise Conflict("tenant", row.name, "has topics")
            told = _told(row)
            await session.delete(row)
            await changes.tell(session, told)

        await self._database.platform.write(work)

    async def _drop_some(self, table: Table, tenant_id: bytes) -> int:
        place: ColumnElement[Any] = literal_column("ctid")
        some = (
            select(place)
            .select_from(table)
            .where(table.c.tenant_id == tenant_id)
            .limit(ROWS_AT_ONCE)
            .correlate(None)
        )

        async def work(session: AsyncSession) -> int:
            gone = await session.execute(delete(table).where(place.in_(some)))
            return cast("CursorResult[Any]", gone).rowcount

        return await self._database.platform.write(work)

    async def get(self, name: str) -> Tenant:
        """Return the tenant of a name; raises NotFound."""

        async def work(session: AsyncSession) -> Tenant:
            return tenant(await _expect(session, name, None))

        return await self._database.platform.read(work)

    async def get_by_id(self, tenant_id: bytes) -> Tenant:
        """Return the tenant of an id; raises NotFound."""

        async def work(session: AsyncSession) -> Tenant:
            row = await session.get(TenantRow, tenant_id)
            if row is None:
                raise NotFound("tenant", tenant_id.hex())
            return tenant(row)

        return await self._database.platform.read(work)

    async def inactive(self) -> frozenset[bytes]:
        """Return the ids of tenants that are suspended or being deleted: no work is for them."""
        statement = select(TenantRow.tenant_id).where(TenantRow.state != "active")

        async def work(session: AsyncSession) -> frozenset[bytes]:
            return frozenset(await session.scalars(statement))

        return await self._database.platform.read(work)

    async def page(self, *, page_size: int = 100, page_token: str | None = None) -> Page[Tenant]:
        """Return a page of tenants by name, without the platform's own; raises BadPageToken."""
        statement = (
            select(TenantRow)
            .where(TenantRow.tenant_id != PLATFORM_ID, TenantRow.name > name_after(page_token))
            .order_by(TenantRow.name)
            .limit(page_size + 1)
        )

        async def work(session: AsyncSession) -> Page[Tenant]:
            return page_of([tenant(row) for row in await session.scalars(statement)], page_size)

        return await self._database.platform.read(work)


def _new_row(tenant_id: bytes, name: str, **columns: Any) -> TenantRow:
    row = TenantRow(tenant_id=tenant_id, name=name, version=changes.UNTOLD, **columns)
    row.built_in_limits = True
    return row


def _columns(spec: TenantSpec) -> Mapping[str, Any]:
    """Return the columns that an update may change."""
    return {
        "display_name": spec.display_name,
        "state": spec.state,
        "labels": dict(spec.labels),
        "egress_allowed": list(spec.egress_allowed),
        "issuers_allowed": list(spec.issuers_allowed),
    }


async def _named(session: AsyncSession, name: str) -> TenantRow | None:
    return await session.scalar(select(TenantRow).where(TenantRow.name == name))


async def _expect(session: AsyncSession, name: str, if_version: int | None) -> TenantRow:
    row = await _named(session, name)
    if row is None:
        raise NotFound("tenant", name)
    if if_version is not None and row.version != if_version:
        raise Conflict("tenant", name, f"is at version {row.version}", tenant(row))
    return row


async def _in_turn(session: AsyncSession, name: str, if_version: int | None) -> TenantRow:
    """Wait until nothing else changes the tenant, then do as `_expect`."""
    seen = await _expect(session, name, None)
    await changes.wait_turn(session, seen.tenant_id)
    session.expire(seen)
    row = await _expect(session, name, if_version)
    if row.tenant_id != seen.tenant_id:  # another took the name meanwhile
        raise NotFound("tenant", name)
    return row


async def _put(session: AsyncSession, row: TenantRow, followed: Sequence[IssuerRow] = ()) -> Tenant:
    """`followed` have the same version."""
    row.updated_at = func.now()
    await session.flush()
    await session.refresh(row)
    row.version = await changes.tell(session, _told(row))
    for issuer in followed:
        issuer.version = row.version
    return tenant(row)


def _told(row: TenantRow) -> changes.FeedChange:
    return changes.FeedChange(ChangeKind.TENANT, row.tenant_id, row.tenant_id, row.name)


def tenant(row: TenantRow) -> Tenant:
    return Tenant(
        tenant_id=row.tenant_id,
        name=row.name,
        display_name=row.display_name,
        state=row.state,
        labels=dict(row.labels),
        egress_allowed=tuple(row.egress_allowed),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        issuers_allowed=tuple(row.issuers_allowed),
    )
