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
    """The rule by which messages are kept; each field of it has a default."""
    dedup_window_seconds: int
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None
    """The name of a schema that bodies must fit."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


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
    """The name of the topic, unique in the tenant."""
    partitions: int
    """The number of partitions, which only the operation that grows them changes."""
    retention: Retention
    """The rule by which messages are kept; each field of it has a default."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
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
    """Names and values that you choose; servers only keep and show them."""
    full: str | None = None
    """The reason that publishes are answered 507 now, and a way to make room; None while there is
    room."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Hold(msgspec.Struct, frozen=True):
    """One thing that would be lost by a delete."""

    kind: str
    """The kind of loss: messages that a subscription has not acked, delayed messages, messages that
    an export has not copied, a snapshot, or open dead letters."""
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
    """The number of the partition, from 0."""
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    generation: int
    """Grows with each move or growth; a sealed one stays until its messages are trimmed."""
    group: int
    """The group of store nodes that holds it."""
    state: str
    """Whether new messages are appended to it; a `sealed` one takes no more."""
    base: int
    """The first offset ever; the generation before ended there."""
    first: int | None = None
    """The first offset kept; None, as the next two, while its group does not answer."""
    end: int | None = None
    """One past the last offset."""
    stored_bytes: int | None = None
    """The size of the messages in it; None while its group does not answer."""


class Placement(msgspec.Struct, frozen=True):
    """A move or growth that is not finished."""

    kind: str
    """The change: the move of a partition to another group, or the growth of the topic."""
    partitions: tuple[int, ...] = ()
    """The partitions that get a new generation."""
    groups: tuple[int, ...] = ()
    """The new group of each of these partitions."""


class Partitions(msgspec.Struct, frozen=True):
    """The places of a topic's partitions."""

    partitions: tuple[PartitionGeneration, ...] = ()
    """The queue generations of each partition, sealed ones too."""
    placement: Placement | None = None
    """A move or growth that is not finished."""


class SchemaError(msgspec.Struct, frozen=True):
    """A place where a body or a definition does not fit."""

    field: str
    """A JSON pointer to the value."""
    detail: str
    """The rule that the value breaks, for people."""


class Schema(msgspec.Struct, frozen=True):
    """A schema, with its latest version."""

    name: str
    """The name of the schema."""
    type: str
    """The language of the definition."""
    compatibility: str
    """The rule for a new version. backward: it reads messages that were written with the last
    version. forward: the last version reads messages that are written with the new one."""
    number: int
    """The number of the latest version."""
    definition: Any
    """The definition of the latest version as JSON."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SchemaVersion(msgspec.Struct, frozen=True):
    """A version of a schema."""

    number: int
    """The number of the version."""
    created_at: datetime
    """The time at which it was created."""
    definition: Any = None
    """The definition as JSON."""


class SchemaChecked(msgspec.Struct, frozen=True):
    """The answer whether a definition could be the next version."""

    compatible: bool
    """Whether the definition could be the next version."""
    compatibility: str
    """The rule of the schema that the check follows."""
    number: int
    """The number of the version that the definition was compared with."""
    errors: tuple[SchemaError, ...] = ()
    """The places that do not fit; empty where it is compatible."""


class SchemaValidated(msgspec.Struct, frozen=True):
    """The answer whether a body fits a schema."""

    valid: bool
    """Whether the body fits."""
    number: int
    """The number of the version that the body was checked against."""
    errors: tuple[SchemaError, ...] = ()
    """The places that do not fit; empty where the body is valid."""


class SchemaSample(msgspec.Struct, frozen=True):
    """A message that does not fit a schema."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""
    errors: tuple[SchemaError, ...] = ()
    """The places where the body does not fit."""


class SchemaPreviewed(msgspec.Struct, frozen=True):
    """The answer how many of the newest messages fit a schema."""

    messages: int
    """The number of messages that were looked at."""
    valid: int
    """The number of messages that fit."""
    samples: tuple[SchemaSample, ...] = ()
    """Examples of messages that do not fit."""


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
    """Limits of the subscription in all, and of each consumer; None is no limit."""

    messages_per_second: float | None = None
    """The limit over all consumers."""
    per_consumer_messages_per_second: float | None = None
    """The limit of each consumer."""


