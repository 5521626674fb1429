"""Topics and where their partitions live."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    Integer,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from metadata.models.base import Base, Big, Id, KeyId, Time
from openapi.topics import Mode, OnLimit, PlacementKind


class TopicRow(Base):
    """topics: a named stream; the name is unique among those that aren't being deleted."""

    __tablename__ = "topics"
    __table_args__ = (
        Index(
            "topics_name",
            "tenant_id",
            "name",
            unique=True,
            postgresql_where=text("state <> 'deleting'"),
        ),
        Index("topics_unfinished", "updated_at", postgresql_where=text("state <> 'active'")),
        CheckConstraint("state IN ('creating', 'active', 'deleting')", name="topics_state"),
        CheckConstraint("retention_mode IN ('consume', 'retain')", name="topics_retention_mode"),
        CheckConstraint(
            "retention_on_limit IN ('refuse', 'expire_oldest')", name="topics_retention_on_limit"
        ),
        CheckConstraint("full_reason IN ('topic-full', 'tenant-full')", name="topics_full_reason"),
        CheckConstraint("priorities BETWEEN 1 AND 10", name="topics_priorities"),
        ForeignKeyConstraint(
            ["tenant_id", "schema_name"],
            ["schemas.tenant_id", "schemas.name"],
            name="topics_schema",
        ),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    retention_mode: Mapped[Mode] = mapped_column(Text)
    retention_seconds: Mapped[Big | None]
    retention_bytes: Mapped[Big | None]
    retention_on_limit: Mapped[OnLimit] = mapped_column(Text, server_default="refuse")
    full_reason: Mapped[str | None] = mapped_column(Text)
    full_detail: Mapped[str | None] = mapped_column(Text)
    dedup_window_s: Mapped[int] = mapped_column(Integer)
    priorities: Mapped[int] = mapped_column(SmallInteger, server_default="1")
    ack_history: Mapped[bool] = mapped_column(server_default="false")
    schema_name: Mapped[str | None] = mapped_column(Text)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]

    partitions: Mapped[list[PartitionRow]] = relationship(
        lazy="selectin",
        order_by="PartitionRow.partition, PartitionRow.lane, PartitionRow.generation",
        passive_deletes=True,
    )


class PartitionRow(Base):
    """partitions: one queue each; a sealed generation stays for as long as its messages do.

    `trimmed_to` is the partition's, the same in the rows of all its generations.
    """

    __tablename__ = "partitions"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="partitions_topic",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "(sealed_at IS NULL) = (sealed_time_us IS NULL)"
            " AND (sealed_at IS NULL) = (of_partitions IS NULL)",
            name="partitions_sealed",
        ),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    generation: Mapped[int] = mapped_column(Integer, primary_key=True)
    group_number: Mapped[int] = mapped_column(Integer)
    base: Mapped[Big]
    sealed_at: Mapped[Big | None]
    trimmed_to: Mapped[Big]
    sealed_time_us: Mapped[Big | None]
    of_partitions: Mapped[int | None] = mapped_column(Integer)


class PlacementRow(Base):
    """placements: the intent to move one partition, or to give the topic more, until it is done.

    One at a time for each topic, and only its end makes a new generation: so the queues that it
    opens can be named from the partitions as they are.
    """

    __tablename__ = "placements"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="placements_topic",
            ondelete="CASCADE",
        ),
        CheckConstraint("kind IN ('move', 'grow')", name="placements_kind"),
        CheckConstraint("(kind = 'move') = (partition IS NOT NULL)", name="placements_partition"),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    uid: Mapped[Id]
    kind: Mapped[PlacementKind] = mapped_column(Text)
    partition: Mapped[int | None] = mapped_column(Integer)
    partitions: Mapped[int] = mapped_column(Integer)
    groups: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    created_at: Mapped[Time]
