"""Topics."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class Retention(msgspec.Struct, frozen=True):
    """How long messages stay; None is the platform's default."""

    mode: Literal["consume", "retain"] = "consume"
    seconds: int | None = None
    bytes: int | None = None
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"
    """At a limit that messages not acked yet reach: refuse publishes, or let the oldest go."""


class Topic(msgspec.Struct, frozen=True):
    """A named stream."""

    name: str
    partitions: int
    retention: Retention
    created_at: datetime
    updated_at: datetime
    dedup_window_seconds: int = 600
    labels: dict[str, str] = {}
    priorities: int = 1
    full: str | None = None
    """Why publishes are refused now, and what makes room; None while there is room."""
