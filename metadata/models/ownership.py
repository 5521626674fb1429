"""Live processes, and the units and locks that they own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Float, ForeignKeyConstraint, Index, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time, Uid


class ForwarderRow(Base):
    """forwarders: the lease of one incarnation of a process; never renewed once it is over."""

    __tablename__ = "forwarders"
    __table_args__ = (Index("forwarders_role", "role"),)

    incarnation: Mapped[KeyId]
    role: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    """The address at which it accepts links, `host:port`."""
    weight: Mapped[float] = mapped_column(Float, server_default="1")
    """The share of all units for this process, relative to the others."""
    load: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    """The last load report of the process, written with each renewal."""
    started_at: Mapped[Time]
    lease_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class AssignmentRow(Base):
    """assignments: the owner of a unit, and the epoch that fences its predecessors.

    A row with a subscription is that subscription's part of the partition, split off it; epochs are
    drawn from one sequence, so no two claims of anything share one."""

    __tablename__ = "assignments"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="assignments_topic",
            ondelete="CASCADE",
        ),
        Index("assignments_owner", "owner"),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    subscription_uid: Mapped[bytes] = mapped_column(
        Uid, primary_key=True, server_default="00000000-0000-0000-0000-000000000000"
    )
    """All zero: the whole partition."""
    owner: Mapped[Id | None]
    epoch_era: Mapped[Big]
    epoch_n: Mapped[Big]
    claimed_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class AssignmentHintRow(Base):
    """assignment_hints: where the scheduler wants a unit to be; only followed while that forwarder
    lives, and never needed."""

    __tablename__ = "assignment_hints"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "topic_uid"],
            ["topics.tenant_id", "topics.uid"],
            name="assignment_hints_topic",
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    subscription_uid: Mapped[KeyId]
    forwarder: Mapped[Id]
    reason: Mapped[str] = mapped_column(Text)
    made_at: Mapped[Time]


class EraRow(Base):
    """eras: each time this database may have lost history, and which server it was on."""

    __tablename__ = "eras"

    era: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    system_identifier: Mapped[str] = mapped_column(Text)
    timeline: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str] = mapped_column(Text)
    entered_at: Mapped[Time]


class LockRow(Base):
    """locks: a named lock with a lease and a fencing number that grows with each holder."""

    __tablename__ = "locks"

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    owner: Mapped[Id | None]
    fence: Mapped[Big]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    holder: Mapped[str | None] = mapped_column(Text)
    """The holder's name for itself."""
    ttl_seconds: Mapped[float | None] = mapped_column(Float)
    taken_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    request_id: Mapped[str | None] = mapped_column(Text)
    """The id of the acquire that made the holding; a repetition gets the same holding."""
    labels: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")


class LockFenceRow(Base):
    """lock_fences: what every fence of a tenant's locks was at most whose rows are gone."""

    __tablename__ = "lock_fences"

    tenant_id: Mapped[KeyId]
    floor: Mapped[Big]


class LockWaiterRow(Base):
    """lock_waiters: who waits for a lock, in the order of tickets; one that is not renewed any more
    (its process has died) is passed over."""

    __tablename__ = "lock_waiters"

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    ticket: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    alive_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))
