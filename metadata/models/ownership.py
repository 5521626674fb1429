"""Who is alive and who owns what."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import DateTime, ForeignKeyConstraint, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, KeyId, Time


class ForwarderRow(Base):
    """forwarders: the lease of one incarnation of a process; never renewed once it is over."""

    __tablename__ = "forwarders"
    __table_args__ = (Index("forwarders_role", "role"),)

    incarnation: Mapped[KeyId]
    role: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    started_at: Mapped[Time]
    lease_until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class AssignmentRow(Base):
    """assignments: the owner of a partition, and the epoch that fences its predecessors."""

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
    owner: Mapped[Id | None]
    epoch_era: Mapped[Big]
    epoch_n: Mapped[Big]
    claimed_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class LockRow(Base):
    """locks: a named lock with a lease and a fencing number that grows with each holder."""

    __tablename__ = "locks"

    tenant_id: Mapped[KeyId]
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    owner: Mapped[Id | None]
    fence: Mapped[Big]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
