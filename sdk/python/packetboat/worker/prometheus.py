"""Figures of workers for Prometheus: `Worker(…, events=PrometheusEvents())`.

Needs `prometheus-client` (the extra `prometheus`).
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from packetboat.worker.context import Context
from packetboat.worker.events import WorkerEvents
from packetboat.worker.outcomes import Verb

BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0, 1800.0)


class PrometheusEvents(WorkerEvents):
    """One for all workers of a registry: a second one's names would be taken."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            names = ("subscription", *labels)
            return Counter(f"packetboat_worker_{name}", text, names, registry=registry)

        self._received = counter("received", "Messages leased.")
        self._settled = counter("settled", "Messages the server has confirmed as.", "verb")
        self._lost = counter("leases_lost", "Messages whose lease ended before they were settled.")
        self._extended = counter("leases_extended", "Leases extended.")
        self._outages = counter("outages", "Times the server was found not to answer.")
        self._handling = Gauge(
            "packetboat_worker_handling",
            "Messages in handlers now.",
            ("subscription",),
            registry=registry,
        )
        self._seconds = Histogram(
            "packetboat_worker_handler_seconds",
            "Time in the handler, by what became of the message.",
            ("subscription", "verb"),
            buckets=BUCKETS_S,
            registry=registry,
        )

    def received(self, subscription: str, messages: int) -> None:
        self._received.labels(subscription).inc(messages)

    def started(self, context: Context) -> None:
        self._handling.labels(context.subscription).inc()

    def handled(self, context: Context, verb: Verb, seconds: float) -> None:
        self._handling.labels(context.subscription).dec()
        self._seconds.labels(context.subscription, verb.value).observe(seconds)

    def settled(self, subscription: str, verb: Verb, messages: int) -> None:
        self._settled.labels(subscription, verb.value).inc(messages)

    def lease_lost(self, subscription: str, message_id: str) -> None:
        self._lost.labels(subscription).inc()

    def extended(self, subscription: str, messages: int) -> None:
        self._extended.labels(subscription).inc(messages)

    def outage(self, subscription: str, error: Exception) -> None:
        self._outages.labels(subscription).inc()
