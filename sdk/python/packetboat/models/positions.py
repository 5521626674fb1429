"""Where a subscription is or begins, and snapshots of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

Position = str | int | datetime | Mapping[str, Any]
"""`"earliest"`, `"latest"`, an offset of every partition, a moment with a zone, or as the API has
it: `{"snapshot": name}`, and for seeks `{"offsets": {partition: offset}}`."""


class SoughtPartition(msgspec.Struct, frozen=True):
    """Where a partition is read from now."""

    partition: int
    lane: int
    offset: int


class Sought(msgspec.Struct, frozen=True):
    """Where a subscription was moved, or would be."""

    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: tuple[SoughtPartition, ...]
    backlog: int
    """Messages that are to be delivered from there on."""
    dry_run: bool = False


class Snapshot(msgspec.Struct, frozen=True):
    """What a subscription had not acked; any of the topic can go back to it."""

    name: str
    topic: str
    subscription: str
    created_at: datetime
    expires_at: datetime | None = None
    labels: dict[str, str] = {}
