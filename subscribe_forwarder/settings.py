"""Settings of the subscribe role: defaults here, `PACKETBOAT_SUBSCRIBE_*` overrides them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from edge.environment import positive_numbers

PREFIX = "PACKETBOAT_SUBSCRIBE_"


@dataclass(frozen=True, slots=True)
class SubscribeSettings:
    """`PACKETBOAT_SUBSCRIBE_CACHE_BYTES=1000000000` sets `cache_bytes`, and so on."""

    cache_bytes: int = 256 * 1024 * 1024
    """Bytes of decoded messages kept for delivery, of all partitions."""
    fetch_bytes: int = 2 * 1024 * 1024
    """Bytes that one fetch from the store asks for."""
    fetch_timeout_s: float = 3.0
    max_outstanding: int = 100_000
    """Leased and waiting messages of a subscription; at the limit, delivery pauses."""
    max_exceptions: int = 100_000
    """Messages of one cursor that are held back, failed or parked; at the limit, delivery of new
    messages pauses."""
    max_waiting_pulls: int = 10_000
    """Long-polls of one subscription that may wait at once; a further one gets 503."""
    max_backlog_streams: int = 200
    """Streams of backlogs that a process holds open at once; a further one gets 503."""
    flush_timeout_s: float = 5.0
    """Seconds after which an unanswered flush of acks has an unknown outcome."""
    lazy_flush_s: float = 1.0
    """Seconds between writes of progress for which no ack waits, such as deliveries."""
    empty_pull_refresh_s: float = 0.5
    """Longest time that an empty pull asks the store for the latest offset."""
    drain_s: float = 10.0
    """Seconds that `close` waits for the last flush."""


def load(environment: Mapping[str, str] = os.environ) -> SubscribeSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(SubscribeSettings, PREFIX, environment)
