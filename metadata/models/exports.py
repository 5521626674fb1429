"""Exports, their runs, and how far they are."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class ExportRow(Base):
    """exports: what of a topic goes to which table, when, and how far it is."""

    __tablename__ = "exports"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="exports_tenant", ondelete="CASCADE"
        ),
        UniqueConstraint("tenant_id", "name", name="exports_name"),
        UniqueConstraint("tenant_id", "lake", "table_name", name="exports_table"),
        CheckConstraint("format IN ('iceberg', 'parquet')", name="exports_format"),
        CheckConstraint("body IN ('json', 'avro', 'raw')", name="exports_body"),
        CheckConstraint("partition_by IN ('hour', 'day', 'none')", name="exports_partition_by"),
        CheckConstraint("missed_runs IN ('skip', 'latest')", name="exports_missed_runs"),
        Index("exports_due", "next_at", postgresql_where=text("NOT paused")),
        Index("exports_maintain_due", "maintain_next_at", postgresql_where=text("NOT paused")),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(Text)
    topic_like: Mapped[str] = mapped_column(Text)
    table_name: Mapped[str] = mapped_column(Text)
    lake: Mapped[str] = mapped_column(Text)
    format: Mapped[str] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text)
    body_columns: Mapped[dict[str, str]] = mapped_column(JSONB)
    keep_data: Mapped[bool]
    partition_by: Mapped[str] = mapped_column(Text)
    key_buckets: Mapped[int] = mapped_column(Integer)
    filter: Mapped[str | None] = mapped_column(Text)
    max_bytes_per_second: Mapped[Big | None]
    target_file_bytes: Mapped[Big]
    keep_snapshots_s: Mapped[Big]
    orphans_after_s: Mapped[Big]
    start_at: Mapped[str] = mapped_column(Text)
    cron: Mapped[str | None] = mapped_column(Text)
    time_zone: Mapped[str] = mapped_column(Text)
    missed_runs: Mapped[str] = mapped_column(Text)
    maintain_cron: Mapped[str | None] = mapped_column(Text)
    next_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    maintain_next_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    paused: Mapped[bool]
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    next_number: Mapped[Big]
    row_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    rejected: Mapped[int] = mapped_column(BigInteger, server_default="0")
    filtered: Mapped[int] = mapped_column(BigInteger, server_default="0")
    byte_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    expired: Mapped[int] = mapped_column(BigInteger, server_default="0")
    runs: Mapped[int] = mapped_column(BigInteger, server_default="0")
    missed: Mapped[int] = mapped_column(BigInteger, server_default="0")
    coalesced: Mapped[int] = mapped_column(BigInteger, server_default="0")
    table_state: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    rejects_state: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    failure_code: Mapped[str | None] = mapped_column(Text)
    failure_message: Mapped[str | None] = mapped_column(Text)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class ExportTableRow(Base):
    """export_tables: the number of the last run that may have written to a table whose export is
    gone."""

    __tablename__ = "export_tables"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="export_tables_tenant", ondelete="CASCADE"
        ),
    )

    tenant_id: Mapped[KeyId]
    lake: Mapped[str] = mapped_column(Text, primary_key=True)
    table_name: Mapped[str] = mapped_column(Text, primary_key=True)
    last_number: Mapped[Big]


class ExportRunRow(Base):
    """export_runs: what a runner leases; of one export one after the other, by their numbers."""

    __tablename__ = "export_runs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "export_uid"],
            ["exports.tenant_id", "exports.uid"],
            name="export_runs_export",
            ondelete="CASCADE",
        ),
        UniqueConstraint("tenant_id", "export_uid", "number", name="export_runs_number"),
        UniqueConstraint(
            "tenant_id", "export_uid", "kind", "scheduled_for", name="export_runs_tick"
        ),
        CheckConstraint(
            "kind IN ('export', 'backfill', 'maintain', 'reconcile')", name="export_runs_kind"
        ),
        CheckConstraint(
            "trigger IN ('schedule', 'manual', 'maintenance')", name="export_runs_trigger"
        ),
        CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name="export_runs_state",
        ),
        Index(
            "export_runs_running",
            *("tenant_id", "export_uid"),
            unique=True,
            postgresql_where=text("state = 'running'"),
        ),
        Index(
            "export_runs_queued",
            *("tenant_id", "export_uid"),
            unique=True,
            postgresql_where=text("state = 'queued' AND kind = 'export' AND started_at IS NULL"),
        ),
        Index(
            "export_runs_live",
            *("tenant_id", "export_uid", "number"),
            postgresql_where=text("state IN ('queued', 'running')"),
        ),
        Index("export_runs_waiting", "ready_at", postgresql_where=text("state = 'queued'")),
        Index("export_runs_leases", "lease_until", postgresql_where=text("state = 'running'")),
        Index(
            "export_runs_age",
            "finished_at",
            postgresql_where=text("state IN ('succeeded', 'failed', 'cancelled')"),
        ),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    export_uid: Mapped[Id]
    number: Mapped[Big]
    kind: Mapped[str] = mapped_column(Text)
    trigger: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    cancelling: Mapped[bool] = mapped_column(server_default=text("false"))
    scheduled_for: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    attempt: Mapped[int] = mapped_column(Integer, server_default="0")
    max_attempts: Mapped[int] = mapped_column(Integer)
    ready_at: Mapped[Time]
    lease: Mapped[Id | None]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    runner: Mapped[str | None] = mapped_column(Text)
    ranges: Mapped[list[Any] | None] = mapped_column(JSONB)
    planned_from: Mapped[list[Any] | None] = mapped_column(JSONB)
    more: Mapped[bool] = mapped_column(server_default=text("false"))
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    failure_code: Mapped[str | None] = mapped_column(Text)
    failure_message: Mapped[str | None] = mapped_column(Text)
    log: Mapped[bytes] = mapped_column(LargeBinary, server_default="")
    created_at: Mapped[Time]
    started_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class ExportPositionRow(Base):
    """export_positions: how far an export is in a lane, from `begins` on."""

    __tablename__ = "export_positions"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "export_uid"],
            ["exports.tenant_id", "exports.uid"],
            name="export_positions_export",
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="export_positions_topic",
            ondelete="CASCADE",
        ),
        Index("export_positions_of_topic", "tenant_id", "topic_uid"),
    )

    tenant_id: Mapped[KeyId]
    export_uid: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    begins: Mapped[Big]
    reached: Mapped[Big]
    lane_end: Mapped[Big | None]
