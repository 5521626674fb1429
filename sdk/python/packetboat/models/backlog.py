# Generated from openapi/: `make generate`. Do not edit.
"""Backlogs of subscriptions, and the accounts of their messages."""

from __future__ import annotations

from datetime import datetime

import msgspec

from packetboat.models.push import PushStatus


class Throttle(msgspec.Struct, frozen=True):
    """A limit that slows a subscription now, beside its own settings."""

    kind: str
    """flow_messages_per_second and flow_max_outstanding: a consumer said so. machine: all
    deliveries of a forwarder together, messages a second. endpoint_messages_per_second,
    endpoint_requests, endpoint_pause: what the endpoint asked for. endpoint_breaker: it fails."""
    reason: str = ""
    value: float | None = None
    until: datetime | None = None
    """None while its reason lasts."""


class PartitionBacklog(msgspec.Struct, frozen=True):
    """read_to - start = acked + filtered + skipped + expired + dead_lettered + exceptions +
    pending"""

    partition: int
    messages: int
    floor: int
    read_to: int
    end: int
    pending: int
    lane: int | None = None
    """The priority; only where the topic has several."""
    exceptions: int | None = None
    """Open deliveries that the cursor has stepped over."""
    start: int | None = None
    acked_ranges: int | None = None
    acked: int | None = None
    filtered: int | None = None
    skipped: int | None = None
    expired: int | None = None
    dead_lettered: int | None = None
    failure: str | None = None


class Backlog(msgspec.Struct, frozen=True):
    """The messages of a subscription that wait."""

    messages: int
    """Messages that are not acked yet."""
    leased: int
    waiting_redelivery: int
    partitions: tuple[PartitionBacklog, ...]
    throttles: tuple[Throttle, ...] = ()
    """The limits that slow it now, beside its own settings."""
    push: PushStatus | None = None
    waiting_pulls: int = 0
    streams: int = 0
    """Streams that are open."""
    paused: str | None = None
    """The reason that nothing new is delivered: paused, draining, too_many_outstanding,
    blocked_by_keys (messages wait for earlier ones of their keys), too_many_ranges,
    too_many_exceptions, rate_limited, tenant_in_flight (the tenant has as many messages leased as
    it may)."""
    forwarders: int = 0
    """The number of forwarders that own its partitions between them."""


class CursorBooks(msgspec.Struct, frozen=True):
    """read_to − start = acked + filtered + skipped + expired + dead_lettered + open_deliveries +
    pending, and exceptions = open_deliveries."""

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
    """The answer whether every message is accounted for."""

    balanced: bool
    """Whether `difference` is 0 everywhere."""
    partitions: tuple[CursorBooks, ...]