class SubscriptionChanges(TypedDict, total=False):
    """Fields of a subscription that may be changed; the others stay."""

    type: Literal["pull", "push"]
    """The way that messages take: consumers pull them, or they are pushed to an endpoint."""
    push: Push | None
    """The endpoint of a subscription of type `push`, which needs it; None for `pull`."""
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    retry: RetryPolicy
    """The back-off between attempts, doubled from one to the next; each field of it has a
    default."""
    rate_limit: RateLimit | None
    """Limits of messages per second, of the subscription in all and of each consumer; None is no
    limit."""
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
    """Names and values that you choose; servers only keep and show them."""


class SubscriptionSettings(SubscriptionChanges, total=False):
    """Fields of a new subscription; the others get the server's defaults."""

    start: Position
    """Where the subscription begins: at what is published from now on, at the first message kept,
    at a time, at an offset of every partition, or with what was unacked in a snapshot."""
    delivery: Literal["at_least_once", "at_most_once", "exactly_once"]
    """The promise for each message: `at_least_once` delivers it until it is acked; `at_most_once`
    acks it before it is delivered; `exactly_once` delivers it until it is acked, and counts one
    ack."""
    ordered: bool
    """Messages of a key are delivered one by one, in the order in which they were published."""


class Subscription(msgspec.Struct, frozen=True):
    """An independent reader of a topic; its consumers share its messages."""

    name: str
    """The name of the subscription, unique in the tenant."""
    topic: str
    """The name of the topic that it reads."""
    delivery: str
    """The promise for each message: `at_least_once` delivers it until it is acked; `at_most_once`
    acks it before it is delivered; `exactly_once` delivers it until it is acked, and counts one
    ack."""
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    type: str
    """The way that messages take: `export` is the subscription of an export, which only its runs
    read."""
    retry: RetryPolicy
    """The back-off between attempts, doubled from one to the next; each field of it has a
    default."""
    start: Any
    """The place where it began: `latest`, `earliest`, or an object as in the request."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    ordered: bool = False
    """Messages of a key are delivered one by one, in the order in which they were published."""
    rate_limit: RateLimit | None = None
    """Limits of messages per second, of the subscription in all and of each consumer; None is no
    limit."""
    push: PushEndpoint | None = None
    """The endpoint of a subscription of type `push`, which needs it; None for `pull`."""
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
    """Names and values that you choose; servers only keep and show them."""
    state: str = "active"
    """`paused`: nothing is delivered; `draining`: only messages that were delivered before."""
    state_reason: str | None = None
    """The reason that was given when it was paused or resumed; None where none was."""
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
    """The name of the subscription."""
    state: str
    """`paused`: nothing is delivered; `draining`: only what was delivered before."""
    state_reason: str | None = None
    """The reason that was given; None where none was."""


class Flow(msgspec.Struct, frozen=True):
    """Limits that a consumer asked for."""

    subscription: str
    """The name of the subscription."""
    messages_per_second: float | None = None
    """Messages per second, for all consumers together; 0 stops delivery, and None is no limit."""
    max_outstanding: int | None = None
    """The number of leased and waiting messages at which new deliveries pause; None is no limit."""
    reason: str = ""
    """The reason that people see with the limit."""
    said_by: str | None = None
    """The caller that said it, as audits name it; None where no limit holds."""
    until: datetime | None = None
    """The time until which the limits hold; None where none does."""


class SkipRule(msgspec.Struct, frozen=True):
    """A rule that settles the messages for which its expression is true."""

    id: str
    """The id of the rule."""
    expression: str
    """The CEL expression; messages for which it is true are skipped."""
    reason: str
    """The reason that its author gave."""
    created_by: str
    """The author of the rule, as audits name it."""
    created_at: datetime
    """The time at which it was created."""
    removed_by: str | None = None
    """The caller that removed the rule; None while it holds."""
    removed_at: datetime | None = None
    """The time at which it was removed; None while it holds."""


class SkipRules(msgspec.Struct, frozen=True):
    """The skip rules of a subscription."""

    skip_rules: tuple[SkipRule, ...]
    """The rules that hold, and removed ones where the request asks for them."""
    skipped: int = 0
    """Messages that rules have skipped since the subscription was made or last moved, as of the
    last commit."""


class SoughtPartition(msgspec.Struct, frozen=True):
    """The offset from which a partition is read now."""

    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The lane of the partition: the priority of its messages, and 0 of a topic without
    priorities."""
    offset: int
    """The offset from which messages are delivered."""


