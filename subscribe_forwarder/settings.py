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
    """Messages kept decoded for hand-outs, over all partitions."""
    fetch_bytes: int = 2 * 1024 * 1024
    """How much one fetch asks the store for."""
    fetch_timeout_s: float = 3.0
    max_outstanding: int = 100_000
    """Leased and waiting messages of a subscription; at it, new hand-outs pause."""
    max_exceptions: int = 100_000
    """Open deliveries of one cursor (held back, failed, parked); at it, new hand-outs pause."""
    max_waiting_pulls: int = 10_000
    """Long-polls of one subscription that may wait at once; beyond it: 503."""
    max_backlog_streams: int = 200
    """Streams of backlogs that are open at once in a process; beyond it: 503."""
    flush_timeout_s: float = 5.0
    """An ack flush unanswered for this long is unknown."""
    lazy_flush_s: float = 1.0
    """Progress no ack waits for (what was handed out or expired) is written this often."""
    empty_pull_refresh_s: float = 0.5
    """How long a pull that waits for nothing may take to ask the store for the latest offset."""
    drain_s: float = 10.0
    """How long `close` waits for the last flush."""


def load(environment: Mapping[str, str] = os.environ) -> SubscribeSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(SubscribeSettings, PREFIX, environment)
