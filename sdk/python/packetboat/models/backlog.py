"""What subscriptions have to do, and whether every message is accounted for."""

from __future__ import annotations

from datetime import datetime

import msgspec

from packetboat.models.push import PushStatus


class Throttle(msgspec.Struct, frozen=True):
    """What slows a subscription now, beside its own settings."""

    kind: str
    reason: str = ""
    value: float | None = None
    until: datetime | None = None


class PartitionBacklog(msgspec.Struct, frozen=True):
    """Of one partition, as offsets and counts; None: not known now."""

    partition: int
    messages: int
    floor: int
    read_to: int
    end: int
    pending: int
    lane: int | None = None
    """The priority; only where the topic has several."""
    exceptions: int | None = None
    start: int | None = None
    acked_ranges: int | None = None
    acked: int | None = None
    filtered: int | None = None
    skipped: int | None = None
    expired: int | None = None
    dead_lettered: int | None = None
    failure: str | None = None


class Backlog(msgspec.Struct, frozen=True):
    """What a subscription has to do."""

    messages: int
    """Not acked yet."""
    leased: int
    waiting_redelivery: int
    partitions: tuple[PartitionBacklog, ...]
    waiting_pulls: int = 0
    streams: int = 0
    paused: str | None = None
    """Why nothing new is handed out."""
    forwarders: int = 0
    throttles: tuple[Throttle, ...] = ()
    push: PushStatus | None = None


class PartitionLoad(msgspec.Struct, frozen=True):
    """Of one partition, in a stream of backlogs."""

    partition: int
    messages: int
    leased: int = 0


class BacklogUpdate(msgspec.Struct, frozen=True):
    """What a subscription has to do, at a time; numbers for who starts and stops workers."""

    subscription: str
    time: datetime
    messages: int = 0
    leased: int = 0
    waiting_pulls: int = 0
    """Consumers that wait for messages now, as `streams`: workers with nothing to do."""
    streams: int = 0
    delivered_per_second: float = 0.0
    paused: str | None = None
    complete: bool = True
    """False: numbers of some partition are the last known ones, or missing."""
    partitions: tuple[PartitionLoad, ...] = ()
    removed: bool = False
    """The subscription is gone."""


class CursorBooks(msgspec.Struct, frozen=True):
    """read_to - start = acked + filtered + skipped + expired + dead_lettered + open_deliveries +
    pending + difference, and exceptions = open_deliveries."""

    partition: int
    lane: int
    generation: int
    start: int
    floor: int
    read_to: int
    acked: int
    filtered: int
    skipped: int
    expired: int
    dead_lettered: int
    exceptions: int
    open_deliveries: int
    pending: int
    difference: int
    checked_at: datetime


class Reconciliation(msgspec.Struct, frozen=True):
    """`balanced`: every message is accounted for, the difference is 0 everywhere."""

    balanced: bool
    partitions: tuple[CursorBooks, ...]
