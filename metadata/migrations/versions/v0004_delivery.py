"""Delivery: retries, order, dead letters, filters, seeks, schedules, schemas, priorities."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    ALTER TABLE topics
        ADD COLUMN priorities smallint NOT NULL DEFAULT 1
            CONSTRAINT topics_priorities CHECK (priorities BETWEEN 1 AND 10),
        ADD COLUMN ack_history boolean NOT NULL DEFAULT false,
        ADD COLUMN schema_name text
    """,
    """
    ALTER TABLE subscriptions
        ADD COLUMN dead_letter_topic text,
        ADD COLUMN on_exhausted text NOT NULL DEFAULT 'dead_letter'
            CONSTRAINT subscriptions_on_exhausted CHECK (on_exhausted IN ('dead_letter', 'park')),
        ADD COLUMN filter text,
        ADD COLUMN rate_limit double precision,
        ADD COLUMN consumer_rate_limit double precision,
        ADD COLUMN max_outstanding integer,
        ADD COLUMN state text NOT NULL DEFAULT 'active'
            CONSTRAINT subscriptions_state CHECK (state IN ('active', 'paused', 'draining')),
        ADD COLUMN state_reason text
    """,
    """
    ALTER TABLE cursors
        ADD COLUMN exceptions bigint NOT NULL DEFAULT 0
            CONSTRAINT cursors_exceptions CHECK (exceptions >= 0)
    """,
    """
    ALTER TABLE deliveries
        ADD COLUMN key_hash bigint,
        ADD COLUMN detail text,
        ADD COLUMN first_at timestamptz,
        ADD COLUMN last_at timestamptz,
        ADD CONSTRAINT deliveries_reason CHECK (reason IN (
            'hole', 'failed', 'exhausted', 'rejected', 'parked', 'behind_parked'))
    """,
    """
    CREATE INDEX deliveries_without_dead_letter ON deliveries (tenant_id, subscription_uid)
        WHERE reason IN ('exhausted', 'rejected')
    """,
    """
    CREATE TABLE delivery_leases (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        number bigint NOT NULL,
        epoch_era bigint NOT NULL,
        epoch_n bigint NOT NULL,
        attempt integer NOT NULL,
        offsets int8multirange NOT NULL,
        acked int8multirange NOT NULL,
        expires_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, subscription_uid, partition, lane, number),
        CONSTRAINT delivery_leases_cursor
            FOREIGN KEY (tenant_id, subscription_uid, partition, lane)
            REFERENCES cursors (tenant_id, subscription_uid, partition, lane) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE dead_letters (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        uid uuid NOT NULL,
        generation integer NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        message_offset bigint NOT NULL,
        message_id text NOT NULL,
        key text,
        attributes jsonb NOT NULL,
        content_type text,
        size_bytes integer NOT NULL,
        reason text NOT NULL,
        detail text,
        attempts integer NOT NULL,
        first_at timestamptz,
        last_at timestamptz,
        publish_time timestamptz NOT NULL,
        dead_at timestamptz NOT NULL DEFAULT now(),
        letter_topic_uid uuid NOT NULL,
        letter_partition integer NOT NULL,
        letter_lane smallint NOT NULL,
        letter_offset bigint NOT NULL,
        state text NOT NULL DEFAULT 'open'
            CONSTRAINT dead_letters_state CHECK (state IN ('open', 'redriven', 'discarded')),
        redrive_uid uuid,
        PRIMARY KEY (tenant_id, subscription_uid, uid),
        CONSTRAINT dead_letters_once UNIQUE
            (tenant_id, subscription_uid, generation, partition, lane, message_offset),
        CONSTRAINT dead_letters_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    CREATE INDEX dead_letters_listed
        ON dead_letters (tenant_id, subscription_uid, state, dead_at, uid)
    """,
    """
    CREATE TABLE redrives (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        filter text,
        picked boolean NOT NULL,
        destination text,
        edit jsonb NOT NULL,
        rate double precision,
        state text NOT NULL DEFAULT 'running' CONSTRAINT redrives_state
            CHECK (state IN ('running', 'done', 'cancelling', 'cancelled', 'failed')),
        detail text,
        total bigint NOT NULL,
        redriven bigint NOT NULL DEFAULT 0,
        failed bigint NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT redrives_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX redrives_of_subscription ON redrives (tenant_id, subscription_uid, created_at)",
    """
    CREATE INDEX redrives_unfinished ON redrives (tenant_id, uid)
        WHERE state IN ('running', 'cancelling')
    """,
    """
    CREATE TABLE skip_rules (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        expression text NOT NULL,
        reason text NOT NULL,
        created_by text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        removed_by text,
        removed_at timestamptz,
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT skip_rules_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX skip_rules_of_subscription ON skip_rules (tenant_id, subscription_uid)",
    """
    CREATE TABLE snapshot_cursors (
        tenant_id uuid NOT NULL,
        snapshot_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        floor bigint NOT NULL,
        read_to bigint NOT NULL,
        acked int8multirange NOT NULL,
        PRIMARY KEY (tenant_id, snapshot_uid, partition, lane),
        CONSTRAINT snapshot_cursors_snapshot FOREIGN KEY (tenant_id, snapshot_uid)
            REFERENCES snapshots (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    ALTER TABLE snapshots
        ADD COLUMN subscription_name text NOT NULL,
        ADD COLUMN labels jsonb NOT NULL DEFAULT '{}'
    """,
    """
    CREATE TABLE schedules (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        topic_uid uuid NOT NULL,
        name text NOT NULL,
        cron text NOT NULL,
        time_zone text NOT NULL,
        missed_runs text NOT NULL CONSTRAINT schedules_missed_runs
            CHECK (missed_runs IN ('skip', 'latest', 'all')),
        message bytea NOT NULL,
        paused boolean NOT NULL,
        next_at timestamptz,
        last_at timestamptz,
        last_message_id text,
        runs bigint NOT NULL DEFAULT 0,
        missed bigint NOT NULL DEFAULT 0,
        failure text,
        labels jsonb NOT NULL,
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT schedules_name UNIQUE (tenant_id, name),
        CONSTRAINT schedules_topic FOREIGN KEY (tenant_id, topic_uid)
            REFERENCES topics (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX schedules_next ON schedules (next_at) WHERE NOT paused",
    """
    CREATE TABLE schemas (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        type text NOT NULL CONSTRAINT schemas_type CHECK (type IN ('json_schema', 'avro')),
        compatibility text NOT NULL CONSTRAINT schemas_compatibility
            CHECK (compatibility IN ('none', 'backward', 'forward', 'full')),
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, name)
    )
    """,
    """
    CREATE TABLE schema_versions (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        number integer NOT NULL,
        definition text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, name, number),
        CONSTRAINT schema_versions_schema FOREIGN KEY (tenant_id, name)
            REFERENCES schemas (tenant_id, name) ON DELETE CASCADE
    )
    """,
    """
    ALTER TABLE topics ADD CONSTRAINT topics_schema FOREIGN KEY (tenant_id, schema_name)
        REFERENCES schemas (tenant_id, name)
    """,
    """
    CREATE TABLE ack_publications (
        tenant_id uuid NOT NULL,
        tag uuid NOT NULL,
        state text NOT NULL CONSTRAINT ack_publications_state
            CHECK (state IN ('open', 'committed', 'aborted')),
        outputs bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, tag)
    )
    """,
    """
    CREATE INDEX ack_publications_created ON ack_publications (created_at)
    """,
    """
    CREATE TABLE ack_history (
        tenant_id uuid NOT NULL,
        topic_uid uuid NOT NULL,
        partition integer NOT NULL,
        lane smallint NOT NULL,
        subscription_uid uuid NOT NULL,
        generation integer NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        low bigint NOT NULL,
        high bigint NOT NULL,
        outcome text NOT NULL CONSTRAINT ack_history_outcome CHECK (outcome IN (
            'acked', 'filtered', 'skipped', 'expired', 'dead_lettered')),
        settled_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, topic_uid, partition, lane, subscription_uid, id),
        CONSTRAINT ack_history_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    """
    CREATE INDEX ack_history_offsets
        ON ack_history (tenant_id, topic_uid, partition, lane, subscription_uid, generation, high)
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
