"""Row-level security on every table of tenants, for the two roles (`migrate.py` makes them)."""

from __future__ import annotations

from alembic import op

from metadata.postgres.row_security import secure_tables

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    secure_tables(op.get_bind())
