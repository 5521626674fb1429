"""The keys that sign tokens, and revoked tokens."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import DateTime, Index, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, KeyId, Time


class SigningKeyRow(Base):
    """signing_keys: of the platform, not of a tenant. The private part is sealed.

    A constraint excludes that two sign at one time (`signs_from` … `signs_until`).
    """

    __tablename__ = "signing_keys"

    kid: Mapped[str] = mapped_column(Text, primary_key=True)
    algorithm: Mapped[str] = mapped_column(Text)
    public_jwk: Mapped[dict[str, str]] = mapped_column(JSONB)
    private_sealed: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[Time]
    signs_from: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    signs_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    verifies_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class RevokedTokenRow(Base):
    """revoked_tokens: ids of tokens that were revoked before their time; gone when it is over."""

    __tablename__ = "revoked_tokens"
    __table_args__ = (Index("revoked_tokens_expiry", "expires_at"),)

    tenant_id: Mapped[KeyId]
    jti: Mapped[KeyId]
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    revoked_at: Mapped[Time]
