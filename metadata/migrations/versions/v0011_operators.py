"""Operators that have a part of what is above tenants."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without any: all that operators have.
    op.execute("ALTER TABLE clients ADD COLUMN permissions jsonb")
