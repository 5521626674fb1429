"""The edge: tenants with owners, clients and keys, policies, quotas, metering, audit, webhooks."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    ALTER TABLE tenants
        ADD COLUMN display_name text NOT NULL DEFAULT '',
        ADD COLUMN state text NOT NULL DEFAULT 'active'
            CONSTRAINT tenants_state CHECK (state IN ('active', 'suspended', 'deleting')),
        ADD COLUMN labels jsonb NOT NULL DEFAULT '{}',
        ADD COLUMN egress_allowed jsonb NOT NULL DEFAULT '[]',
        ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now()
    """,
    # Secrets of our own making are kept as SHA-256 of 256 random bits: [{hash, prefix, created_at,
    # expires_at}].
    """
    CREATE TABLE clients (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        client_id text NOT NULL CONSTRAINT clients_client_id UNIQUE,
        display_name text NOT NULL DEFAULT '',
        secrets jsonb NOT NULL,
        state text NOT NULL DEFAULT 'active'
            CONSTRAINT clients_state CHECK (state IN ('active', 'disabled')),
        tokens_valid_from timestamptz,
        labels jsonb NOT NULL DEFAULT '{}',
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        last_used_at timestamptz,
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT clients_name UNIQUE (tenant_id, name),
        CONSTRAINT clients_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    # `key_id` is the public part of a key, by which it is looked up and shown; its secrets are kept
    # as those of clients.
    """
    CREATE TABLE api_keys (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        key_id text NOT NULL CONSTRAINT api_keys_key_id UNIQUE,
        secrets jsonb NOT NULL,
        scopes jsonb NOT NULL,
        state text NOT NULL DEFAULT 'active'
            CONSTRAINT api_keys_state CHECK (state IN ('active', 'disabled')),
        expires_at timestamptz,
        labels jsonb NOT NULL DEFAULT '{}',
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        last_used_at timestamptz,
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT api_keys_name UNIQUE (tenant_id, name),
        CONSTRAINT api_keys_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    # `members` are `client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT` (with * as wildcard);
    # `resources` are `topics/PATTERN`, `subscriptions/PATTERN`, `locks/PATTERN`, `*`.
    """
    CREATE TABLE policies (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        role text NOT NULL CONSTRAINT policies_role
            CHECK (role IN ('owner', 'admin', 'publisher', 'subscriber', 'viewer')),
        members jsonb NOT NULL,
        resources jsonb NOT NULL,
        labels jsonb NOT NULL DEFAULT '{}',
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT policies_name UNIQUE (tenant_id, name),
        CONSTRAINT policies_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE issuers (
        tenant_id uuid NOT NULL,
        uid uuid NOT NULL,
        name text NOT NULL,
        issuer text NOT NULL,
        audience text NOT NULL,
        algorithms jsonb NOT NULL,
        subject_claim text NOT NULL DEFAULT 'sub',
        required_claims jsonb NOT NULL DEFAULT '{}',
        labels jsonb NOT NULL DEFAULT '{}',
        version bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, uid),
        CONSTRAINT issuers_name UNIQUE (tenant_id, name),
        CONSTRAINT issuers_issuer UNIQUE (issuer, audience),
        CONSTRAINT issuers_tenant FOREIGN KEY (tenant_id)
            REFERENCES tenants (tenant_id) ON DELETE CASCADE
    )
    """,
    # Private parts are sealed with PACKETBOAT_SEAL_KEYS; at each moment one key signs.
    """
    CREATE TABLE signing_keys (
        kid text PRIMARY KEY,
        algorithm text NOT NULL,
        public_jwk jsonb NOT NULL,
        private_sealed bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        signs_from timestamptz NOT NULL,
        signs_until timestamptz NOT NULL,
        verifies_until timestamptz NOT NULL,
        CONSTRAINT signing_keys_one_signs
            EXCLUDE USING gist (tstzrange(signs_from, signs_until) WITH &&),
        CONSTRAINT signing_keys_span
            CHECK (signs_from <= signs_until AND signs_until <= verifies_until)
    )
    """,
    """
    CREATE TABLE revoked_tokens (
        tenant_id uuid NOT NULL,
        jti uuid NOT NULL,
        expires_at timestamptz NOT NULL,
        revoked_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, jti)
    )
    """,
    "CREATE INDEX revoked_tokens_expiry ON revoked_tokens (expires_at)",
    # `limits`: name of a limit → number; a missing limit has the platform's default.
    """
    CREATE TABLE quotas (
        tenant_id uuid PRIMARY KEY
            CONSTRAINT quotas_tenant REFERENCES tenants (tenant_id) ON DELETE CASCADE,
        limits jsonb NOT NULL,
        weight double precision NOT NULL DEFAULT 1 CONSTRAINT quotas_weight CHECK (weight > 0),
        version bigint NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    # Each process's demand on a tenant's rates; lost with the server, and reported again. It has
    # no index of its age: each row is written every second, and there are few.
    """
    CREATE UNLOGGED TABLE quota_demands (
        incarnation uuid NOT NULL,
        tenant_id uuid NOT NULL,
        quota text NOT NULL,
        demand double precision NOT NULL,
        told_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, quota, incarnation)
    ) WITH (fillfactor = 50)
    """,
    # Each process adds what it counted under a sequence of its own: added once.
    """
    CREATE TABLE usage_hours (
        tenant_id uuid NOT NULL,
        hour timestamptz NOT NULL,
        metric text NOT NULL,
        value numeric NOT NULL,
        PRIMARY KEY (tenant_id, hour, metric)
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE usage_reporters (
        incarnation uuid PRIMARY KEY,
        sequence bigint NOT NULL,
        reported_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    # Made before what it tells of is begun; `status` follows before the answer is sent.
    """
    CREATE TABLE audit (
        tenant_id uuid NOT NULL,
        id uuid NOT NULL,
        at timestamptz NOT NULL DEFAULT now(),
        actor text NOT NULL,
        action text NOT NULL,
        resource text NOT NULL,
        status smallint,
        request_id text NOT NULL,
        detail jsonb NOT NULL DEFAULT '{}',
        PRIMARY KEY (tenant_id, id)
    )
    """,
    "CREATE INDEX audit_of_resource ON audit (tenant_id, resource, id)",
    "CREATE INDEX audit_age ON audit (at)",
    # `push` is how a subscription of type push is delivered; its secrets are sealed.
    "ALTER TABLE subscriptions ADD COLUMN push jsonb",
    """
    ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_push
        CHECK ((type = 'push') = (push IS NOT NULL))
    """,
    """
    CREATE TABLE push_endpoints (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        state text NOT NULL CONSTRAINT push_endpoints_state
            CHECK (state IN ('unverified', 'enabled', 'disabled')),
        reason text,
        failing_since timestamptz,
        verified_url text,
        verified_at timestamptz,
        changed_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, subscription_uid),
        CONSTRAINT push_endpoints_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    # Bounded per subscription and by age; written in batches.
    """
    CREATE TABLE push_attempts (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        id uuid NOT NULL,
        at timestamptz NOT NULL,
        message_id text NOT NULL,
        partition integer NOT NULL,
        message_offset bigint NOT NULL,
        attempt integer NOT NULL,
        status smallint,
        outcome text NOT NULL,
        latency_ms double precision NOT NULL,
        response bytea NOT NULL DEFAULT '',
        detail text NOT NULL DEFAULT '',
        PRIMARY KEY (tenant_id, subscription_uid, id),
        CONSTRAINT push_attempts_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX push_attempts_age ON push_attempts (at)",
    # The capacity that a consumer reported, and the end of its validity.
    """
    CREATE TABLE subscription_flows (
        tenant_id uuid NOT NULL,
        subscription_uid uuid NOT NULL,
        messages_per_second double precision,
        max_outstanding integer,
        reason text NOT NULL DEFAULT '',
        said_by text NOT NULL,
        until timestamptz NOT NULL,
        version bigint NOT NULL,
        PRIMARY KEY (tenant_id, subscription_uid),
        CONSTRAINT subscription_flows_subscription FOREIGN KEY (tenant_id, subscription_uid)
            REFERENCES subscriptions (tenant_id, uid) ON DELETE CASCADE
    )
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
