"""Callers: clients, keys, subjects of other issuers, and the policies that grant them roles."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, DateTime, ForeignKeyConstraint, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, KeyId, Time
from openapi.access import State, Trust


def _of_tenant(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant_id"], ["tenants.tenant_id"], name=f"{table}_tenant", ondelete="CASCADE"
    )


class ClientRow(Base):
    """clients: OAuth2 clients. `secrets` are hashes: see `metadata.secrets`."""

    __tablename__ = "clients"
    __table_args__ = (
        UniqueConstraint("client_id", name="clients_client_id"),
        UniqueConstraint("tenant_id", "name", name="clients_name"),
        CheckConstraint("state IN ('active', 'disabled')", name="clients_state"),
        _of_tenant("clients"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    client_id: Mapped[str] = mapped_column(Text)
    display_name: Mapped[str] = mapped_column(Text, server_default="")
    secrets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    state: Mapped[State] = mapped_column(Text, server_default="active")
    tokens_valid_from: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]
    last_used_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    permissions: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))


class ApiKeyRow(Base):
    """api_keys: `key_id` is the public part, by which a key is looked up and shown."""

    __tablename__ = "api_keys"
    __table_args__ = (
        UniqueConstraint("key_id", name="api_keys_key_id"),
        UniqueConstraint("tenant_id", "name", name="api_keys_name"),
        CheckConstraint("state IN ('active', 'disabled')", name="api_keys_state"),
        _of_tenant("api_keys"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    key_id: Mapped[str] = mapped_column(Text)
    secrets: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    scopes: Mapped[list[str]] = mapped_column(JSONB)
    state: Mapped[State] = mapped_column(Text, server_default="active")
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]
    last_used_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class PolicyRow(Base):
    """policies: a role, on the resources named, for the members named."""

    __tablename__ = "policies"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="policies_name"),
        CheckConstraint(
            "role IN ('owner', 'admin', 'publisher', 'subscriber', 'viewer')", name="policies_role"
        ),
        _of_tenant("policies"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    members: Mapped[list[str]] = mapped_column(JSONB)
    resources: Mapped[list[str]] = mapped_column(JSONB)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class IssuerRow(Base):
    """issuers: OIDC issuers of a tenant's own, whose tokens for one audience it trusts."""

    __tablename__ = "issuers"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="issuers_name"),
        UniqueConstraint("issuer", "audience", "tenant_id", name="issuers_issuer"),
        CheckConstraint(
            "trust IN ('audience', 'document', 'operator', 'unproved', 'withdrawn')",
            name="issuers_trust",
        ),
        _of_tenant("issuers"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    issuer: Mapped[str] = mapped_column(Text)
    audience: Mapped[str] = mapped_column(Text)
    algorithms: Mapped[list[str]] = mapped_column(JSONB)
    subject_claim: Mapped[str] = mapped_column(Text, server_default="sub")
    required_claims: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]
    trust: Mapped[Trust] = mapped_column(Text, server_default="unproved")
