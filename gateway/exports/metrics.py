"""Metrics of exports for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

claimed = Counter("packetboat_exports_runs_claimed_total", "Runs leased to runners.", ["kind"])
finished = Counter(
    "packetboat_exports_runs_finished_total",
    "Attempts that runners ended; state=queued: another attempt follows.",
    ["kind", "state"],
)
lost = Counter(
    "packetboat_exports_leases_lost_total",
    "Leases that were over when their runner came with them.",
)
waiting = Gauge("packetboat_exports_waiting_claims", "Claims that wait for a run.")
rows = Counter(
    "packetboat_exports_rows_total",
    "Messages that runs have exported: in tables, in their rejects, or filtered out.",
    ["where"],
)
body_bytes = Counter("packetboat_exports_body_bytes_total", "Bodies that runs have exported.")
file_bytes = Counter("packetboat_exports_file_bytes_total", "Files that runs have written.")
planned = Counter("packetboat_exports_messages_planned_total", "Messages in manifests of runs.")
