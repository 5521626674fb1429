"""Metrics of admission; counters are raised once a tick, never per request."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

admitted = Counter(
    "packetboat_admission_admitted_total", "Requests let in, by urgency.", ["urgency"]
)
refused = Counter(
    "packetboat_admission_refused_total",
    "Requests answered 503 before anything of them was done, by urgency and reason: delay (the "
    "loop was late), `crowd` (publishes queued), share (its tenant had more than its part of a "
    "full bound), full.",
    ["urgency", "reason"],
)
changes = Counter(
    "packetboat_admission_changes_total",
    "Changes of the pace: began (the loop was late), cut (it still was), ended (every request is "
    "served); crowded (publishes queued) or uncrowded (they do no longer).",
    ["what"],
)
pace = Gauge(
    "packetboat_admission_pace_per_second",
    "Units (requests and their bytes) let in each second; 0: as many as come.",
    multiprocess_mode="livesum",
)
crowd = Gauge(
    "packetboat_admission_publishes_at_once",
    "Publishes that may be under way at once; 0: as many as come.",
    multiprocess_mode="livesum",
)
held = Gauge(
    "packetboat_admission_held",
    "Requests that run (requests), or wait as long-polls and streams do (waiting).",
    ["what"],
    multiprocess_mode="livesum",
)
held_bytes = Gauge(
    "packetboat_admission_held_bytes", "Bodies of requests that run.", multiprocess_mode="livesum"
)
tenants = Gauge(
    "packetboat_admission_tenants",
    "Tenants that were lately here, and those of them held to a rate.",
    ["what"],
    multiprocess_mode="livesum",
)
