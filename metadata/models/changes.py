"""The change feed's two tables, and what the schema says of itself."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Index, SmallInteger, Text
from sqlalchemy.orm import Mapped, mapped_column

from metadata.models.base import Base, Big, Id, Time


class ChangeCounterRow(Base):
    """change_counter: one row, locked last by every control-plane transaction, until it commits."""

    __tablename__ = "change_counter"
    __table_args__ = (CheckConstraint("id = 1", name="change_counter_single"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    version: Mapped[Big]
    pruned_to: Mapped[Big]


class ChangeRow(Base):
    """changes: what each version changed; kept for an hour, older readers start afresh."""

    __tablename__ = "changes"
    __table_args__ = (Index("changes_committed_at", "committed_at"),)

    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Text)
    tenant_id: Mapped[Id]
    uid: Mapped[Id]
    name: Mapped[str] = mapped_column(Text)
    topic_uid: Mapped[Id | None]
    committed_at: Mapped[Time]


class DatabaseSchemaRow(Base):
    """database_schema: one row: what schema this is (see metadata/postgres/database_schema.py)."""

    __tablename__ = "database_schema"

    revision: Mapped[str] = mapped_column(Text, primary_key=True)
    oldest: Mapped[str] = mapped_column(Text)
