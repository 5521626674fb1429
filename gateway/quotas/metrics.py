"""Prometheus metrics of quotas and metering."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

refused = Counter(
    "packetboat_quota_refused_total",
    "Requests refused because the tenant's limit was used up, by limit.",
    ["quota"],
)
limited = Gauge(
    "packetboat_quota_tenants",
    "Tenants that have limits, of those that this process knows.",
    multiprocess_mode="livemax",
)
tell_failures = Counter(
    "packetboat_quota_tell_failures_total",
    "Times that the other processes could not be told what is asked for here.",
)
report_failures = Counter(
    "packetboat_usage_report_failures_total",
    "Times that what was counted could not be written down; it is kept and tried again.",
)
