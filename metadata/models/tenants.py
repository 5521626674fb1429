"""Tenants, and what each may use."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time
from openapi.tenants import State


class TenantRow(Base):
    """tenants: the unit of isolation."""

    __tablename__ = "tenants"
    __table_args__ = (
        UniqueConstraint("name", name="tenants_name"),
        CheckConstraint("state IN ('active', 'suspended', 'deleting')", name="tenants_state"),
    )

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    display_name: Mapped[str] = mapped_column(Text, server_default="")
    state: Mapped[State] = mapped_column(Text, server_default="active")
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    egress_allowed: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]
    issuers_allowed: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    built_in_limits: Mapped[bool] = mapped_column(Boolean, server_default="false")
    """False exempts a tenant of an earlier release from `metadata.counts.BUILT_IN_LIMITS`."""


class QuotaRow(Base):
    """quotas: a tenant's limits by name; a limit without a name here has the platform's default."""

    __tablename__ = "quotas"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="quotas_tenant", ondelete="CASCADE"
        ),
        CheckConstraint("weight > 0", name="quotas_weight"),
    )

    tenant_id: Mapped[KeyId]
    limits: Mapped[dict[str, Any]] = mapped_column(JSONB)
    weight: Mapped[float] = mapped_column(Double, server_default="1")
    version: Mapped[Big]
    updated_at: Mapped[Time]


class UsageHourRow(Base):
    """usage_hours: what a tenant used in one hour, by metric."""

    __tablename__ = "usage_hours"
    __table_args__ = (Index("usage_hours_age", "hour"),)

    tenant_id: Mapped[KeyId]
    hour: Mapped[datetime] = mapped_column(DateTime(timezone=True), primary_key=True)
    metric: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[Decimal] = mapped_column(Numeric)


class UsageReporterRow(Base):
    """usage_reporters: the last of the reports that each process added to usage_hours."""

    __tablename__ = "usage_reporters"

    incarnation: Mapped[KeyId]
    sequence: Mapped[Big]
    reported_at: Mapped[Time]


class QuotaDemandRow(Base):
    """quota_demands: what each process would use of a tenant's limit, as told a moment ago."""

    __tablename__ = "quota_demands"
    __table_args__ = (
        PrimaryKeyConstraint("tenant_id", "quota", "incarnation"),
        {"prefixes": ["UNLOGGED"]},
    )

    incarnation: Mapped[Id]
    tenant_id: Mapped[Id]
    quota: Mapped[str] = mapped_column(Text)
    demand: Mapped[float] = mapped_column(Double)
    told_at: Mapped[Time]


class AuditRow(Base):
    """audit: one request that would change something; `status` is null until its outcome is known.

    Without a foreign key: a row may be older or younger than the tenant's own.
    """

    __tablename__ = "audit"
    __table_args__ = (
        Index("audit_of_resource", "tenant_id", "resource", "id"),
        Index("audit_age", "at"),
    )

    tenant_id: Mapped[KeyId]
    id: Mapped[KeyId]
    at: Mapped[Time]
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    resource: Mapped[str] = mapped_column(Text)
    status: Mapped[int | None] = mapped_column(SmallInteger)
    request_id: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
