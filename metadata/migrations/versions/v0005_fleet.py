"""Many subscribe forwarders: units of ownership, hints, load reports; eras; locks for tenants."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_WHOLE = "00000000-0000-0000-0000-000000000000"
_STATEMENTS = (
    f"""
    ALTER TABLE assignments
        ADD COLUMN subscription_uid uuid NOT NULL DEFAULT '{_WHOLE}',
        DROP CONSTRAINT assignments_pkey,
        ADD PRIMARY KEY (tenant_id, topic_uid, partition, subscription_uid)
    """,
    "CREATE SEQUENCE claim_epochs",
    "SELECT setval('claim_epochs', (SELECT coalesce(max(epoch_n), 0) + 1 FROM assignments))",
    """
    ALTER TABLE forwarders
        ADD COLUMN weight double precision NOT NULL DEFAULT 1
            CONSTRAINT forwarders_weight CHECK (weight > 0),
        ADD COLUMN load jsonb
    """,
    """
    CREATE TABLE assignment_hints (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        subscription_uid uuid NOT NULL,
        forwarder uuid NOT NULL,
        reason text NOT NULL,
        made_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, topic_uid, partition, subscription_uid),
        CONSTRAINT assignment_hints_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE eras (
        era bigint PRIMARY KEY,
        system_identifier text NOT NULL,
        timeline integer NOT NULL,
        reason text NOT NULL,
        entered_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    ALTER TABLE locks
        ADD COLUMN holder text,
        ADD COLUMN ttl_seconds double precision,
        ADD COLUMN taken_at timestamptz,
        ADD COLUMN request_id text,
        ADD COLUMN labels jsonb NOT NULL DEFAULT '{}'
    """,
    "CREATE TABLE lock_fences (tenant_id uuid PRIMARY KEY, floor bigint NOT NULL)",
    "CREATE SEQUENCE lock_tickets",
    """
    CREATE TABLE lock_waiters (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        ticket bigint NOT NULL,
        alive_until timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, name, ticket)
    )
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
