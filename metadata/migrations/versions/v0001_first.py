"""The first schema: tenants, topics, subscriptions and cursors, ownership, the change feed."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = (
    """
    CREATE TABLE tenants (
        tenant_id uuid PRIMARY KEY,
        name text NOT NULL CONSTRAINT tenants_name UNIQUE,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE topics (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        state text NOT NULL
            CONSTRAINT topics_state CHECK (state IN ('creating', 'active', 'deleting')),
        retention_mode text NOT NULL
            CONSTRAINT topics_retention_mode CHECK (retention_mode IN ('consume', 'retain')),
        retention_seconds bigint,
        retention_bytes bigint,
        dedup_window_s integer NOT NULL,
        labels jsonb NOT NULL,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid)
    )
    """,
    "CREATE UNIQUE INDEX topics_name ON topics (tenant_id, name) WHERE state <> 'deleting'",
    "CREATE INDEX topics_unfinished ON topics (updated_at) WHERE state <> 'active'",
    """
    CREATE TABLE partitions (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        generation integer NOT NULL,
        group_number integer NOT NULL,
        base bigint NOT NULL,
        sealed_at bigint,
        trimmed_to bigint NOT NULL,
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, generation),
        CONSTRAINT partitions_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE subscriptions (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        topic_uid uuid NOT NULL,
        name text NOT NULL,
        type text NOT NULL
            CONSTRAINT subscriptions_type CHECK (type IN ('pull', 'push', 'export')),
        delivery text NOT NULL CONSTRAINT subscriptions_delivery
            CHECK (delivery IN ('at_least_once', 'at_most_once', 'exactly_once')),
        ordered boolean NOT NULL,
        ack_deadline_s double precision NOT NULL,
        retry_min_backoff_s double precision NOT NULL,
        retry_max_backoff_s double precision NOT NULL,
        retry_max_attempts integer,
        start jsonb NOT NULL,
        labels jsonb NOT NULL,
        generation integer NOT NULL,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT subscriptions_name UNIQUE (tenant_id, name),
        CONSTRAINT subscriptions_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid)
    )
    """,
    "CREATE INDEX subscriptions_of_topic ON subscriptions (tenant_id, topic_uid, name)",
    # Half-empty pages: a flush finds room for the new row version beside the old one (HOT).
    """
    CREATE TABLE cursors (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        topic_uid uuid NOT NULL,
        epoch_era bigint NOT NULL,
        epoch_n bigint NOT NULL,
        generation integer NOT NULL,
        start_offset bigint NOT NULL,
        floor bigint NOT NULL,
        read_to bigint NOT NULL,
        acked int8multirange NOT NULL,
        acked_total bigint NOT NULL,
        filtered_total bigint NOT NULL,
        skipped_total bigint NOT NULL,
        expired_total bigint NOT NULL,
        dead_lettered_total bigint NOT NULL,
        PRIMARY KEY (tenant_id, subscription_uid, partition, lane),
        CONSTRAINT cursors_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE,
        CONSTRAINT cursors_order CHECK (
            start_offset <= floor AND floor <= read_to AND acked <@ int8range(floor, read_to)
        ),
        CONSTRAINT cursors_totals CHECK (
            least(acked_total, filtered_total, skipped_total, expired_total, dead_lettered_total)
            >= 0
        )
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX cursors_of_partition ON cursors (tenant_id, topic_uid, partition)",
    """
    CREATE TABLE deliveries (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        message_offset bigint NOT NULL,
        attempts integer NOT NULL,
        not_before timestamptz,
        reason text NOT NULL,
        PRIMARY KEY (tenant_id, subscription_uid, partition, lane, message_offset),
        CONSTRAINT deliveries_cursor FOREIGN KEY (tenant_id, subscription_uid, partition, lane)
            REFERENCES cursors (tenant_id, subscription_uid, partition, lane) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE forwarders (
        incarnation uuid PRIMARY KEY,
        role text NOT NULL,
        address text NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now(),
        lease_until timestamptz NOT NULL
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX forwarders_role ON forwarders (role)",
    """
    CREATE TABLE assignments (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        owner uuid,
        epoch_era bigint NOT NULL,
        epoch_n bigint NOT NULL,
        claimed_at timestamptz,
        PRIMARY KEY (tenant_id, topic_uid, partition),
        CONSTRAINT assignments_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX assignments_owner ON assignments (owner)",
    """
    CREATE TABLE locks (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        owner uuid,
        fence bigint NOT NULL,
        lease_until timestamptz,
        PRIMARY KEY (tenant_id, name)
    )
    """,
    """
    CREATE TABLE change_counter (
        id smallint PRIMARY KEY CONSTRAINT change_counter_single CHECK (id = 1),
        version bigint NOT NULL,
        pruned_to bigint NOT NULL
    )
    """,
    "INSERT INTO change_counter (id, version, pruned_to) VALUES (1, 0, 0)",
    """
    CREATE TABLE changes (
        version bigint PRIMARY KEY,
        kind text NOT NULL,
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        topic_uid uuid,
        committed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX changes_committed_at ON changes (committed_at)",
)


def upgrade() -> None:
    for statement in _TABLES:
        op.execute(statement)
