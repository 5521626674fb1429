"""Results that the client makes of answers, and lines of streams."""

from __future__ import annotations

from datetime import datetime

import msgspec

from packetboat.models.messages import ItemFailure


class Settled(msgspec.Struct, frozen=True):
    """The number of ids that were acked, nacked, …, and the failures of the others."""

    count: int
    failures: tuple[ItemFailure, ...] = ()
    published: tuple[str, ...] = ()
    """Message ids of an ack that publishes, in the order given; empty where it is a duplicate."""
    duplicate: bool = False
    """Whether the messages of an ack that publishes had been acked before; then nothing was
    published now."""


class PartitionLoad(msgspec.Struct, frozen=True):
    """The numbers of one partition in a stream of backlogs."""

    partition: int
    messages: int
    leased: int = 0


class BacklogUpdate(msgspec.Struct, frozen=True):
    """The backlog of a subscription at a time, for programs that start and stop workers."""

    subscription: str
    time: datetime
    messages: int = 0
    leased: int = 0
    waiting_pulls: int = 0
    """Consumers that wait for messages now: workers with nothing to do, like those of `streams`."""
    streams: int = 0
    delivered_per_second: float = 0.0
    paused: str | None = None
    complete: bool = True
    """Whether the numbers of all partitions are present ones; the others are the last known ones,
    or missing."""
    partitions: tuple[PartitionLoad, ...] = ()
    removed: bool = False
    """Whether the subscription is gone."""
