"""Jobs, their tasks, and the pools whose workers run them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
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
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class JobPoolRow(Base):
    """job_pools: how many tasks of a pool run at once; a pool without a row has no limit."""

    __tablename__ = "job_pools"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="job_pools_tenant", ondelete="CASCADE"
        ),
    )

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    max_running: Mapped[int | None] = mapped_column(Integer)
    version: Mapped[Big]
    created_at: Mapped[Time]
    updated_at: Mapped[Time]


class JobRow(Base):
    """jobs: map tasks, then at most one reduce task. A child's parent may go before it does."""

    __tablename__ = "jobs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="jobs_tenant", ondelete="CASCADE"
        ),
        CheckConstraint(
            "state IN ('open', 'running', 'reducing', 'succeeded', 'failed', 'cancelled')",
            name="jobs_state",
        ),
        CheckConstraint("on_failure IN ('fail', 'continue')", name="jobs_on_failure"),
        Index("jobs_name", "tenant_id", "name", unique=True, postgresql_where=text("NOT gone")),
        Index(
            "jobs_live",
            "tenant_id",
            "pool",
            postgresql_where=text("state IN ('open', 'running', 'reducing')"),
        ),
        Index(
            "jobs_children",
            "tenant_id",
            "parent_uid",
            postgresql_where=text("parent_uid IS NOT NULL"),
        ),
        Index("jobs_to_sweep", "tenant_id", "uid", postgresql_where=text("sweep")),
        Index("jobs_expiry", "expires_at", postgresql_where=text("NOT gone")),
    )

    tenant_id: Mapped[KeyId]
    uid: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    map_kind: Mapped[str] = mapped_column(Text)
    reduce_kind: Mapped[str | None] = mapped_column(Text)
    pool: Mapped[str] = mapped_column(Text)
    reduce_pool: Mapped[str | None] = mapped_column(Text)
    priority: Mapped[int] = mapped_column(SmallInteger)
    max_attempts: Mapped[int] = mapped_column(Integer)
    min_backoff_s: Mapped[float] = mapped_column(Double)
    max_backoff_s: Mapped[float] = mapped_column(Double)
    on_failure: Mapped[str] = mapped_column(Text)
    max_failed: Mapped[int | None] = mapped_column(Integer)
    parent_uid: Mapped[Id | None]
    parent_name: Mapped[str | None] = mapped_column(Text)
    parent_number: Mapped[int | None] = mapped_column(Integer)
    depth: Mapped[int] = mapped_column(SmallInteger)
    keep_s: Mapped[int] = mapped_column(Integer)
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    sealed_total: Mapped[int | None] = mapped_column(Integer)
    total: Mapped[int] = mapped_column(Integer, server_default="0")
    succeeded: Mapped[int] = mapped_column(Integer, server_default="0")
    failed: Mapped[int] = mapped_column(Integer, server_default="0")
    nested: Mapped[int] = mapped_column(Integer, server_default="0")
    stored_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    next_turn: Mapped[int] = mapped_column(BigInteger, server_default="0")
    result: Mapped[bytes | None] = mapped_column(LargeBinary)
    error: Mapped[str | None] = mapped_column(Text)
    sweep: Mapped[bool] = mapped_column(server_default=text("false"))
    gone: Mapped[bool] = mapped_column(server_default=text("false"))
    version: Mapped[Big]
    created_at: Mapped[Time]
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class JobTaskRow(Base):
    """job_tasks: what a worker leases; `number` -1 is the reduce task."""

    __tablename__ = "job_tasks"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "job_uid"],
            ["jobs.tenant_id", "jobs.uid"],
            name="job_tasks_job",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "state IN ('waiting', 'delayed', 'running', 'nested', 'succeeded', 'failed',"
            " 'cancelled')",
            name="job_tasks_state",
        ),
        Index(
            "job_tasks_waiting",
            *("tenant_id", "pool", "kind", "rank", "turn"),
            postgresql_where=text("state = 'waiting'"),
        ),
        Index(
            "job_tasks_delayed",
            *("tenant_id", "pool", "ready_at"),
            postgresql_where=text("state = 'delayed'"),
        ),
        Index(
            "job_tasks_running",
            *("tenant_id", "pool", "job_uid"),
            postgresql_where=text("state = 'running'"),
        ),
        Index("job_tasks_leases", "lease_until", postgresql_where=text("state = 'running'")),
    )

    tenant_id: Mapped[KeyId]
    job_uid: Mapped[KeyId]
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Text)
    pool: Mapped[str] = mapped_column(Text)
    rank: Mapped[int] = mapped_column(SmallInteger)
    turn: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(Integer, server_default="0")
    ready_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    lease: Mapped[Id | None]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    worker: Mapped[str | None] = mapped_column(Text)
    wait_for: Mapped[Id | None]
    input: Mapped[bytes] = mapped_column(LargeBinary)
    output: Mapped[bytes | None] = mapped_column(LargeBinary)
    error: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