class Sought(msgspec.Struct, frozen=True):
    """The place that a subscription was moved to, or would be."""

    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: tuple[SoughtPartition, ...]
    """The new position in each lane of each partition."""
    backlog: int
    """The number of messages to deliver from there on."""
    dry_run: bool = False
    """Whether nothing was changed."""


class Snapshot(msgspec.Struct, frozen=True):
    """The messages that a subscription had not acked."""

    name: str
    """The name of the snapshot."""
    topic: str
    """The name of the topic whose messages it keeps."""
    subscription: str
    """The subscription that it was taken of; every subscription of the topic can go back to it."""
    created_at: datetime
    """The time at which it was created."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    expires_at: datetime | None = None
    """The time at which it goes, with its hold on messages."""


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
    """The form of a request's body. json is an envelope of messages as a pull shows them."""
    headers: Mapping[str, str] = {}
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value there
    is, as long as scheme, host and port of the URL stay."""
    signing: Sequence[SigningKind] | None = None
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    oidc: PushToken | None = None
    """The bearer token that each request carries, signed by this installation; None: requests carry
    none."""
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
    """The id of the signing secret."""
    kind: str
    """v1 is HMAC-SHA256, v1a is ed25519."""
    created_at: datetime
    """The time at which it was created."""
    public_key: str | None = None
    """`whpk_…`, of v1a."""
    expires_at: datetime | None = None
    """The time from which it signs no more; None while no newer one replaces it."""


class NewSigningSecret(SigningSecret, frozen=True):
    """A signing secret as it is told once."""

    secret: str | None = None
    """`whsec_…`, of v1. Receivers need only the public key of v1a."""


class SigningSecrets(msgspec.Struct, frozen=True):
    """The secrets that sign requests now, the newest first."""

    signing_secrets: tuple[SigningSecret, ...]
    """The keys that sign, those that end soon included."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class PushEndpoint(msgspec.Struct, frozen=True):
    """The way of messages to an endpoint, without secrets."""

    url: str
    """The URL of the endpoint: https, to a public address, unless the installation allows more.
    Redirects are not followed."""
    format: str = "json"
    """The form of a request's body. json is an envelope of messages as a pull shows them."""
    oidc: PushToken | None = None
    """The bearer token that each request carries, signed by this installation; None: requests carry
    none."""
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
    """`unverified`: it has not answered the challenge; `disabled`: it failed for too long, or is
    gone. Messages wait in both states."""
    reason: str | None = None
    """The reason that nothing is sent to it, for people; None where it is enabled."""
    failing_since: datetime | None = None
    """The time since which all requests failed."""
    verified_at: datetime | None = None
    """The time at which it answered the challenge; None where it never did."""


class PushStatus(msgspec.Struct, frozen=True):
    """The state of the pushing, where its type is push and a process owns a part of it. All but the
    first three only while it is."""

    state: str
    """`unverified`: it has not answered the challenge; `disabled`: it failed for too long, or is
    gone. Messages wait in both states."""
    reason: str | None = None
    """The reason that nothing is sent to it, for people; None where it is enabled."""
    failing_since: datetime | None = None
    """The time since which all requests failed."""
    breaker: str | None = None
    """The breaker of the endpoint: while it is `open` nothing is sent, and while it is `half_open`
    single requests try it."""
    breaker_reason: str | None = None
    """The reason that the breaker is not closed; None where it is."""
    limit: float | None = None
    """Requests at once that the endpoint is thought to take; below 1, of the time with one."""
    in_flight: int | None = None
    """Requests to the endpoint, of all subscriptions of the tenant."""
    paused_seconds: float | None = None
    """Seconds that are left of a Retry-After."""
    max_rate: float | None = None
    """The rate that it asked for, in messages a second."""
    max_concurrency: int | None = None
    """The number of requests at once that it asked for; None where it asked for none."""
    requests_in_flight: int | None = None
    """Requests to the endpoint that this subscription has under way."""
    leased_ahead: int | None = None
    """Messages that are leased for coming requests."""
    uncommitted: int | None = None
    """Messages it has taken, not yet acked durably."""
    delivered: int | None = None
    """Messages that were delivered since the owner began."""
    last_error: str | None = None
    """The reason of the last failure, for people; None where nothing failed."""


