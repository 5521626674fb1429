"""The flow of deliveries: endpoints of webhooks, their attempts, and the capacity of consumers."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, KeyId, Time


def _of_subscription(name: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant_id", "subscription_uid"],
        ["subscriptions.tenant_id", "subscriptions.uid"],
        ondelete="CASCADE",
        name=name,
    )


class PushEndpointRow(Base):
    """push_endpoints: whether a push subscription's endpoint is fed, and why not."""

    __tablename__ = "push_endpoints"
    __table_args__ = (
        _of_subscription("push_endpoints_subscription"),
        CheckConstraint(
            "state IN ('unverified', 'enabled', 'disabled')", name="push_endpoints_state"
        ),
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    state: Mapped[str] = mapped_column(Text)
    reason: Mapped[str | None] = mapped_column(Text)
    failing_since: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    verified_url: Mapped[str | None] = mapped_column(Text)
    verified_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    changed_at: Mapped[Time]


class PushAttemptRow(Base):
    """push_attempts: what requests were answered; the newest of each subscription."""

    __tablename__ = "push_attempts"
    __table_args__ = (
        _of_subscription("push_attempts_subscription"),
        Index("push_attempts_age", "at"),
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    id: Mapped[KeyId]
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    message_id: Mapped[str] = mapped_column(Text)
    partition: Mapped[int] = mapped_column(Integer)
    message_offset: Mapped[Big]
    attempt: Mapped[int] = mapped_column(Integer)
    status: Mapped[int | None] = mapped_column(SmallInteger)
    outcome: Mapped[str] = mapped_column(Text)
    latency_ms: Mapped[float] = mapped_column(Double)
    response: Mapped[bytes] = mapped_column(LargeBinary, server_default=text("''"))
    detail: Mapped[str] = mapped_column(Text, server_default=text("''"))


class SubscriptionFlowRow(Base):
    """subscription_flows: what a consumer said it can take, until when."""

    __tablename__ = "subscription_flows"
    __table_args__ = (_of_subscription("subscription_flows_subscription"),)

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    messages_per_second: Mapped[float | None] = mapped_column(Double)
    max_outstanding: Mapped[int | None] = mapped_column(Integer)
    reason: Mapped[str] = mapped_column(Text, server_default=text("''"))
    said_by: Mapped[str] = mapped_column(Text)
    until: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    version: Mapped[Big]
