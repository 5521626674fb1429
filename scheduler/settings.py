"""Settings of the scheduler role: defaults here, `PACKETBOAT_SCHEDULER_*` overrides them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from edge.environment import positive_numbers

PREFIX = "PACKETBOAT_SCHEDULER_"


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """`PACKETBOAT_SCHEDULER_TRIM_EVERY_S=1` sets `trim_every_s`, and so on."""

    window_s: float = 60.0
    """Delayed messages due within this time are kept in memory; the rest waits in Postgres."""
    max_pending: int = 200_000
    """Of them at most about this many, the soonest."""
    write_every_s: float = 1.0
    """The due index in Postgres follows the store this much later."""
    trim_every_s: float = 2.0
    """How often cursors, sizes and limits are looked at."""
    measure_every_s: float = 5.0
    """How often it is counted what tenants store."""
    age_every_s: float = 60.0
    """How often at most a partition is asked which of its messages are too old."""
    jobs_every_s: float = 0.5
    """How often leases of tasks are looked at that may be over, and jobs that ended."""
    exports_every_s: float = 1.0
    """How often schedules of exports are looked at, and leases of their runs."""
    audit_retention_days: float = 400.0
    """Rows of the audit that are older are deleted."""
    usage_retention_days: float = 400.0
    """Hours of usage that are older are deleted."""
    release_timeout_s: float = 5.0
    """For one call of the store; what it was for is tried again after it."""


def load(environment: Mapping[str, str] = os.environ) -> SchedulerSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(SchedulerSettings, PREFIX, environment)
