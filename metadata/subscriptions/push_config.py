"""The delivery of a push subscription, as `subscriptions.push` keeps it.

Secrets are sealed here (`edge.sealing`), under a purpose that names the tenant, the subscription
and the use: a sealed value put into another row opens nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from openapi.webhooks import PushFormat, SigningKind

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_CONCURRENCY = 100
DEFAULT_DISABLE_AFTER_S = 432_000.0
BATCHING: frozenset[PushFormat] = frozenset({"json", "cloudevents_batched"})
"""Formats whose requests may carry more than one message."""


class SigningKey(msgspec.Struct, frozen=True):
    """One key that requests are signed with, until it expires."""

    id: str
    kind: SigningKind
    sealed: bytes
    """The key's bytes: of v1 the shared secret, of v1a the ed25519 seed."""
    created_at: datetime
    public_key: str | None = None
    """`whpk_…` of a v1a key."""
    expires_at: datetime | None = None
    """The end of the key; None: it has none, until a rotation or a delete sets one."""

    def signs_at(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class OidcToken(msgspec.Struct, frozen=True):
    """A bearer token of ours that the endpoint can check."""

    audience: str
    subject: str | None = None


class PushConfig(msgspec.Struct, frozen=True):
    """Durations are seconds."""

    url: str
    format: PushFormat = "json"
    headers: dict[str, bytes] = {}
    """Names as they were given → sealed values."""
    signing: tuple[SigningKey, ...] = ()
    """Newest first; the expired ones too, until a change of the subscription drops them."""
    oidc: OidcToken | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_concurrency: int = DEFAULT_CONCURRENCY
    max_batch: int = 1
    """Messages a request; 1 where the format is of one message."""
    disable_after_s: float | None = DEFAULT_DISABLE_AFTER_S
    """Seconds of failures after which an endpoint is disabled; None: never."""
    verify: bool = True
    """Whether the endpoint must answer a challenge before it gets messages."""
    events_topic: str | None = None
    """The topic that is told of changes of the endpoint's state; it may be gone by now."""


def kept(config: PushConfig | None) -> dict[str, Any] | None:
    """Return the value of the jsonb column; it is equal for equal configurations."""
    if config is None:
        return None
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    return value


def read(value: Any) -> PushConfig | None:
    """Return the configuration of a column's value."""
    return None if value is None else msgspec.convert(value, PushConfig)


def key_purpose(tenant_id: bytes, subscription_uid: bytes, key_id: str) -> str:
    """Return the purpose under which a signing key is sealed."""
    return f"push/{tenant_id.hex()}/{subscription_uid.hex()}/key/{key_id}"


def header_purpose(tenant_id: bytes, subscription_uid: bytes, name: str) -> str:
    """Return the purpose under which a header's value is sealed; names differ by more than
    their case.
    """
    return f"push/{tenant_id.hex()}/{subscription_uid.hex()}/header/{name.lower()}"
