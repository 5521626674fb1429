"""Metrics of throttling."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

pace = Gauge(
    "packetboat_throttle_pace_per_second",
    "Messages that this process hands out each second at most; 0: as many as are asked for.",
    multiprocess_mode="livesum",
)
changes = Counter(
    "packetboat_throttle_changes_total",
    "Changes of the delivery rate: began, cut, ended (by the machine's throttle), flow, "
    "flow_ended (by reports of consumers).",
    ["what"],
)
flows = Gauge(
    "packetboat_throttle_flows",
    "Subscriptions whose consumers said how much they take, as this process knows.",
    multiprocess_mode="livemax",
)
