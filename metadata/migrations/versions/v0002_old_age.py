"""Old age: what a topic may hold, who pins its history, when staged messages are due."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # A process of the version before does not name the column: it has a default for good.
    """
    ALTER TABLE topics
        ADD COLUMN retention_on_limit text NOT NULL DEFAULT 'refuse'
            CONSTRAINT topics_retention_on_limit
            CHECK (retention_on_limit IN ('refuse', 'expire_oldest')),
        ADD COLUMN full_reason text
            CONSTRAINT topics_full_reason CHECK (full_reason IN ('topic-full', 'tenant-full')),
        ADD COLUMN full_detail text
    """,
    """
    CREATE TABLE topic_usage (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        stored_bytes bigint NOT NULL,
        staged bigint NOT NULL,
        measured_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, topic_uid),
        CONSTRAINT topic_usage_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE snapshots (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        topic_uid uuid NOT NULL,
        name text NOT NULL,
        expires_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT snapshots_name UNIQUE (tenant_id, name),
        CONSTRAINT snapshots_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE pins (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        holder uuid NOT NULL,
        kind text NOT NULL CONSTRAINT pins_kind CHECK (kind IN ('snapshot', 'export')),
        pinned_offset bigint NOT NULL,
        expires_at timestamptz,
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, holder),
        CONSTRAINT pins_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    # No foreign keys below: a topic with a million delayed messages is deleted in one short
    # transaction, and the scheduler sweeps up after it in small ones.
    """
    CREATE TABLE due_index (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        generation integer NOT NULL,
        stage_number bigint NOT NULL,
        due_us bigint NOT NULL,
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, generation, stage_number)
    )
    """,
    "CREATE INDEX due_index_due ON due_index (due_us)",
    """
    CREATE TABLE due_progress (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        generation integer NOT NULL,
        projected_to bigint NOT NULL,
        changes bigint NOT NULL,
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, generation)
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE forwarded (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        generation integer NOT NULL,
        stage_number bigint NOT NULL,
        to_partition integer NOT NULL,
        to_offset bigint NOT NULL,
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, generation, stage_number)
    )
    """,
    "CREATE INDEX forwarded_to ON forwarded (tenant_id, topic_uid, to_partition, lane, to_offset)",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
