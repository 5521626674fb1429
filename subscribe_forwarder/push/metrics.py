"""The metrics of pushing; incremented per request, never per message."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

requests = Counter("packetboat_push_requests_total", "Requests by what came of them.", ["outcome"])
messages = Counter(
    "packetboat_push_messages_total", "Messages of requests by what came of them.", ["outcome"]
)
seconds = Histogram(
    "packetboat_push_request_seconds",
    "From the first byte of a request to the end of its answer.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
in_flight = Gauge("packetboat_push_in_flight", "Requests that are out now.")
subscriptions = Gauge("packetboat_push_subscriptions", "Subscriptions pushed from here.")
endpoints = Gauge("packetboat_push_endpoints", "Endpoints that are known here, by breaker.",
                  ["breaker"])  # fmt: skip
decisions = Counter(
    "packetboat_push_decisions_total",
    "Changes to how an endpoint is fed: breaker_open, breaker_half_open, breaker_closed, "
    "retry_after, throttle, released, disabled, enabled, verified, unverified.",
    ["what"],
)
attempts_lost = Counter(
    "packetboat_push_attempts_unlogged_total",
    "Attempts that the log does not have: successes beyond its rate, or Postgres was away.",
    ["why"],
)
