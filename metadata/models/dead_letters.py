"""Messages a subscription gave up, and their way back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class DeadLetterRow(Base):
    """dead_letters: what a subscription gave up, by where it came from; the body is the message
    at `letter_offset` of the dead-letter topic. Written with the cursor that settles it."""

    __tablename__ = "dead_letters"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "subscription_uid",
            "generation",
            "partition",
            "lane",
            "message_offset",
            name="dead_letters_once",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid"],
            ["subscriptions.tenant_id", "subscriptions.uid"],
            name="dead_letters_subscription",
            ondelete="CASCADE",
        ),
        CheckConstraint("state IN ('open', 'redriven', 'discarded')", name="dead_letters_state"),
        Index("dead_letters_listed", "tenant_id", "subscription_uid", "state", "dead_at", "uid"),
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    uid: Mapped[KeyId]
    generation: Mapped[int] = mapped_column(Integer)
    partition: Mapped[int] = mapped_column(Integer)
    lane: Mapped[int] = mapped_column(SmallInteger)
    message_offset: Mapped[Big]
    message_id: Mapped[str] = mapped_column(Text)
    key: Mapped[str | None] = mapped_column(Text)
    attributes: Mapped[dict[str, str]] = mapped_column(JSONB)
    content_type: Mapped[str | None] = mapped_column(Text)
    size_bytes: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str] = mapped_column(Text)
    detail: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(Integer)
    first_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    publish_time: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    dead_at: Mapped[Time]
    letter_topic_uid: Mapped[Id]
    letter_partition: Mapped[int] = mapped_column(Integer)
    letter_lane: Mapped[int] = mapped_column(SmallInteger)
    letter_offset: Mapped[Big]
    state: Mapped[str] = mapped_column(Text, server_default="open")
    redrive_uid: Mapped[Id | None]


class RedriveRow(Base):
    """redrives: dead letters on their way back, so far; the scheduler does the work."""

    __tablename__ = "redrives"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid"],
            ["subscriptions.tenant_id", "subscriptions.uid"],
            name="redrives_subscription",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "state IN ('running', 'done', 'cancelling', 'cancelled', 'failed')",
            name="redrives_state",
        ),
        Index("redrives_of_subscription", "tenant_id", "subscription_uid", "created_at"),
        Index(
            "redrives_unfinished",
            "tenant_id",
            "uid",
            postgresql_where=text("state IN ('running', 'cancelling')"),
        ),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    subscription_uid: Mapped[Id]
    filter: Mapped[str | None] = mapped_column(Text)
    picked: Mapped[bool]
    destination: Mapped[str | None] = mapped_column(Text)
    edit: Mapped[dict[str, Any]] = mapped_column(JSONB)
    rate: Mapped[float | None] = mapped_column(Double)
    state: Mapped[str] = mapped_column(Text, server_default="running")
    detail: Mapped[str | None] = mapped_column(Text)
    total: Mapped[Big]
    redriven: Mapped[int] = mapped_column(BigInteger, server_default="0")
    failed: Mapped[int] = mapped_column(BigInteger, server_default="0")
    created_at: Mapped[Time]
    updated_at: Mapped[Time]
