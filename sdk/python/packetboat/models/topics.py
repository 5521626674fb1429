# Generated from openapi/: `make generate`. Do not edit.
"""Topics, and the places of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec


class Retention(msgspec.Struct, frozen=True):
    """The rule by which messages are kept. Where nothing holds them (no subscription), the limits
    alone decide."""

    mode: Literal["consume", "retain"] = "consume"
    """`consume`: a message goes once every subscription is done with it; `retain`: by age and
    bytes."""
    seconds: int | None = None
    """Seconds after which a message goes, acked or not. None: seven days."""
    bytes: int | None = None
    """The size limit, over all partitions. None: the storage limit of the tenant."""
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"
    """The rule for messages that are not acked and reach a limit of age or bytes. `refuse`:
    publishes are answered 507 until there is room; `expire_oldest`: the oldest go, and are counted
    as expired by each subscription that had not acked them."""


class TopicChanges(TypedDict, total=False):
    """Fields of a topic that may be changed; the others stay."""

    retention: Retention
    dedup_window_seconds: int
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None
    """The name of a schema that bodies must fit."""
    labels: Mapping[str, str]


class TopicSettings(TopicChanges, total=False):
    """Fields of a new topic; the others get the server's defaults."""

    partitions: int
    """The number of partitions; it can grow later."""
    priorities: int
    """The number of lanes of each partition, for good; partitions times priorities is at most
    1024."""


class Topic(msgspec.Struct, frozen=True):
    """A named stream."""

    name: str
    partitions: int
    retention: Retention
    created_at: datetime
    updated_at: datetime
    priorities: int = 1
    """The number of lanes of each partition, for good; partitions times priorities is at most
    1024."""
    dedup_window_seconds: int = 600
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool = False
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None = None
    """The name of a schema that bodies must fit."""
    labels: dict[str, str] = {}
    full: str | None = None
    """The reason that publishes are answered 507 now, and a way to make room; None while there is
    room."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Hold(msgspec.Struct, frozen=True):
    """One thing that would be lost by a delete."""

    kind: str
    messages: int
    """Not acked by a subscription, delayed (at most 100,000 of a queue are counted), not taken by
    an export, kept by a snapshot, or open dead letters."""
    advice: str
    """The action that loses nothing."""
    name: str | None = None
    """The name of the subscription, export or snapshot; None for delayed messages."""


class PartitionGeneration(msgspec.Struct, frozen=True):
    """A stretch of a partition that one group of store nodes holds."""

    partition: int
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    generation: int
    """Grows with each move or growth; a sealed one stays until its messages are trimmed."""
    group: int
    """The group of store nodes that holds it."""
    state: str
    base: int
    """The first offset ever; the generation before ended there."""
    first: int | None = None
    """The first offset kept; None, as the next two, while its group does not answer."""
    end: int | None = None
    """One past the last offset."""
    stored_bytes: int | None = None


class Placement(msgspec.Struct, frozen=True):
    """A move or growth that is not finished."""

    kind: str
    partitions: tuple[int, ...] = ()
    """The partitions that get a new generation."""
    groups: tuple[int, ...] = ()
    """The new group of each of these partitions."""


class Partitions(msgspec.Struct, frozen=True):
    """The places of a topic's partitions."""

    partitions: tuple[PartitionGeneration, ...] = ()
    placement: Placement | None = None
    """A move or growth that is not finished."""
