"""Tenants."""

from __future__ import annotations

from sqlalchemy import Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, KeyId, Time


class TenantRow(Base):
    """tenants: the unit of isolation."""

    __tablename__ = "tenants"
    __table_args__ = (UniqueConstraint("name", name="tenants_name"),)

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[Big]
    created_at: Mapped[Time]
