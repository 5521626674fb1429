"""Settings of quotas: the platform's limits of each tenant, `PACKETBOAT_QUOTA_*`, 0 for none.

Three of them are built in (`metadata.counts.BUILT_IN_LIMITS`): while no operator sets them, they
hold for the tenants alone that were made since there are built-in limits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from edge.environment import Reader, number, numbers
from metadata.counts import (
    BUILT_IN_LIMITS,
    CLIENTS,
    ISSUERS,
    KEYS,
    OBJECT_LIMITS,
    POLICIES,
    POLICY_MEMBERS,
    SCHEDULES,
    SCHEMAS,
    STORED_BYTES,
    SUBSCRIPTIONS,
    TOPICS,
)
from openapi.usage import QUOTA_NAMES

PREFIX = "PACKETBOAT_QUOTA_"


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Default limits: they apply to tenants without a limit of their own.

    `PACKETBOAT_QUOTA_TOPICS=100` sets `topics`, and so on.
    """

    publish_messages_per_second: float = number(0.0, 0)
    publish_bytes_per_second: float = number(0.0, 0)
    requests_per_second: float = number(0.0, 0)
    stored_bytes: float = number(BUILT_IN_LIMITS[STORED_BYTES], 0)
    topics: float = number(BUILT_IN_LIMITS[TOPICS], 0)
    subscriptions: float = number(BUILT_IN_LIMITS[SUBSCRIPTIONS], 0)
    in_flight: float = number(0.0, 0)
    push_concurrency: float = number(0.0, 0)
    policies: float = number(OBJECT_LIMITS[POLICIES], 0)
    policy_members: float = number(OBJECT_LIMITS[POLICY_MEMBERS], 0)
    """Members of all policies of a tenant."""
    clients: float = number(OBJECT_LIMITS[CLIENTS], 0)
    keys: float = number(OBJECT_LIMITS[KEYS], 0)
    issuers: float = number(OBJECT_LIMITS[ISSUERS], 0)
    schemas: float = number(OBJECT_LIMITS[SCHEMAS], 0)
    schedules: float = number(OBJECT_LIMITS[SCHEDULES], 0)
    tell_every_s: float = number(1.0, 0.1, 3600)
    """Seconds between reports to other processes about the demand of tenants."""
    usage_every_s: float = number(10.0, 0.1, 3600)
    """Seconds between writes of the counted usage; a crash loses the usage since the last write."""
    unset: frozenset[str] = frozenset(BUILT_IN_LIMITS)
    """Built-in limits that no operator has set."""

    @property
    def defaults(self) -> Mapping[str, float]:
        """Return the default limits by their names, without the built-in ones that are unset."""
        names = (*QUOTA_NAMES, *OBJECT_LIMITS)
        return {name: getattr(self, name) for name in names if name not in self.unset}


def load(environment: Mapping[str, str] = os.environ) -> QuotaSettings:
    """Raises SettingsError."""
    reader = Reader(environment)
    given = numbers(reader, QuotaSettings, PREFIX)
    reader.done()
    unset = {name for name in BUILT_IN_LIMITS if PREFIX + name.upper() not in environment}
    return QuotaSettings(**given, unset=frozenset(unset))
