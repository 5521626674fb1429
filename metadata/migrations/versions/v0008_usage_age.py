"""Hours of usage are found by their age."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE INDEX usage_hours_age ON usage_hours (hour)")
