"""Placement: partitions move to other groups and topics get more of them, under load."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    ALTER TABLE partitions
        ADD COLUMN sealed_time_us bigint,
        ADD COLUMN of_partitions integer,
        ADD CONSTRAINT partitions_sealed CHECK (
            (sealed_at IS NULL) = (sealed_time_us IS NULL)
            AND (sealed_at IS NULL) = (of_partitions IS NULL)
        )
    """,
    """
    CREATE TABLE placements (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        uid uuid NOT NULL,
        kind text NOT NULL CONSTRAINT placements_kind CHECK (kind IN ('move', 'grow')),
        partition integer,
        partitions integer NOT NULL,
        groups integer[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, topic_uid),
        CONSTRAINT placements_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE,
        CONSTRAINT placements_partition CHECK ((kind = 'move') = (partition IS NOT NULL))
    )
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
