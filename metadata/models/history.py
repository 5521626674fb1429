"""Snapshots, and the pins that hold a topic's history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import INT8MULTIRANGE, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class TopicUsageRow(Base):
    """topic_usage: what a topic stored when the scheduler last looked."""

    __tablename__ = "topic_usage"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="topic_usage_topic",
            ondelete="CASCADE",
        ),
        {"postgresql_with": {"fillfactor": "50"}},
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    stored_bytes: Mapped[Big]
    staged: Mapped[Big]
    measured_at: Mapped[Time]


class SnapshotRow(Base):
    """snapshots: a named point in a topic's history; its pins hold what comes after it."""

    __tablename__ = "snapshots"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="snapshots_topic",
            ondelete="CASCADE",
        ),
        UniqueConstraint("tenant_id", "name", name="snapshots_name"),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    topic_uid: Mapped[Id]
    name: Mapped[str] = mapped_column(Text)
    subscription_name: Mapped[str] = mapped_column(Text)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    created_at: Mapped[Time]


class SnapshotCursorRow(Base):
    """snapshot_cursors: the ack state of a snapshot.

    Offsets from `floor` on that are not in `acked` were unacked.
    """

    __tablename__ = "snapshot_cursors"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "snapshot_uid"],
            ["snapshots.tenant_id", "snapshots.uid"],
            name="snapshot_cursors_snapshot",
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[KeyId]
    snapshot_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    floor: Mapped[Big]
    read_to: Mapped[Big]
    acked: Mapped[Any] = mapped_column(INT8MULTIRANGE)


class PinRow(Base):
    """pins: nothing of a partition from `pinned_offset` on is trimmed while this row is here."""

    __tablename__ = "pins"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="pins_topic",
            ondelete="CASCADE",
        ),
        CheckConstraint("kind IN ('snapshot', 'export')", name="pins_kind"),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    holder: Mapped[KeyId]
    kind: Mapped[str] = mapped_column(Text)
    pinned_offset: Mapped[Big]
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class AckHistoryRow(Base):
    """ack_history: when offsets [low, high) were settled, and how, where a topic keeps that. Those
    of one generation of a cursor do not overlap."""

    __tablename__ = "ack_history"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "subscription_uid"],
            ["subscriptions.tenant_id", "subscriptions.uid"],
            name="ack_history_subscription",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "outcome IN ('acked', 'filtered', 'skipped', 'expired', 'dead_lettered')",
            name="ack_history_outcome",
        ),
        Index(
            "ack_history_offsets",
            "tenant_id",
            "topic_uid",
            "partition",
            "lane",
            "subscription_uid",
            "generation",
            "high",
        ),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    subscription_uid: Mapped[KeyId]
    generation: Mapped[int] = mapped_column(Integer)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    low: Mapped[Big]
    high: Mapped[Big]
    outcome: Mapped[str] = mapped_column(Text)
    settled_at: Mapped[Time]
