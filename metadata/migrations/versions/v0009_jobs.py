"""Jobs, their tasks, and the pools whose workers run them."""

from __future__ import annotations

from alembic import op

from metadata.postgres.row_security import secure_tables

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE job_pools (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        max_running integer,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, name),
        CONSTRAINT job_pools_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    # A child's parent is not referenced: it may go first. `sealed_total` is null while it is open;
    # `sweep`: its tasks or children are behind its state; `gone`: deleted, its rows are to follow.
    """
    CREATE TABLE jobs (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        state text NOT NULL CONSTRAINT jobs_state CHECK
            (state IN ('open', 'running', 'reducing', 'succeeded', 'failed', 'cancelled')),
        map_kind text NOT NULL,
        reduce_kind text,
        pool text NOT NULL,
        reduce_pool text,
        priority smallint NOT NULL,
        max_attempts integer NOT NULL,
        min_backoff_s double precision NOT NULL,
        max_backoff_s double precision NOT NULL,
        on_failure text NOT NULL
            CONSTRAINT jobs_on_failure CHECK (on_failure IN ('fail', 'continue')),
        max_failed integer,
        parent_uid uuid,
        parent_name text,
        parent_number integer,
        depth smallint NOT NULL,
        keep_s integer NOT NULL,
        labels jsonb NOT NULL,
        sealed_total integer,
        total integer NOT NULL DEFAULT 0,
        succeeded integer NOT NULL DEFAULT 0,
        failed integer NOT NULL DEFAULT 0,
        nested integer NOT NULL DEFAULT 0,
        stored_bytes bigint NOT NULL DEFAULT 0,
        next_turn bigint NOT NULL DEFAULT 0,
        result bytea,
        error text,
        sweep boolean NOT NULL DEFAULT false,
        gone boolean NOT NULL DEFAULT false,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        expires_at timestamptz,
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT jobs_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    ) WITH (fillfactor = 70)
    """,
    "CREATE UNIQUE INDEX jobs_name ON jobs (tenant_id, name) WHERE NOT gone",
    """
    CREATE INDEX jobs_live ON jobs (tenant_id, pool)
        WHERE state IN ('open', 'running', 'reducing')
    """,
    """
    CREATE INDEX jobs_children ON jobs (tenant_id, parent_uid)
        WHERE parent_uid IS NOT NULL
    """,
    "CREATE INDEX jobs_to_sweep ON jobs (tenant_id, uid) WHERE sweep",
    "CREATE INDEX jobs_expiry ON jobs (expires_at) WHERE NOT gone",
    # `number` is the index of a map task, -1 the reduce task. `rank` is the priority with its sign
    # turned, `turn` the place among the tasks of all jobs of the pool.
    """
    CREATE TABLE job_tasks (
        tenant_id uuid NOT NULL,
        job_uid uuid NOT NULL,
        number integer NOT NULL,
        kind text NOT NULL,
        pool text NOT NULL,
        rank smallint NOT NULL,
        turn bigint NOT NULL,
        state text NOT NULL CONSTRAINT job_tasks_state CHECK (state IN
            ('waiting', 'delayed', 'running', 'nested', 'succeeded', 'failed', 'cancelled')),
        attempt integer NOT NULL DEFAULT 0,
        ready_at timestamptz,
        lease uuid,
        lease_until timestamptz,
        worker text,
        wait_for uuid,
        input bytea NOT NULL,
        output bytea,
        error text,
        started_at timestamptz,
        finished_at timestamptz,
        PRIMARY KEY (tenant_id, job_uid, number),
        CONSTRAINT job_tasks_job FOREIGN KEY (tenant_id, job_uid)
            REFERENCES jobs (tenant_id, uid) ON DELETE CASCADE
    ) WITH (fillfactor = 80)
    """,
    """
    CREATE INDEX job_tasks_waiting ON job_tasks (tenant_id, pool, kind, rank, turn)
        WHERE state = 'waiting'
    """,
    """
    CREATE INDEX job_tasks_delayed ON job_tasks (tenant_id, pool, ready_at)
        WHERE state = 'delayed'
    """,
    """
    CREATE INDEX job_tasks_running ON job_tasks (tenant_id, pool, job_uid)
        WHERE state = 'running'
    """,
    "CREATE INDEX job_tasks_leases ON job_tasks (lease_until) WHERE state = 'running'",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
    secure_tables(op.get_bind())
