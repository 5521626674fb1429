"""What a tenant's quotas are called."""

from __future__ import annotations

QUOTA_NAMES = (
    "publish_messages_per_second",
    "publish_bytes_per_second",
    "stored_bytes",
    "topics",
    "subscriptions",
    "in_flight",
    "push_concurrency",
    "requests_per_second",
)
