"""Tells tenants of earlier releases, which are exempt from the built-in limits, from later ones.

A process of an earlier release leaves the column out, so that a tenant which it makes is exempt.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE tenants ADD COLUMN built_in_limits boolean NOT NULL DEFAULT false")
