"""Metrics of TLS between processes."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

ends = Gauge(
    "packetboat_peer_certificate_expires_timestamp_seconds",
    "When it ends: this process's own certificate, or the CA that ends last of those it trusts.",
    ["of"],
    multiprocess_mode="min",
)
unread = Gauge(
    "packetboat_peer_certificate_unreadable",
    "1 while changed files of certificates can't be used, and those of before still are.",
    multiprocess_mode="max",
)
refused = Counter(
    "packetboat_peer_connections_refused",
    "Connections not let in: in plain text where TLS is required, without a good certificate, or "
    "beyond the handshakes that an address may begin.",
    ["why"],
)
