"""Schedules, schemas, and publications that commit together with an ack."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class ScheduleRow(Base):
    """schedules: a message published by the clock. `next_at` moves with the run it stands for."""

    __tablename__ = "schedules"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="schedules_name"),
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="schedules_topic",
            ondelete="CASCADE",
        ),
        CheckConstraint("missed_runs IN ('skip', 'latest', 'all')", name="schedules_missed_runs"),
        Index("schedules_next", "next_at", postgresql_where=text("NOT paused")),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    topic_uid: Mapped[Id]
    name: Mapped[str] = mapped_column(Text)
    cron: Mapped[str] = mapped_column(Text)
    time_zone: Mapped[str] = mapped_column(Text)
    missed_runs: Mapped[str] = mapped_column(Text)
    message: Mapped[bytes] = mapped_column(LargeBinary)
    paused: Mapped[bool]
    next_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_message_id: Mapped[str | None] = mapped_column(Text)
    runs: Mapped[int] = mapped_column(BigInteger, server_default="0")
    missed: Mapped[int] = mapped_column(BigInteger, server_default="0")
    failure: Mapped[str | None] = mapped_column(Text)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class SchemaRow(Base):
    """schemas: a named contract of message bodies; its versions are never changed."""

    __tablename__ = "schemas"
    __table_args__ = (
        CheckConstraint("type IN ('json_schema', 'avro')", name="schemas_type"),
        CheckConstraint(
            "compatibility IN ('none', 'backward', 'forward', 'full')",
            name="schemas_compatibility",
        ),
    )

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    type: Mapped[str] = mapped_column(Text)
    compatibility: Mapped[str] = mapped_column(Text)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class SchemaVersionRow(Base):
    """schema_versions: one definition, numbered from 1."""

    __tablename__ = "schema_versions"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "name"],
            ["schemas.tenant_id", "schemas.name"],
            name="schema_versions_schema",
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    definition: Mapped[str] = mapped_column(Text)
    created_at: Mapped[Time]


class AckPublicationRow(Base):
    """ack_publications: the fate of messages staged under a tag: `open` before they are staged,
    `committed` with the ack that publishes them, gone once they are released; `aborted` makes that
    commit impossible. `outputs` says where they are: queues, and stage numbers once committed."""

    __tablename__ = "ack_publications"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'committed', 'aborted')", name="ack_publications_state"),
        Index("ack_publications_created", "created_at"),
    )

    tenant_id: Mapped[KeyId]
    tag: Mapped[KeyId]
    state: Mapped[str] = mapped_column(Text)
    outputs: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[Time]
    """The time of creation, or for an aborted row the time of its abort."""
