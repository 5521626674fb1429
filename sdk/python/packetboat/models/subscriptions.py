"""Subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Retry(msgspec.Struct, frozen=True):
    """Back-off between the attempts to deliver a message."""

    min_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 600.0
    max_attempts: int | None = None


class Subscription(msgspec.Struct, frozen=True):
    """An independent reader of a topic; its consumers share its messages."""

    name: str
    topic: str
    type: str
    delivery: str
    ack_deadline_seconds: float
    retry: Retry
    start: Any
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
