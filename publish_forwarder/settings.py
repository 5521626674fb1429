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
    """How long a publish may wait for its group's leader, and then for its answer."""
    max_in_flight_bytes: int = 256 * 1024 * 1024
    """Bodies accepted or being read and not yet answered, over all tenants; beyond it: 503."""
    max_in_flight_messages: int = 100_000
    tenant_share: float = 0.5
    """The part of both limits one tenant may hold; beyond it: 429."""
    max_append_bytes: int = 1024 * 1024
    """Parcels are joined into one append up to this size; a larger parcel goes alone."""
    max_group_bytes: int = 8 * 1024 * 1024
    """Sent to a group and not answered; beyond it tenants take turns, by weight."""
    sticky_messages: int = 256
    sticky_bytes: int = 512 * 1024
    """Messages without a key that come while others are under way go to one partition until either
    is reached, then to the next."""
    spread_messages: int = 8
    """With no more than this unanswered, a message takes an idle partition, if there is one."""
    stall_s: float = 0.25
    """An append unanswered for this long sends unkeyed messages to other partitions."""
    drain_s: float = 10.0
    """How long `close` waits for what was accepted."""
    max_cached_topics: int = 10_000


def load(environment: Mapping[str, str] = os.environ) -> PublishSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(PublishSettings, PREFIX, environment)