class PushAttempt(msgspec.Struct, frozen=True):
    """One message of one request to an endpoint."""

    id: str
    """The id of this attempt."""
    at: datetime
    """The time at which the request was sent."""
    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""
    attempt: int
    """The number of the attempt at this message, from 1."""
    outcome: str
    """refused: a 4xx, the message counts an attempt; busy: 429 or 503; failed: the endpoint did;
    gone: 410."""
    latency_ms: float
    """Milliseconds until the answer or the failure."""
    status: int | None = None
    """None where no answer came."""
    detail: str | None = None
    """The reason of the outcome, for people; None where there is none."""
    response_excerpt: str = ""
    """The first KiB of the body."""


class PushTest(msgspec.Struct, frozen=True):
    """The answer of an endpoint to a sample."""

    request_id: str
    """The `webhook-id` of the request."""
    outcome: str
    """The end of the request, as of attempts; `unsent`: it could not be sent."""
    status: int | None = None
    """The status of the answer; None where none came."""
    latency_ms: float | None = None
    """Milliseconds until the answer; None where the request was not sent."""
    detail: str | None = None
    """The reason of the outcome, for people; None where there is none."""
    response_excerpt: str = ""
    """The first KiB of the body."""


class NotReplayed(msgspec.Struct, frozen=True):
    """A message that was not delivered once more."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    reason: str
    """`not_found`: the message is not stored; `not_settled`: the subscription is not done with it,
    and delivers it anyway."""


class PushReplayed(msgspec.Struct, frozen=True):
    """The number of messages that are delivered once more."""

    replayed: int
    """The number of messages that are delivered again."""
    complete: bool
    """False where the span has more than `max_messages`."""
    skipped: tuple[NotReplayed, ...] = ()
    """The messages that are not, each with the reason."""


class Lock(msgspec.Struct, frozen=True):
    """A lock as its holder sees it."""

    name: str
    """The name of the lock."""
    lock_id: str
    """The secret of this holding; a client that knows it can renew and release the lock."""
    fencing_token: int
    """A number that is higher than that of every earlier holder, for ever."""
    ttl_seconds: float
    """Seconds that each renewal keeps the lock."""
    expires_in_seconds: float
    """Seconds that the holder may go on from when this was sent, counted on the safe side."""
    holder: str | None = None
    """The name that the holder gave itself; None where it gave none."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""


class LockState(msgspec.Struct, frozen=True):
    """A lock as others see it."""

    name: str
    """The name of the lock."""
    held: bool
    """Whether a client holds it now."""
    fencing_token: int
    """The fencing token of the holder, or of the last holder."""
    holder: str | None = None
    """The name that the holder gave itself; None where it gave none, or where nobody holds the
    lock."""
    ttl_seconds: float | None = None
    """Seconds that each renewal keeps the lock; None where nobody holds it."""
    expires_in_seconds: float | None = None
    """Seconds until the lock is free, unless it is renewed; None where nobody holds it."""
    taken_at: datetime | None = None
    """The time at which the holder got the lock; None where nobody holds it."""
    waiting: int = 0
    """The number of clients that wait for the lock."""
    labels: dict[str, str] = {}
    """The labels of this holding; empty where nobody holds the lock."""


class LockVerified(msgspec.Struct, frozen=True):
    """The answer whether a fencing token is current."""

    name: str
    """The name of the lock."""
    current: bool
    """Whether the token is that of the present holder."""
    latest_fencing_token: int
    """The fencing token of the present holder, or of the last one."""
