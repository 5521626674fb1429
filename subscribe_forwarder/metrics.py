"""Metrics of the subscribe forwarder; incremented per call, never per message."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_MS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

delivered = Counter(
    "packetboat_subscribe_delivered_total", "Messages delivered, each attempt counted."
)
redelivered = Counter("packetboat_subscribe_redelivered_total", "Messages delivered again.")
acked = Counter("packetboat_subscribe_acked_total", "Messages newly acked, durably.")
expired = Counter("packetboat_subscribe_expired_total", "Messages whose time to live was over.")
not_delivered = Counter(
    "packetboat_subscribe_not_delivered_total",
    "Messages settled by a filter or a skip rule instead of being delivered.",
    ["how"],
)
lease_ended = Counter(
    "packetboat_subscribe_leases_ended_total", "Leases that ended without an ack.", ["how"]
)
pulls = Counter("packetboat_subscribe_pulls_total", "Pulls by what came of them.", ["outcome"])
waiting = Gauge("packetboat_subscribe_waiting_pulls", "Long-polls that wait now.")
streams = Gauge("packetboat_subscribe_streams", "Streams that are open now.")
backlog_streams = Gauge(
    "packetboat_subscribe_backlog_streams", "Streams of backlogs that are open now."
)
consumed_backlog = Gauge(
    "packetboat_subscribe_consumed_backlog",
    "Messages that wait behind those delivered lately, of subscriptions that are read.",
)
flush_seconds = Histogram(
    "packetboat_subscribe_flush_seconds", "One flush of cursors to Postgres.", buckets=_MS
)
flush_rows = Histogram(
    "packetboat_subscribe_flush_rows",
    "Cursors written by one flush.",
    buckets=(1, 2, 5, 10, 50, 100, 500, 1000, 5000),
)
unbalanced = Gauge(
    "packetboat_subscribe_unbalanced_cursors",
    "Cursors owned by this process whose books do not balance; alert on any.",
)
flush_failed = Counter("packetboat_subscribe_flush_failed_total", "Flushes that failed.", ["how"])
fetch_seconds = Histogram(
    "packetboat_subscribe_fetch_seconds", "One fetch from the store.", buckets=_MS
)
fetched_bytes = Counter(
    "packetboat_subscribe_fetched_bytes_total", "Bytes of batches that the store was read for."
)
fetch_failed = Counter("packetboat_subscribe_fetch_failed_total", "Fetches that failed.", ["kind"])
cache_bytes = Gauge("packetboat_subscribe_cache_bytes", "Bytes of messages in the delivery cache.")
owned = Gauge("packetboat_subscribe_owned_partitions", "Partitions owned by this process.")
lease_held = Gauge("packetboat_subscribe_lease_held", "1 while this forwarder's lease holds.")
dead_lettered = Counter(
    "packetboat_subscribe_dead_lettered_total", "Dead letters written, by why.", ["reason"]
)
undelivered = Gauge(
    "packetboat_subscribe_undelivered_dead_letters", "Dead letters not written yet."
)
dead_letter_failed = Counter(
    "packetboat_subscribe_bury_failed_total", "Batches of dead letters that could not be written."
)
filter_failed = Counter(
    "packetboat_subscribe_filter_failed_total",
    "Evaluations of filters and skip rules that failed or gave no boolean: no match.",
)
ack_published = Counter(
    "packetboat_subscribe_ack_published_total", "Messages published with an ack."
)
