"""Counts requests for Prometheus, and serves the metrics of the whole process.

Children are looked up once per (route, status) and kept: a request pays two `inc`-like calls and
never formats a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
)
from prometheus_client.multiprocess import MultiProcessCollector

from edge.exposition import exposition
from edge.page_server import JSON, Cached, Page, PageServer
from gateway.addresses import bound
from gateway.configuration.settings import metrics_are_shared
from gateway.http.router import Endpoint

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

REQUESTS = Counter(
    "packetboat_gateway_requests",
    "Requests by method, route template and status.",
    ["method", "route", "status"],
)
SECONDS = Histogram(
    "packetboat_gateway_request_seconds",
    "Time from the request's headers to its answer, long-polls included.",
    ["method", "route"],
    buckets=BUCKETS_S,
)


class RequestMetrics:
    """Keeps the children of the two metrics above, resolved ahead."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._seconds = {
            (endpoint.method, endpoint.template): SECONDS.labels(endpoint.method, endpoint.template)
            for endpoint in endpoints
        }
        self._requests: dict[tuple[str, str, int], Counter] = {}

    def observe(self, method: str, template: str, status: int, seconds: float) -> None:
        """Count a request and its seconds; `template` is its route's, so labels stay bounded."""
        if method not in METHODS:
            method = "other"
        counter = self._requests.get((method, template, status))
        if counter is None:
            counter = REQUESTS.labels(method, template, str(status))
            self._requests[method, template, status] = counter
        counter.inc()
        histogram = self._seconds.get((method, template))
        if histogram is None:
            histogram = self._seconds[method, template] = SECONDS.labels(method, template)
        histogram.observe(seconds)

    def refused(self, method: str, template: str, count: int) -> None:
        """Count requests that were answered 503 before they were dispatched; their time is
        not observed.
        """
        REQUESTS.labels(method, template, "503").inc(count)


@contextmanager
def served(host: str, port: int, *, shared: bool, old_names: bool) -> Iterator[None]:
    """Serve `/metrics` of this process, or of all workers if there are several, on a port of its
    own.

    Families read counters, and nothing that only the event loop may touch, so a thread makes the
    page. `shared`: other processes serve the same port. `old_names`: also by the names of 0.2.
    Raises CannotListen; port 0 serves nothing.
    """
    if not port:
        yield
        return

    def make() -> Page:
        registry = REGISTRY
        if metrics_are_shared():
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Page(200, CONTENT_TYPE_LATEST, exposition(registry, old_names=old_names))

    page = Cached(make)

    def answer(path: str) -> Page:
        return page() if path == "/metrics" else Page(404, JSON, b"{}")

    server = PageServer(bound(host, port, shared=shared, of="METRICS_"), answer, name="metrics")
    try:
        yield
    finally:
        server.close()
