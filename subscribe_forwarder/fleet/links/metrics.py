"""The metrics of links; each link counts, and the counts are added up twice a second."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

open_links = Gauge("packetboat_link_open", "Links to other subscribe forwarders.")
requests = Counter(
    "packetboat_link_requests_total",
    "Requests and questions over links, by the side that asked.",
    ["side"],
)
running = Gauge(
    "packetboat_link_running_requests",
    "Requests and questions over links that wait for their answer.",
    ["side"],
)
transferred = Counter("packetboat_link_bytes_total", "Bytes over links.", ["direction"])
notes_dropped = Counter(
    "packetboat_link_notes_dropped_total", "Notes not sent since the link was backed up."
)
ended = Counter("packetboat_link_ended_total", "Links that ended.")
round_trip_seconds = Histogram(
    "packetboat_link_round_trip_seconds",
    "From a ping to its answer.",
    buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
)
