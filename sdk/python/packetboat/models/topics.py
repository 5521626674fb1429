# Generated from openapi/: `make generate`. Do not edit.
"""Topics and their schemas, subscriptions and their endpoints, and locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from packetboat.models.data import Position

SchemaType = Literal["json_schema", "avro"]
Compatibility = Literal["none", "backward", "forward", "full"]
PushFormat = Literal[
    "raw", "json", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"
]
"""The form of a request's body. json is an envelope of messages as a pull shows them."""
SigningKind = Literal["v1", "v1a"]
"""v1 is HMAC-SHA256, v1a is ed25519."""


class Retention(msgspec.Struct, frozen=True):
    """The rule by which messages are kept. Where nothing holds them (no subscription), the limits
    alone decide."""

    mode: Literal["consume", "retain"] = "consume"
    """`consume`: a message goes once every subscription is done with it; `retain`: by age and
    bytes."""
    seconds: int | None = None
    """Seconds after which a message goes, acked or not. None: seven days."""
    bytes: int | None = None
    """The size limit, over all partitions. None: the storage limit of the tenant."""
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"
    """The rule for messages that are not acked and reach a limit of age or bytes. `refuse`:
    publishes are answered 507 until there is room; `expire_oldest`: the oldest go, and are counted
    as expired by each subscription that had not acked them."""


class TopicChanges(TypedDict, total=False):
    """Fields of a topic that may be changed; the others stay."""

    retention: Retention
    dedup_window_seconds: int
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None
    """The name of a schema that bodies must fit."""
    labels: Mapping[str, str]


class TopicSettings(TopicChanges, total=False):
    """Fields of a new topic; the others get the server's defaults."""

    partitions: int
    """The number of partitions; it can grow later."""
    priorities: int
    """The number of lanes of each partition, for good; partitions times priorities is at most
    1024."""


class Topic(msgspec.Struct, frozen=True):
    """A named stream."""

    name: str
    partitions: int
    retention: Retention
    created_at: datetime
    updated_at: datetime
    priorities: int = 1
    """The number of lanes of each partition, for good; partitions times priorities is at most
    1024."""
    dedup_window_seconds: int = 600
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool = False
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None = None
    """The name of a schema that bodies must fit."""
    labels: dict[str, str] = {}
    full: str | None = None
    """The reason that publishes are answered 507 now, and a way to make room; None while there is
    room."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Hold(msgspec.Struct, frozen=True):
    """One thing that would be lost by a delete."""

    kind: str
    messages: int
    """Not acked by a subscription, delayed (at most 100,000 of a queue are counted), not taken by
    an export, kept by a snapshot, or open dead letters."""
    advice: str
    """The action that loses nothing."""
    name: str | None = None
    """The name of the subscription, export or snapshot; None for delayed messages."""


class PartitionGeneration(msgspec.Struct, frozen=True):
    """A stretch of a partition that one group of store nodes holds."""

    partition: int
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    generation: int
    """Grows with each move or growth; a sealed one stays until its messages are trimmed."""
    group: int
    """The group of store nodes that holds it."""
    state: str
    base: int
    """The first offset ever; the generation before ended there."""
    first: int | None = None
    """The first offset kept; None, as the next two, while its group does not answer."""
    end: int | None = None
    """One past the last offset."""
    stored_bytes: int | None = None


class Placement(msgspec.Struct, frozen=True):
    """A move or growth that is not finished."""

    kind: str
    partitions: tuple[int, ...] = ()
    """The partitions that get a new generation."""
    groups: tuple[int, ...] = ()
    """The new group of each of these partitions."""


class Partitions(msgspec.Struct, frozen=True):
    """The places of a topic's partitions."""

    partitions: tuple[PartitionGeneration, ...] = ()
    placement: Placement | None = None
    """A move or growth that is not finished."""


class SchemaError(msgspec.Struct, frozen=True):
    """A place where a body or a definition does not fit."""

    field: str
    """A JSON pointer to the value."""
    detail: str


class Schema(msgspec.Struct, frozen=True):
    """A schema, with its latest version."""

    name: str
    type: str
    compatibility: str
    number: int
    """The number of the latest version."""
    definition: Any
    """The definition of the latest version as JSON."""
    created_at: datetime
    updated_at: datetime
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SchemaVersion(msgspec.Struct, frozen=True):
    """A version of a schema."""

    number: int
    created_at: datetime
    definition: Any = None
    """The definition as JSON."""


