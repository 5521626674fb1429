"""Topics, and where their partitions are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec


class Retention(msgspec.Struct, frozen=True):
    """How long messages stay; None is the platform's default."""

    mode: Literal["consume", "retain"] = "consume"
    """`consume`: until every subscription is done with it; `retain`: by age and bytes."""
    seconds: int | None = None
    """600 to 31,536,000; None: seven days."""
    bytes: int | None = None
    """Of all partitions together; None: what the tenant may store."""
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"
    """At a limit that messages not acked yet reach: refuse publishes, or let the oldest go."""


class TopicChanges(TypedDict, total=False):
    """What of a topic may be changed; what is not given stays."""

    retention: Retention
    dedup_window_seconds: int
    """How long idempotency keys are remembered, 0 to 86,400; 0: not at all."""
    ack_history: bool
    """Keep when each message was settled, and how."""
    schema: str | None
    """The name of a schema that bodies must fit."""
    labels: Mapping[str, str]


class TopicSettings(TopicChanges, total=False):
    """What a topic may be made with; what is not given has the server's default."""

    partitions: int
    """1 to 256, 4 unless given."""
    priorities: int
    """Lanes of each partition, 1 to 10, for good."""


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
    ack_history: bool = False
    schema: str | None = None
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Hold(msgspec.Struct, frozen=True):
    """One thing that would be lost with a topic or a subscription, and keeps it from being
    deleted without `force`."""

    kind: str
    """`undelivered`, `delayed`, `export`, `snapshot` or `dead_letters`."""
    name: str | None
    """Of the subscription, export or snapshot; None of delayed messages."""
    messages: int
    advice: str
    """What to do instead of losing them."""


class PartitionGeneration(msgspec.Struct, frozen=True):
    """A stretch of a partition that one group of store nodes holds."""

    partition: int
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    generation: int
    group: int
    state: str
    """`open` or `sealed`; a sealed one stays until its messages are trimmed."""
    base: int
    """Its first offset ever."""
    first: int | None = None
    """The first offset kept; None, as the next two, while its group does not answer."""
    end: int | None = None
    stored_bytes: int | None = None


class Placement(msgspec.Struct, frozen=True):
    """A move or growth that is not finished."""

    kind: str
    partitions: tuple[int, ...]
    groups: tuple[int, ...]


class Partitions(msgspec.Struct, frozen=True):
    """Where a topic's partitions are."""

    partitions: tuple[PartitionGeneration, ...]
    placement: Placement | None = None
