"""Settings of the publish role: defaults in one place, `PACKETBOAT_PUBLISH_*` overrides them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from edge.environment import positive_numbers

PREFIX = "PACKETBOAT_PUBLISH_"


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """`PACKETBOAT_PUBLISH_TIMEOUT_S=5` sets `timeout_s`, and so on."""

    timeout_s: float = 10.0
    """Seconds that a publish may wait for its group's leader, and then for the answer."""
    max_in_flight_bytes: int = 256 * 1024 * 1024
    """Bytes of bodies that are read or accepted and not answered yet, of all tenants; above it
    503."""
    max_in_flight_messages: int = 100_000
    tenant_share: float = 0.5
    """The part of both limits that one tenant may use; above it 429."""
    max_append_bytes: int = 1024 * 1024
    """Append requests are joined into one append up to this size; a larger one goes alone."""
    max_group_bytes: int = 8 * 1024 * 1024
    """Bytes sent to a group and not answered yet; above it tenants are served in turn, by
    weight."""
    sticky_messages: int = 256
    sticky_bytes: int = 512 * 1024
    """Messages without a key go to one partition while appends are in progress, until one of both
    limits is reached; then the next partition is used."""
    spread_messages: int = 8
    """With at most this number of unanswered messages, a message goes to an idle partition."""
    stall_s: float = 0.25
    """Seconds after which an unanswered append makes messages without a key go elsewhere."""
    drain_s: float = 10.0
    """Seconds that `close` waits for accepted messages."""
    max_cached_topics: int = 10_000


def load(environment: Mapping[str, str] = os.environ) -> PublishSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(PublishSettings, PREFIX, environment)