class SchemaChecked(msgspec.Struct, frozen=True):
    """The answer whether a definition could be the next version."""

    compatible: bool
    compatibility: str
    number: int
    """The number of the version that the definition was compared with."""
    errors: tuple[SchemaError, ...] = ()


class SchemaValidated(msgspec.Struct, frozen=True):
    """The answer whether a body fits a schema."""

    valid: bool
    number: int
    errors: tuple[SchemaError, ...] = ()


class SchemaSample(msgspec.Struct, frozen=True):
    """A message that does not fit a schema."""

    message_id: str
    partition: int
    offset: int
    errors: tuple[SchemaError, ...] = ()


class SchemaPreviewed(msgspec.Struct, frozen=True):
    """The answer how many of the newest messages fit a schema."""

    messages: int
    valid: int
    samples: tuple[SchemaSample, ...] = ()


class RetryPolicy(msgspec.Struct, frozen=True):
    """Back-off between attempts, doubled from one to the next, with full jitter."""

    min_backoff_seconds: float = 1.0
    """Seconds before the second attempt."""
    max_backoff_seconds: float = 600.0
    """Seconds that an attempt waits at most."""
    max_attempts: int | None = None
    """The number of failures after which a message is given up. A number needs a
    `dead_letter_topic`, or `park`."""
    on_exhausted: str = "dead_letter"
    """The rule for a message that failed `max_attempts` times. `park`, of an ordered subscription,
    parks its key until somebody skips or resumes it."""


class RateLimit(msgspec.Struct, frozen=True):
    """Limits of the subscription in all, and of each consumer; null is no limit."""

    messages_per_second: float | None = None
    """The limit over all consumers."""
    per_consumer_messages_per_second: float | None = None
    """The limit of each consumer."""


class SubscriptionChanges(TypedDict, total=False):
    """Fields of a subscription that may be changed; the others stay."""

    type: Literal["pull", "push"]
    """Consumers `pull` messages, or the platform sends them to an endpoint (`push`)."""
    push: Push | None
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    retry: RetryPolicy
    rate_limit: RateLimit | None
    dead_letter_topic: str | None
    """The topic that gets messages whose attempts are used up, and rejected ones. It must be there,
    and be another topic."""
    filter: str | None
    """A CEL expression over `attributes`, `data` (a JSON body, else None), `key`, `content_type`,
    `priority`, `publish_time`, `partition`, `offset` and `publisher_id`. Messages for which it is
    not true are not delivered."""
    max_outstanding: int | None
    """The number of leased and waiting messages at which new deliveries pause."""
    labels: Mapping[str, str]


class SubscriptionSettings(SubscriptionChanges, total=False):
    """Fields of a new subscription; the others get the server's defaults."""

    start: Position
    delivery: Literal["at_least_once", "at_most_once", "exactly_once"]
    """The promise for each message."""
    ordered: bool
    """Messages of a key are delivered one by one, in the order in which they were published."""


class Subscription(msgspec.Struct, frozen=True):
    """An independent reader of a topic; its consumers share its messages."""

    name: str
    topic: str
    """The topic that it reads."""
    delivery: str
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    type: str
    """Consumers `pull` messages, or the platform sends them to an endpoint (`push`)."""
    retry: RetryPolicy
    start: Any
    created_at: datetime
    updated_at: datetime
    ordered: bool = False
    """Messages of a key are delivered one by one, in the order in which they were published."""
    rate_limit: RateLimit | None = None
    push: PushEndpoint | None = None
    dead_letter_topic: str | None = None
    """The topic that gets messages whose attempts are used up, and rejected ones. It must be there,
    and be another topic."""
    filter: str | None = None
    """A CEL expression over `attributes`, `data` (a JSON body, else None), `key`, `content_type`,
    `priority`, `publish_time`, `partition`, `offset` and `publisher_id`. Messages for which it is
    not true are not delivered."""
    max_outstanding: int | None = None
    """The number of leased and waiting messages at which new deliveries pause."""
    labels: dict[str, str] = {}
    state: str = "active"
    """`paused`: nothing is handed out; `draining`: only what was handed out before."""
    state_reason: str | None = None
    """The reason for the pause, as its caller gave it."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class StreamTicket(msgspec.Struct, frozen=True):
    """A ticket that opens one subscription's stream for a minute, without a header."""

    ticket: str
    """The value of the query parameter `ticket` of the stream."""
    expires_at: datetime
    """The time until which it opens streams; an open stream goes on."""
    path: str
    """The stream's path and query with the ticket; more parameters may be added behind it."""


