"""The proof by which a tenant's tokens of an issuer count as its own, and operators' exceptions.

The issuers that are there were proved by nobody. An issuer and audience may be in several tenants:
which of them a token is for follows from how each has proved it.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE tenants ADD COLUMN issuers_allowed jsonb NOT NULL DEFAULT '[]'")
    op.execute("""
        ALTER TABLE issuers
        ADD COLUMN trust text NOT NULL DEFAULT 'unproved',
        ADD CONSTRAINT issuers_trust
            CHECK (trust IN ('audience', 'document', 'operator', 'unproved', 'withdrawn')),
        DROP CONSTRAINT issuers_issuer,
        ADD CONSTRAINT issuers_issuer UNIQUE (issuer, audience, tenant_id)
    """)
