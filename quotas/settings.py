"""Settings of quotas: the platform's limits of each tenant, `PACKETBOAT_QUOTA_*`, 0 for none."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from metadata.tenancy.quotas import QUOTA_NAMES

PREFIX = "PACKETBOAT_QUOTA_"


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """`PACKETBOAT_QUOTA_TOPICS=100` sets `topics`: what a tenant has that was given no limit of its
    own by that name."""

    publish_messages_per_second: float = 0.0
    publish_bytes_per_second: float = 0.0
    requests_per_second: float = 0.0
    stored_bytes: float = 0.0
    topics: float = 0.0
    subscriptions: float = 0.0
    in_flight: float = 0.0
    push_concurrency: float = 0.0
    tell_every_s: float = 1.0
    """How often a process tells the others what its tenants ask for."""
    usage_every_s: float = 10.0
    """How often what was counted is written down; a crash loses what was counted since."""

    @property
    def defaults(self) -> Mapping[str, float]:
        """The limits by name."""
        return {name: getattr(self, name) for name in QUOTA_NAMES}


def load(environment: Mapping[str, str] = os.environ) -> QuotaSettings:
    """Raises ValueError naming the variable."""
    given: dict[str, float] = {}
    for field in fields(QuotaSettings):
        variable = PREFIX + field.name.upper()
        text = environment.get(variable)
        if text is None:
            continue
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{variable}={text!r} is not a number") from None
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{variable} must be a number from 0 (no limit) on")
        if field.name not in QUOTA_NAMES and not 0.1 <= value <= 3600:
            raise ValueError(f"{variable} must be from 0.1 to 3600")
        given[field.name] = value
    return QuotaSettings(**given)