class SubscriptionState(msgspec.Struct, frozen=True):
    """The state of a subscription after a change of it."""

    name: str
    state: str
    state_reason: str | None = None


class Flow(msgspec.Struct, frozen=True):
    """Limits that a consumer asked for."""

    subscription: str
    messages_per_second: float | None = None
    max_outstanding: int | None = None
    reason: str = ""
    said_by: str | None = None
    """The subject of the token."""
    until: datetime | None = None


class SkipRule(msgspec.Struct, frozen=True):
    """A rule that settles the messages for which its expression is true."""

    id: str
    expression: str
    reason: str
    created_by: str
    created_at: datetime
    removed_by: str | None = None
    removed_at: datetime | None = None


class SkipRules(msgspec.Struct, frozen=True):
    """The skip rules of a subscription."""

    skip_rules: tuple[SkipRule, ...]
    skipped: int = 0
    """Messages that rules have skipped since the subscription was made or last moved, as of the
    last commit."""


class SoughtPartition(msgspec.Struct, frozen=True):
    """The offset from which a partition is read now."""

    partition: int
    lane: int
    offset: int


class Sought(msgspec.Struct, frozen=True):
    """The place that a subscription was moved to, or would be."""

    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: tuple[SoughtPartition, ...]
    backlog: int
    """The number of messages to deliver from there on."""
    dry_run: bool = False
    """Whether nothing was changed."""


class Snapshot(msgspec.Struct, frozen=True):
    """The messages that a subscription had not acked."""

    name: str
    topic: str
    subscription: str
    """The subscription that it was taken of; every subscription of the topic can go back to it."""
    created_at: datetime
    labels: dict[str, str] = {}
    expires_at: datetime | None = None


class PushToken(msgspec.Struct, frozen=True):
    """A bearer token, signed by this installation, with that audience and subject."""

    audience: str
    """The `aud` of its tokens."""
    subject: str | None = None
    """`subscription:` and its name, where none is given."""


