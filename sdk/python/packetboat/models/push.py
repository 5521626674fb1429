"""Push: how messages are brought to an endpoint, and what became of that."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

PushFormat = Literal[
    "raw", "json", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"
]
SigningKind = Literal["v1", "v1a"]
"""v1 is HMAC-SHA256, v1a is ed25519."""


class PushToken(msgspec.Struct, frozen=True):
    """A bearer token that each request carries, signed by the installation."""

    audience: str
    subject: str | None = None
    """None: `subscription:` and its name."""


class Push(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How messages are to be brought to an endpoint; what is not given has the server's default."""

    url: str
    """https, to a public address, unless the installation allows more."""
    format: PushFormat = "raw"
    headers: Mapping[str, str] = {}
    """Sent with each request. `set` keeps the value there is."""
    signing: tuple[SigningKind, ...] | None = None
    """None: the keys that are there stay; a new endpoint has `v1`."""
    oidc: PushToken | None = None
    timeout_seconds: float = 30
    max_concurrency: int = 100
    max_batch: int = 1
    disable_after_seconds: float | None = 432_000
    """An endpoint that has failed for so long is disabled; None: never."""
    verify: bool = True
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | None = None


class SigningSecret(msgspec.Struct, frozen=True):
    """What requests to an endpoint are signed with; the secret itself is not told again."""

    id: str
    kind: str
    created_at: datetime
    public_key: str | None = None
    """`whpk_…`, of v1a."""
    expires_at: datetime | None = None


class NewSigningSecret(SigningSecret, frozen=True):
    """One that was just made."""

    secret: str | None = None
    """`whsec_…`, of v1; shown here and never again. Of v1a the public key is enough."""


class SigningSecrets(msgspec.Struct, frozen=True):
    """Those that sign now, the newest first."""

    signing_secrets: tuple[SigningSecret, ...]
    etag: str | None = None


class PushEndpoint(msgspec.Struct, frozen=True):
    """How messages are brought to an endpoint."""

    url: str
    format: str = "raw"
    headers: dict[str, str] = {}
    """Their names; each value is `set`."""
    signing: tuple[str, ...] = ()
    signing_secrets: tuple[NewSigningSecret, ...] = ()
    """Only in the answer that made them."""
    oidc: PushToken | None = None
    timeout_seconds: float = 30
    max_concurrency: int = 100
    max_batch: int = 1
    disable_after_seconds: float | None = None
    verify: bool = True
    events_topic: str | None = None


class PushEndpointState(msgspec.Struct, frozen=True):
    """Whether an endpoint is delivered to: `unverified`, `enabled` or `disabled`."""

    state: str
    reason: str | None = None
    failing_since: datetime | None = None
    verified_at: datetime | None = None


class PushStatus(msgspec.Struct, frozen=True):
    """How a subscription is pushed now. All but the first three are None while nothing of it is
    owned."""

    state: str
    reason: str | None = None
    failing_since: datetime | None = None
    breaker: str | None = None
    """`closed`, `half_open` or `open`."""
    breaker_reason: str | None = None
    limit: float | None = None
    """Requests at once that the endpoint is thought to take; below 1, of the time with one."""
    in_flight: int | None = None
    paused_seconds: float | None = None
    max_rate: float | None = None
    max_concurrency: int | None = None
    requests_in_flight: int | None = None
    leased_ahead: int | None = None
    uncommitted: int | None = None
    delivered: int | None = None
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
    """`delivered`, `refused` (4xx), `busy` (429, 503), `failed` or `gone` (410)."""
    latency_ms: float
    status: int | None = None
    detail: str | None = None
    response_excerpt: str = ""


class PushTest(msgspec.Struct, frozen=True):
    """What an endpoint answered to a sample."""

    request_id: str
    outcome: str
    status: int | None = None
    latency_ms: float | None = None
    detail: str | None = None
    response_excerpt: str = ""


class NotReplayed(msgspec.Struct, frozen=True):
    """A message that was not delivered once more: `not_found` or `not_settled`."""

    message_id: str
    reason: str


class PushReplayed(msgspec.Struct, frozen=True):
    """How many messages are delivered once more. Not `complete`: the span has more."""

    replayed: int
    complete: bool
    skipped: tuple[NotReplayed, ...] = ()
