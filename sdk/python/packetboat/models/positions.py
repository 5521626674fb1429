# Generated from openapi/: `make generate`. Do not edit.
"""Moves of a subscription, and snapshots of it."""

from __future__ import annotations

from datetime import datetime

import msgspec


class SoughtPartition(msgspec.Struct, frozen=True):
    """The offset from which a partition is read now."""

    partition: int
    lane: int
    offset: int


class Sought(msgspec.Struct, frozen=True):
    """The place that a subscription was moved to, or would be."""

    generation: int
    """Counts the seeks; ack ids belong to one."""
    partitions: tuple[SoughtPartition, ...]
    backlog: int
    """The number of messages to deliver from there on."""
    dry_run: bool = False
    """Whether nothing was changed."""


class Snapshot(msgspec.Struct, frozen=True):
    """The messages that a subscription had not acked."""

    name: str
    topic: str
    subscription: str
    """The subscription that it was taken of; every subscription of the topic can go back to it."""
    created_at: datetime
    labels: dict[str, str] = {}
    expires_at: datetime | None = None
