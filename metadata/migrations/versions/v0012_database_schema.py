"""The version of the schema, for processes of other releases."""

from __future__ import annotations

from alembic import op

from metadata.postgres.row_security import secure_tables

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE database_schema (revision text PRIMARY KEY, oldest text NOT NULL)")
    secure_tables(op.get_bind())
