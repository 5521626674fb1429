"""What parts of a server process ask of limits and metering: the seam before `quotas/`.

`take` and `count` are called for each request, so they neither wait nor fail. What is taken beyond
a limit is refused as a whole, with 429 `rate-limited`; nothing of the request is done then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from edge.asgi import Header
from edge.problem import Problem

PUBLISH_MESSAGES = "publish_messages_per_second"
PUBLISH_BYTES = "publish_bytes_per_second"
REQUESTS = "requests_per_second"
IN_FLIGHT = "in_flight"
PUSH_CONCURRENCY = "push_concurrency"
STORED_BYTES = "stored_bytes"
PUBLISH_QUOTAS = (PUBLISH_MESSAGES, PUBLISH_BYTES)

PUBLISHED_MESSAGES = "published_messages"
PUBLISHED_BYTES = "published_bytes"
DELIVERED_MESSAGES = "delivered_messages"
DELIVERED_BYTES = "delivered_bytes"
PUSH_DELIVERIES = "push_deliveries"
REQUESTS_SERVED = "requests"
ACKS = "acks"
STORED_BYTE_HOURS = "stored_byte_hours"


class Refusal(NamedTuple):
    """More was asked for than is left."""

    quota: str
    limit: float
    """Of the tenant as a whole."""
    retry_after_s: float
    headers: Sequence[Header]


class Quotas(Protocol):
    """What tenants may use."""

    def take(self, tenant_id: bytes, quota: str, amount: float) -> Refusal | None:
        """None: it is taken."""
        ...

    def take_publish(self, tenant_id: bytes, messages: int, size_bytes: int) -> Refusal | None:
        """Of both rates of publishing, or of neither."""
        ...

    def headers(self, tenant_id: bytes, quotas: Sequence[str]) -> Sequence[Header]:
        """RateLimit-Policy and RateLimit of those rates that the tenant has limits of; else
        empty."""
        ...


class Levels(Protocol):
    """How many of something a tenant may have at once."""

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        """This process's part, who holds so many and would have so many more; None: no limit."""
        ...


class Usage(Protocol):
    """Metering."""

    def count(self, tenant_id: bytes, metric: str, value: float) -> None: ...


class NoLimits:
    """Everybody may have everything, and nothing is counted."""

    def take(self, tenant_id: bytes, quota: str, amount: float) -> Refusal | None:
        return None

    def take_publish(self, tenant_id: bytes, messages: int, size_bytes: int) -> Refusal | None:
        return None

    def headers(self, tenant_id: bytes, quotas: Sequence[str]) -> Sequence[Header]:
        return ()

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        return None

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        return None


NO_LIMITS = NoLimits()


def rate_limited(refusal: Refusal) -> Problem:
    """The 429."""
    seconds = max(1, math.ceil(refusal.retry_after_s))
    return Problem(
        429,
        "rate-limited",
        "Rate limited",
        f"The tenant has used up its limit {refusal.quota}, {refusal.limit:.10g}. Nothing of this "
        f"request was done; send it again after the {seconds} s of Retry-After.",
        retry_after_s=seconds,
        headers={name.decode(): value.decode() for name, value in refusal.headers},
        extra={"quota": refusal.quota, "limit": refusal.limit},
    )
