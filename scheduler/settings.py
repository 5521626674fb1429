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
    """Delayed messages that are due within this time are kept in memory, the others in Postgres."""
    max_pending: int = 200_000
    """Delayed messages in memory, at most about this number; the earliest are kept."""
    write_every_s: float = 1.0
    """Seconds between writes of the due index in Postgres."""
    trim_every_s: float = 2.0
    """Seconds between reads of cursors, sizes and limits."""
    measure_every_s: float = 5.0
    """Seconds between counts of the bytes that tenants store."""
    age_every_s: float = 60.0
    """Shortest time between two searches of a partition for messages that are too old."""
    jobs_every_s: float = 0.5
    """Seconds between searches for expired leases of tasks and for ended jobs."""
    exports_every_s: float = 1.0
    """Seconds between reads of the schedules of exports and of the leases of their runs."""
    audit_retention_days: float = 400.0
    """Days after which rows of the audit are deleted."""
    usage_retention_days: float = 400.0
    """Days after which hours of usage are deleted."""
    release_timeout_s: float = 5.0
    """Longest time of one call to the store; the work is tried again afterwards."""


def load(environment: Mapping[str, str] = os.environ) -> SchedulerSettings:
    """Raises ValueError naming the variable."""
    return positive_numbers(SchedulerSettings, PREFIX, environment)
