# Generated from openapi/: `make generate`. Do not edit.
"""Endpoints of subscriptions of type push, and the requests to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

PushFormat = Literal[
    "raw", "json", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"
]
"""The form of a request's body. json is an envelope of messages as a pull shows them."""
SigningKind = Literal["v1", "v1a"]
"""v1 is HMAC-SHA256, v1a is ed25519."""


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
    kind: str
    created_at: datetime
    public_key: str | None = None
    """`whpk_…`, of v1a."""
    expires_at: datetime | None = None


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
