"""Projections of what the store has staged; no foreign keys, see the migration."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, KeyId


class DueRow(Base):
    """due_index: when a staged message is due. It may still name one that is staged no more."""

    __tablename__ = "due_index"
    __table_args__ = (Index("due_index_due", "due_us"),)

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    generation: Mapped[int] = mapped_column(Integer, primary_key=True)
    stage_number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    due_us: Mapped[Big]


class DueProgressRow(Base):
    """due_progress: every message of a queue below `projected_to` that is still staged has its row
    in due_index, with the due time it had after the first `changes` of the queue."""

    __tablename__ = "due_progress"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    generation: Mapped[int] = mapped_column(Integer, primary_key=True)
    projected_to: Mapped[Big]
    changes: Mapped[Big]


class ForwardedRow(Base):
    """forwarded: where a message went that was staged in a queue since sealed."""

    __tablename__ = "forwarded"
    __table_args__ = (
        Index("forwarded_to", "tenant_id", "topic_uid", "to_partition", "lane", "to_offset"),
    )

    tenant_id: Mapped[KeyId]
    topic_uid: Mapped[KeyId]
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    lane: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    generation: Mapped[int] = mapped_column(Integer, primary_key=True)
    stage_number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    to_partition: Mapped[int] = mapped_column(Integer)
    to_offset: Mapped[Big]
