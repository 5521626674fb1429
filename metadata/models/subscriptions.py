"""Subscriptions and their ack state."""

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
from sqlalchemy.dialects.postgresql import INT8MULTIRANGE, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time
from openapi.subscriptions import DeliveryValue, OnExhausted, State, StoredType


class SubscriptionRow(Base):
    """subscriptions: an independent reader of a topic; names are unique per tenant."""

    __tablename__ = "subscriptions"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="subscriptions_topic",
        ),
        UniqueConstraint("tenant_id", "name", name="subscriptions_name"),
        Index("subscriptions_of_topic", "tenant_id", "topic_uid", "name"),
        CheckConstraint("type IN ('pull', 'push', 'export')", name="subscriptions_type"),
        CheckConstraint(
            "delivery IN ('at_least_once', 'at_most_once', 'exactly_once')",
            name="subscriptions_delivery",
        ),
        CheckConstraint(
            "on_exhausted IN ('dead_letter', 'park')", name="subscriptions_on_exhausted"
        ),
        CheckConstraint("state IN ('active', 'paused', 'draining')", name="subscriptions_state"),
        CheckConstraint("(type = 'push') = (push IS NOT NULL)", name="subscriptions_push"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    topic_uid: Mapped[Id]
    name: Mapped[str] = mapped_column(Text)
    type: Mapped[StoredType] = mapped_column(Text)
    delivery: Mapped[DeliveryValue] = mapped_column(Text)
    ordered: Mapped[bool]
    ack_deadline_s: Mapped[float] = mapped_column(Double)
    retry_min_backoff_s: Mapped[float] = mapped_column(Double)
    retry_max_backoff_s: Mapped[float] = mapped_column(Double)
    retry_max_attempts: Mapped[int | None] = mapped_column(Integer)
    dead_letter_topic: Mapped[str | None] = mapped_column(Text)
    on_exhausted: Mapped[OnExhausted] = mapped_column(Text, server_default="dead_letter")
    filter: Mapped[str | None] = mapped_column(Text)
    rate_limit: Mapped[float | None] = mapped_column(Double)
    consumer_rate_limit: Mapped[float | None] = mapped_column(Double)
    max_outstanding: Mapped[int | None] = mapped_column(Integer)
    state: Mapped[State] = mapped_column(Text, server_default="active")
    state_reason: Mapped[str | None] = mapped_column(Text)
    push: Mapped[Any | None] = mapped_column(JSONB(none_as_null=True))
    start: Mapped[Any] = mapped_column(JSONB)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    generation: Mapped[int] = mapped_column(Integer)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class CursorRow(Base):
    """cursors: ack state of (subscription, partition, lane); written under its owner's epoch only.

    read_to - start_offset = the five totals + exceptions + what of [floor, read_to) is not in
    `acked`. An offset with a row in `deliveries` is in `acked` (or below the floor) but in no
    total; `exceptions` is how many there are.
    """

    __tablename__ = "cursors"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid"],
            ["subscriptions.tenant_id", "subscriptions.uid"],
            name="cursors_subscription",
            ondelete="CASCADE",
        ),
        Index("cursors_of_partition", "tenant_id", "topic_uid", "partition"),
        CheckConstraint(
            "start_offset <= floor AND floor <= read_to AND acked <@ int8range(floor, read_to)",
            name="cursors_order",
        ),
        CheckConstraint(
            "least(acked_total, filtered_total, skipped_total, expired_total, dead_lettered_total)"
            " >= 0",
            name="cursors_totals",
        ),
        CheckConstraint("exceptions >= 0", name="cursors_exceptions"),
        {"postgresql_with": {"fillfactor": "50"}},
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    topic_uid: Mapped[Id]
    epoch_era: Mapped[Big]
    epoch_n: Mapped[Big]
    generation: Mapped[int] = mapped_column(Integer)
    start_offset: Mapped[Big]
    floor: Mapped[Big]
    read_to: Mapped[Big]
    acked: Mapped[Any] = mapped_column(INT8MULTIRANGE)
    acked_total: Mapped[Big]
    filtered_total: Mapped[Big]
    skipped_total: Mapped[Big]
    expired_total: Mapped[Big]
    dead_lettered_total: Mapped[Big]
    exceptions: Mapped[int] = mapped_column(BigInteger, server_default="0")


class DeliveryRow(Base):
    """deliveries: an unsettled offset its cursor has stepped over: long holes, attempts that
    failed, parked keys. `attempts` are those that ended without an ack."""

    __tablename__ = "deliveries"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid", "partition", "lane"],
            [
                "cursors.tenant_id",
                "cursors.subscription_uid",
                "cursors.partition",
                "cursors.lane",
            ],
            name="deliveries_cursor",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "reason IN ('hole', 'failed', 'exhausted', 'rejected', 'parked', 'behind_parked')",
            name="deliveries_reason",
        ),
        Index(
            "deliveries_without_dead_letter",
            "tenant_id",
            "subscription_uid",
            postgresql_where=text("reason IN ('exhausted', 'rejected')"),
        ),
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    message_offset: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    attempts: Mapped[int] = mapped_column(Integer)
    not_before: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    reason: Mapped[str] = mapped_column(Text)
    key_hash: Mapped[Big | None]
    detail: Mapped[str | None] = mapped_column(Text)
    first_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class DeliveryLeaseRow(Base):
    """delivery_leases: what one pull of an exactly-once subscription leased; `acked` of it was
    settled under this lease. Kept for a while after its end, so that an ack can be repeated."""

    __tablename__ = "delivery_leases"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid", "partition", "lane"],
            [
                "cursors.tenant_id",
                "cursors.subscription_uid",
                "cursors.partition",
                "cursors.lane",
            ],
            name="delivery_leases_cursor",
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[KeyId]
    subscription_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    epoch_era: Mapped[Big]
    epoch_n: Mapped[Big]
    attempt: Mapped[int] = mapped_column(Integer)
    offsets: Mapped[Any] = mapped_column(INT8MULTIRANGE)
    acked: Mapped[Any] = mapped_column(INT8MULTIRANGE)
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class SkipRuleRow(Base):
    """skip_rules: messages a subscription passes over; a rule that was removed stays, for audit."""

    __tablename__ = "skip_rules"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid"],
            ["subscriptions.tenant_id", "subscriptions.uid"],
            name="skip_rules_subscription",
            ondelete="CASCADE",
        ),
        Index("skip_rules_of_subscription", "tenant_id", "subscription_uid"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    subscription_uid: Mapped[Id]
    expression: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[Time]
    removed_by: Mapped[str | None] = mapped_column(Text)
    removed_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
