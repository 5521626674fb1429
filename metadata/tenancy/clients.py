"""OAuth2 clients: who asks for access tokens.

A client has one secret, or two while it changes from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from metadata.counts import CLIENTS, NO_LIMITS, Defaults
from metadata.database import Connection, Database
from metadata.models import ClientRow
from metadata.tenancy.credentials import Secret, from_json, rotated, to_json, without
from metadata.tenancy.named_rows import NamedRows, unguarded
from metadata.tenancy.owners import keep_owner
from metadata.types import ChangeKind
from openapi.access import State

_TOUCH = """
UPDATE clients SET last_used_at = used.at
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS used (tenant_id, uid, at)
WHERE clients.tenant_id = used.tenant_id AND clients.uid = used.uid
    AND (last_used_at IS NULL OR last_used_at < used.at)
"""


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """The values that a caller chooses."""

    name: str
    display_name: str = ""
    state: State = "active"
    labels: Mapping[str, str] = field(default_factory=dict)
    permissions: tuple[str, ...] | None = None
    """The only permissions that an operator has; None: all. They stay as it was made."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client as one transaction saw it. `version` is its ETag."""

    tenant_id: bytes
    uid: bytes
    name: str
    client_id: str
    display_name: str
    secrets: tuple[Secret, ...]
    state: State
    tokens_valid_from: datetime | None
    """Tokens issued before are refused; None: all of them hold."""
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    permissions: tuple[str, ...] | None = None
    """The only permissions that an operator has; None: all."""


class ClientRepository(NamedRows[ClientRow, Client]):
    """Names are unique per tenant, client ids in all tenants."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` as NamedRows does."""
        super().__init__(
            database,
            limits,
            row=ClientRow,
            kind="client",
            change=ChangeKind.CLIENT,
            value=client,
            quota=CLIENTS,
        )

    async def by_client_id(self, client_id: str) -> Client | None:
        """Return the client of any tenant: the id says whose it is."""
        found = await self.anywhere(ClientRow.client_id == client_id)
        return found[0] if found else None

    async def create(
        self, tenant_id: bytes, spec: ClientSpec, client_id: str, secret: Secret
    ) -> Client:
        """Create a client. Conflict when the name is taken (`existing` has it)."""
        columns = new_columns(spec, client_id, secret)
        return await self.create_row(tenant_id, spec.name, columns)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        spec: ClientSpec,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> Client:
        """Change a client. Raises NotFound; Conflict when `if_version` is another; LastOwner."""
        return await self.update_row(
            tenant_id,
            name,
            lambda _: _columns(spec),
            if_version=if_version,
            guard=unguarded if force else keep_owner(tenant_id),
        )

    async def add_secret(
        self,
        tenant_id: bytes,
        name: str,
        secret: Secret,
        old_until: datetime,
        *,
        if_version: int | None = None,
    ) -> Client:
        """Add a secret; the present one holds until `old_until` at the latest.

        Raises NotFound; Conflict when `if_version` is another; TooManySecrets when two hold
        already.
        """

        def change(present: Client) -> Mapping[str, Any]:
            return {"secrets": to_json(rotated(present.secrets, secret, old_until))}

        return await self.update_row(tenant_id, name, change, if_version=if_version)

    async def remove_secret(
        self,
        tenant_id: bytes,
        name: str,
        prefix: str,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> Client:
        """Remove a secret.

        Raises NotFound, also for it; Conflict when `if_version` is another; LastOwner.
        """

        def change(present: Client) -> Mapping[str, Any]:
            return {"secrets": to_json(without(present.secrets, prefix))}

        guard = unguarded if force else keep_owner(tenant_id)
        return await self.update_row(tenant_id, name, change, if_version=if_version, guard=guard)

    async def revoke_tokens(self, tenant_id: bytes, name: str) -> Client:
        """Refuse all tokens issued until now. Raises NotFound."""

        def change(present: Client) -> Mapping[str, Any]:
            return {"tokens_valid_from": datetime.now(UTC)}

        return await self.update_row(tenant_id, name, change)

    async def touch(self, used: Sequence[tuple[bytes, bytes, datetime]]) -> None:
        """Note the last use of clients, by tenant and uid; deleted clients are passed over."""
        columns = [list(column) for column in zip(*sorted(used), strict=True)]

        async def work(connection: Connection) -> None:
            await connection.execute(_TOUCH, *columns)

        if columns:
            await self.database.statement(work, writes=True)


def new_columns(spec: ClientSpec, client_id: str, secret: Secret) -> Mapping[str, Any]:
    permissions = None if spec.permissions is None else list(spec.permissions)
    made = {"client_id": client_id, "secrets": to_json([secret]), "permissions": permissions}
    return {**_columns(spec), **made}


def _columns(spec: ClientSpec) -> Mapping[str, Any]:
    """Return the columns that may change."""
    return {
        "display_name": spec.display_name,
        "state": spec.state,
        "labels": dict(spec.labels),
    }


def client(row: ClientRow) -> Client:
    return Client(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        client_id=row.client_id,
        display_name=row.display_name,
        secrets=from_json(row.secrets),
        state=row.state,
        tokens_valid_from=row.tokens_valid_from,
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
        permissions=None if row.permissions is None else tuple(row.permissions),
    )
