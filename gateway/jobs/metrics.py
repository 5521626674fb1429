"""Metrics of jobs."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

claimed = Counter("packetboat_jobs_tasks_claimed_total", "Tasks leased to workers.")
settled = Counter(
    "packetboat_jobs_tasks_settled_total",
    "Leases that workers ended: completed, failed or released.",
    ["how"],
)
lost = Counter(
    "packetboat_jobs_leases_lost_total",
    "Leases that were over when their worker came to end or extend them.",
)
waiting = Gauge("packetboat_jobs_waiting_claims", "Claims that wait for a task.")
