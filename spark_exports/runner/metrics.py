"""Prometheus metrics of a runner."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import (
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_S = (1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400)

runs = Counter(
    "packetboat_export_runner_runs",
    "Attempts at runs by kind and end; lost: the lease was over before they could be finished.",
    ["kind", "end"],
)
drivers = Gauge("packetboat_export_runner_drivers", "Driver processes at work.")
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


class OldNames(Collector):
    """The gauge that was renamed after 0.2, under the name that it had."""

    def collect(self) -> Iterable[Metric]:
        text = "Until 0.4; packetboat_export_runner_drivers is its name now."
        old = GaugeMetricFamily("packetboat_export_runner_drivers_count", text)
        for family in drivers.collect():
            for sample in family.samples:
                old.add_metric([], sample.value)
        yield old


def serve(host: str, port: int, *, old_names: bool) -> None:
    """Serve metrics in a thread of its own, until the process ends. Raises OSError."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    if old_names:
        REGISTRY.register(OldNames())
    start_http_server(port, host)