class Push(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The way of messages to an endpoint, of a subscription of type push."""

    url: str
    """The URL of the endpoint: https, to a public address, unless the installation allows more.
    Redirects are not followed."""
    format: PushFormat = "json"
    headers: Mapping[str, str] = {}
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value there
    is, as long as scheme, host and port of the URL stay."""
    signing: Sequence[SigningKind] | None = None
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    oidc: PushToken | None = None
    timeout_seconds: float = 30.0
    """Seconds to wait for a whole answer."""
    max_concurrency: int = 100
    """Requests under way at a time."""
    max_batch: int = 1
    """Messages in a request, of the formats json and cloudevents_batched."""
    disable_after_seconds: float | None = 432000
    """Seconds of failures after which an endpoint is disabled; None is never."""
    verify: bool = True
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | None = None
    """A topic that is told when the endpoint is disabled, enabled, verified or unverified."""


class SigningSecret(msgspec.Struct, frozen=True):
    """A secret that signs requests to an endpoint, without its value."""

    id: str
    """The name of the secret in lists and paths."""
    kind: str
    created_at: datetime
    public_key: str | None = None
    """`whpk_…`, of v1a."""
    expires_at: datetime | None = None
    """The time at which it stops signing; None: not planned."""


class NewSigningSecret(SigningSecret, frozen=True):
    """A signing secret as it is told once."""

    secret: str | None = None
    """`whsec_…`, of v1. Receivers need only the public key of v1a."""


class SigningSecrets(msgspec.Struct, frozen=True):
    """The secrets that sign requests now, the newest first."""

    signing_secrets: tuple[SigningSecret, ...]
    etag: str | None = None
    """For `if_match`; None in a listing."""


class PushEndpoint(msgspec.Struct, frozen=True):
    """The way of messages to an endpoint, without secrets."""

    url: str
    """The URL of the endpoint: https, to a public address, unless the installation allows more.
    Redirects are not followed."""
    format: str = "json"
    oidc: PushToken | None = None
    timeout_seconds: float = 30.0
    """Seconds to wait for a whole answer."""
    max_concurrency: int = 100
    """Requests under way at a time."""
    max_batch: int = 1
    """Messages in a request, of the formats json and cloudevents_batched."""
    disable_after_seconds: float | None = None
    """Seconds of failures after which an endpoint is disabled; None is never."""
    verify: bool = True
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | None = None
    """A topic that is told when the endpoint is disabled, enabled, verified or unverified."""
    headers: dict[str, str] = {}
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value there
    is, as long as scheme, host and port of the URL stay."""
    signing: tuple[str, ...] = ()
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    signing_secrets: tuple[NewSigningSecret, ...] = ()
    """Only in the answer that made them."""


class PushEndpointState(msgspec.Struct, frozen=True):
    """The state of an endpoint."""

    state: str
    """`unverified`, `enabled` or `disabled`."""
    reason: str | None = None
    failing_since: datetime | None = None
    """The time since which all requests failed."""
    verified_at: datetime | None = None


class PushStatus(msgspec.Struct, frozen=True):
    """The state of the pushing, where its type is push and a process owns a part of it. All but the
    first three only while it is."""

    state: str
    reason: str | None = None
    failing_since: datetime | None = None
    breaker: str | None = None
    """`closed`, `half_open` or `open`."""
    breaker_reason: str | None = None
    limit: float | None = None
    """Requests at once that the endpoint is thought to take; below 1, of the time with one."""
    in_flight: int | None = None
    """Requests to the endpoint, of all subscriptions of the tenant."""
    paused_seconds: float | None = None
    """Seconds that are left of a Retry-After."""
    max_rate: float | None = None
    """The rate that it asked for, in messages a second."""
    max_concurrency: int | None = None
    requests_in_flight: int | None = None
    leased_ahead: int | None = None
    uncommitted: int | None = None
    """Messages it has taken, not yet acked durably."""
    delivered: int | None = None
    """Messages that were delivered since the owner began."""
    last_error: str | None = None


class PushAttempt(msgspec.Struct, frozen=True):
    """One message of one request to an endpoint."""

    id: str
    at: datetime
    message_id: str
    partition: int
    offset: int
    attempt: int
    outcome: str
    """refused: a 4xx, the message counts an attempt; busy: 429 or 503; failed: the endpoint did;
    gone: 410."""
    latency_ms: float
    status: int | None = None
    """None where no answer came."""
    detail: str | None = None
    response_excerpt: str = ""
    """The first KiB of the body."""


class PushTest(msgspec.Struct, frozen=True):
    """The answer of an endpoint to a sample."""

    request_id: str
    """The `webhook-id` of the request."""
    outcome: str
    status: int | None = None
    latency_ms: float | None = None
    detail: str | None = None
    response_excerpt: str = ""


class NotReplayed(msgspec.Struct, frozen=True):
    """A message that was not delivered once more."""

    message_id: str
    reason: str
    """`not_found` or `not_settled`."""


class PushReplayed(msgspec.Struct, frozen=True):
    """The number of messages that are delivered once more."""

    replayed: int
    complete: bool
    """False where the span has more than `max_messages`."""
    skipped: tuple[NotReplayed, ...] = ()


class Lock(msgspec.Struct, frozen=True):
    """A lock as its holder sees it."""

    name: str
    lock_id: str
    """The secret of this holding; a client that knows it can renew and release the lock."""
    fencing_token: int
    """A number that is higher than that of every earlier holder, for ever."""
    ttl_seconds: float
    expires_in_seconds: float
    """Seconds that the holder may go on from when this was sent, counted on the safe side."""
    holder: str | None = None
    labels: dict[str, str] = {}


class LockState(msgspec.Struct, frozen=True):
    """A lock as others see it."""

    name: str
    held: bool
    fencing_token: int
    """The fencing token of the holder, or of the last holder."""
    holder: str | None = None
    ttl_seconds: float | None = None
    expires_in_seconds: float | None = None
    taken_at: datetime | None = None
    waiting: int = 0
    """The number of clients that wait for the lock."""
    labels: dict[str, str] = {}


class LockVerified(msgspec.Struct, frozen=True):
    """The answer whether a fencing token is current."""

    name: str
    current: bool
    """Whether the token is that of the present holder."""
    latest_fencing_token: int
