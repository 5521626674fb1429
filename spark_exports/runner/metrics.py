"""Prometheus metrics of a runner."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, start_http_server

BUCKETS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400)

runs = Counter(
    "packetboat_export_runner_runs",
    "Attempts at runs by kind and end; lost: the lease was over before they could be finished.",
    ["kind", "end"],
)
drivers = Gauge("packetboat_export_runner_drivers_count", "Driver processes at work.")
seconds = Histogram(
    "packetboat_export_runner_run_seconds",
    "From the start of a driver to its end.",
    ["kind"],
    buckets=BUCKETS_S,
)
failed_calls = Counter(
    "packetboat_export_runner_failed_calls",
    "Calls of the platform that did not succeed, each try.",
    ["call"],
)
heard = Gauge(
    "packetboat_export_runner_heard_timestamp_seconds",
    "When the platform last answered a claim or a renewal.",
)


def serve(host: str, port: int) -> None:
    """In a thread of its own, until the process ends. Raises OSError."""
    start_http_server(port, host)
