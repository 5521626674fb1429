"""API keys: credentials that are sent as they are, with scopes of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from metadata.counts import KEYS, NO_LIMITS, Defaults
from metadata.database import Connection, Database
from metadata.models import ApiKeyRow
from metadata.tenancy.credentials import Secret, from_json, rotated, to_json
from metadata.tenancy.named_rows import NamedRows, unguarded
from metadata.tenancy.owners import keep_owner
from metadata.types import ChangeKind
from openapi.access import State

_TOUCH = """
UPDATE api_keys SET last_used_at = used.at
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS used (tenant_id, uid, at)
WHERE api_keys.tenant_id = used.tenant_id AND api_keys.uid = used.uid
    AND (last_used_at IS NULL OR last_used_at < used.at)
"""


@dataclass(frozen=True, slots=True)
class ApiKeySpec:
    """The values that a caller chooses."""

    name: str
    scopes: tuple[str, ...]
    expires_at: datetime | None = None
    state: State = "active"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as one transaction saw it. `version` is its ETag; `secrets` are two while it is
    rotated; after `expires_at` none of them holds."""

    tenant_id: bytes
    uid: bytes
    name: str
    key_id: str
    secrets: tuple[Secret, ...]
    scopes: tuple[str, ...]
    state: State
    expires_at: datetime | None
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class ApiKeyRepository(NamedRows[ApiKeyRow, ApiKey]):
    """Names are unique per tenant, key ids in all tenants."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` as NamedRows does."""
        super().__init__(
            database,
            limits,
            row=ApiKeyRow,
            kind="key",
            change=ChangeKind.KEY,
            value=api_key,
            quota=KEYS,
        )

    async def by_key_id(self, key_id: str) -> ApiKey | None:
        """Return the key of any tenant: the id says whose it is."""
        found = await self.anywhere(ApiKeyRow.key_id == key_id)
        return found[0] if found else None

    async def create(
        self, tenant_id: bytes, spec: ApiKeySpec, key_id: str, secret: Secret
    ) -> ApiKey:
        """Create a key. Conflict when the name is taken (`existing` is the key that has it)."""
        columns = {**_columns(spec), "key_id": key_id, "secrets": to_json([secret])}
        return await self.create_row(tenant_id, spec.name, columns)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        spec: ApiKeySpec,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> ApiKey:
        """Change a key. Raises NotFound; Conflict when `if_version` is another; LastOwner."""
        return await self.update_row(
            tenant_id,
            name,
            lambda _: _columns(spec),
            if_version=if_version,
            guard=unguarded if force else keep_owner(tenant_id),
        )

    async def rotate(
        self,
        tenant_id: bytes,
        name: str,
        secret: Secret,
        old_until: datetime,
        *,
        if_version: int | None = None,
    ) -> ApiKey:
        """Add a secret; the present one holds until `old_until` at the latest.

        Raises NotFound; Conflict when `if_version` is another; TooManySecrets when two hold
        already.
        """

        def change(present: ApiKey) -> Mapping[str, Any]:
            return {"secrets": to_json(rotated(present.secrets, secret, old_until))}

        return await self.update_row(tenant_id, name, change, if_version=if_version)

    async def touch(self, used: Sequence[tuple[bytes, bytes, datetime]]) -> None:
        """Note the last use of keys, by tenant and uid; deleted keys are passed over."""
        columns = [list(column) for column in zip(*sorted(used), strict=True)]

        async def work(connection: Connection) -> None:
            await connection.execute(_TOUCH, *columns)

        if columns:
            await self.database.statement(work, writes=True)


def _columns(spec: ApiKeySpec) -> Mapping[str, Any]:
    """Return the columns that may change."""
    return {
        "scopes": list(spec.scopes),
        "expires_at": spec.expires_at,
        "state": spec.state,
        "labels": dict(spec.labels),
    }


def api_key(row: ApiKeyRow) -> ApiKey:
    return ApiKey(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        key_id=row.key_id,
        secrets=from_json(row.secrets),
        scopes=tuple(row.scopes),
        state=row.state,
        expires_at=row.expires_at,
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
    )
