"""Alembic's entry: runs on the connection that `migrate.py` hands over, never offline."""

from __future__ import annotations

from alembic import context

from metadata.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
