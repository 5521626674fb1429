"""Exports, their runs, and how far they are."""

from __future__ import annotations

from alembic import op

from metadata.postgres.row_security import secure_tables

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # `topic_like` is the pattern of `topic` as LIKE reads it; `next_number` is of the next run.
    """
    CREATE TABLE exports (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        topic text NOT NULL,
        topic_like text NOT NULL,
        table_name text NOT NULL,
        lake text NOT NULL,
        format text NOT NULL
            CONSTRAINT exports_format CHECK (format IN ('iceberg', 'parquet')),
        body text NOT NULL
            CONSTRAINT exports_body CHECK (body IN ('json', 'avro', 'raw')),
        body_columns jsonb NOT NULL,
        keep_data boolean NOT NULL,
        partition_by text NOT NULL
            CONSTRAINT exports_partition_by CHECK (partition_by IN ('hour', 'day', 'none')),
        key_buckets integer NOT NULL,
        filter text,
        max_bytes_per_second bigint,
        target_file_bytes bigint NOT NULL,
        keep_snapshots_s bigint NOT NULL,
        orphans_after_s bigint NOT NULL,
        start_at text NOT NULL,
        cron text,
        time_zone text NOT NULL,
        missed_runs text NOT NULL
            CONSTRAINT exports_missed_runs CHECK (missed_runs IN ('skip', 'latest')),
        maintain_cron text,
        next_at timestamptz,
        maintain_next_at timestamptz,
        paused boolean NOT NULL,
        labels jsonb NOT NULL,
        next_number bigint NOT NULL,
        row_count bigint NOT NULL DEFAULT 0,
        rejected bigint NOT NULL DEFAULT 0,
        filtered bigint NOT NULL DEFAULT 0,
        byte_count bigint NOT NULL DEFAULT 0,
        expired bigint NOT NULL DEFAULT 0,
        runs bigint NOT NULL DEFAULT 0,
        missed bigint NOT NULL DEFAULT 0,
        coalesced bigint NOT NULL DEFAULT 0,
        table_state jsonb,
        rejects_state jsonb,
        failure_code text,
        failure_message text,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT exports_name UNIQUE (tenant_id, name),
        CONSTRAINT exports_table UNIQUE (tenant_id, lake, table_name),
        CONSTRAINT exports_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX exports_due ON exports (next_at) WHERE NOT paused",
    "CREATE INDEX exports_maintain_due ON exports (maintain_next_at) WHERE NOT paused",
    # The last number of a run that wrote to a table, for the next export to it.
    """
    CREATE TABLE export_tables (
        tenant_id uuid NOT NULL,
        lake text NOT NULL,
        table_name text NOT NULL,
        last_number bigint NOT NULL,
        PRIMARY KEY (tenant_id, lake, table_name),
        CONSTRAINT export_tables_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    # `ready_at`: it is not claimed before. `planned_from` are the positions that `ranges` was
    # planned from; `more`: it had no room for all.
    """
    CREATE TABLE export_runs (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        export_uid uuid NOT NULL,
        number bigint NOT NULL,
        kind text NOT NULL CONSTRAINT export_runs_kind
            CHECK (kind IN ('export', 'backfill', 'maintain', 'reconcile')),
        trigger text NOT NULL CONSTRAINT export_runs_trigger
            CHECK (trigger IN ('schedule', 'manual', 'maintenance')),
        state text NOT NULL CONSTRAINT export_runs_state
            CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
        cancelling boolean NOT NULL DEFAULT false,
        scheduled_for timestamptz,
        attempt integer NOT NULL DEFAULT 0,
        max_attempts integer NOT NULL,
        ready_at timestamptz NOT NULL DEFAULT now(),
        lease uuid,
        lease_until timestamptz,
        runner text,
        ranges jsonb,
        planned_from jsonb,
        more boolean NOT NULL DEFAULT false,
        progress jsonb,
        result jsonb,
        failure_code text,
        failure_message text,
        log bytea NOT NULL DEFAULT '',
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT export_runs_number UNIQUE (tenant_id, export_uid, number),
        CONSTRAINT export_runs_tick UNIQUE (tenant_id, export_uid, kind, scheduled_for),
        CONSTRAINT export_runs_export FOREIGN KEY (tenant_id, export_uid)
            REFERENCES exports (tenant_id, uid) ON DELETE CASCADE
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE UNIQUE INDEX export_runs_running ON export_runs (tenant_id, export_uid)
        WHERE state = 'running'
    """,
    # One that was claimed before is not counted: it comes before the one that is queued.
    """
    CREATE UNIQUE INDEX export_runs_queued ON export_runs (tenant_id, export_uid)
        WHERE state = 'queued' AND kind = 'export' AND started_at IS NULL
    """,
    """
    CREATE INDEX export_runs_live ON export_runs (tenant_id, export_uid, number)
        WHERE state IN ('queued', 'running')
    """,
    "CREATE INDEX export_runs_waiting ON export_runs (ready_at) WHERE state = 'queued'",
    "CREATE INDEX export_runs_leases ON export_runs (lease_until) WHERE state = 'running'",
    """
    CREATE INDEX export_runs_age ON export_runs (finished_at)
        WHERE state IN ('succeeded', 'failed', 'cancelled')
    """,
    # `begins`: the export's first offset in the lane; `lane_end` is as it was last looked at.
    """
    CREATE TABLE export_positions (
        tenant_id uuid NOT NULL,
        export_uid uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        begins bigint NOT NULL,
        reached bigint NOT NULL,
        lane_end bigint,
        PRIMARY KEY (tenant_id, export_uid, topic_uid, partition, lane),
        CONSTRAINT export_positions_export FOREIGN KEY (tenant_id, export_uid)
            REFERENCES exports (tenant_id, uid) ON DELETE CASCADE,
        CONSTRAINT export_positions_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX export_positions_of_topic ON export_positions (tenant_id, topic_uid)",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
    secure_tables(op.get_bind())
