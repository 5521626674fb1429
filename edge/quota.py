"""The interface to limits and metering that parts of a server process use; `quotas/` implements it.

`take` and `count` are called for each request, so they neither wait nor fail. An amount beyond a
limit is refused as a whole, with 429 `rate-limited`; then nothing of the request is done.
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


class QuotaRefusal(NamedTuple):
    """More was asked for than is left."""

    quota: str
    limit: float
    """Limit of the tenant as a whole."""
    retry_after_s: float
    headers: Sequence[Header]


class Quotas(Protocol):
    """The limits of tenants: rates, and how many of something they may have at once."""

    def take(self, tenant_id: bytes, quota: str, amount: float) -> QuotaRefusal | None:
        """Take an amount of a quota; return the refusal if it was not taken."""
        ...

    def take_publish(self, tenant_id: bytes, messages: int, size_bytes: int) -> QuotaRefusal | None:
        """Take from both rates of publishing, or from neither; return the refusal if it was not
        taken.
        """
        ...

    def headers(self, tenant_id: bytes, quotas: Sequence[str]) -> Sequence[Header]:
        """Return RateLimit-Policy and RateLimit for those rates that the tenant has limits of.

        Empty if it has none.
        """
        ...

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        """Return the part of a limit on how many there are at once that is for this process; None
        if there is no limit.

        This process holds `held` for the tenant, and would hold `wanted` more.
        """
        ...


class Usage(Protocol):
    """The metering of tenants."""

    def count(self, tenant_id: bytes, metric: str, value: float) -> None: ...


class NoLimits:
    """Quotas and usage without limits and without counts."""

    def take(self, tenant_id: bytes, quota: str, amount: float) -> QuotaRefusal | None:
        return None

    def take_publish(self, tenant_id: bytes, messages: int, size_bytes: int) -> QuotaRefusal | None:
        return None

    def headers(self, tenant_id: bytes, quotas: Sequence[str]) -> Sequence[Header]:
        return ()

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        return None

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        return None


NO_LIMITS = NoLimits()


def rate_limited(refusal: QuotaRefusal) -> Problem:
    """Return the 429 Problem of a refusal."""
    seconds = max(1, math.ceil(refusal.retry_after_s))
    return Problem.of(
        "rate-limited",
        f"The tenant has used up its limit {refusal.quota}, {refusal.limit:.10g}. Nothing of this "
        f"request was done; send it again after the {seconds} s of Retry-After.",
        retry_after_s=seconds,
        headers={name.decode(): value.decode() for name, value in refusal.headers},
        extra={"quota": refusal.quota, "limit": refusal.limit},
    )
