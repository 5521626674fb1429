"""Subscriptions, what they are made of, and what they have to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from packetboat.models.positions import Position
from packetboat.models.push import Push, PushEndpoint


class RetryPolicy(msgspec.Struct, frozen=True):
    """Back-off between the attempts to deliver a message, doubled from one to the next."""

    min_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 600.0
    max_attempts: int | None = None
    """How often a message may fail; a number needs a dead-letter topic, or `park`."""
    on_exhausted: str = "dead_letter"
    """`dead_letter`, or `park`: the key of an ordered subscription waits aside."""


class RateLimit(msgspec.Struct, frozen=True):
    """Of a subscription in all, and of each consumer; None is no limit."""

    messages_per_second: float | None = None
    per_consumer_messages_per_second: float | None = None


class SubscriptionChanges(TypedDict, total=False):
    """What of a subscription may be changed; what is not given stays."""

    type: Literal["pull", "push"]
    push: Push | None
    ack_deadline_seconds: float
    """1 to 43,200."""
    retry: RetryPolicy
    dead_letter_topic: str | None
    filter: str | None
    """A CEL expression over what was published."""
    rate_limit: RateLimit | None
    max_outstanding: int | None
    """Leased and waiting messages at which new hand-outs pause."""
    labels: Mapping[str, str]


class SubscriptionSettings(SubscriptionChanges, total=False):
    """What a subscription may be made with; what is not given has the server's default."""

    delivery: Literal["at_least_once", "at_most_once", "exactly_once"]
    ordered: bool
    """Messages of a key are delivered one by one, in the order of publishing."""
    start: Position


class Subscription(msgspec.Struct, frozen=True):
    """An independent reader of a topic; its consumers share its messages."""

    name: str
    topic: str
    type: str
    delivery: str
    ack_deadline_seconds: float
    retry: RetryPolicy
    start: Any
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    push: PushEndpoint | None = None
    ordered: bool = False
    dead_letter_topic: str | None = None
    filter: str | None = None
    rate_limit: RateLimit | None = None
    max_outstanding: int | None = None
    state: str = "active"
    """`active`, `paused` or `draining`."""
    state_reason: str | None = None
    etag: str | None = None
    """For `if_match`; None in a listing."""


class StreamTicket(msgspec.Struct, frozen=True):
    """Opens one subscription's stream until `expires_at`, for a client that sends no header."""

    ticket: str
    expires_at: datetime
    path: str
    """The stream's path and query; more parameters may be added behind it."""


class SubscriptionState(msgspec.Struct, frozen=True):
    """Whether messages are handed out."""

    name: str
    state: str
    state_reason: str | None = None


class Flow(msgspec.Struct, frozen=True):
    """What a consumer said that it can take; None is no limit."""

    subscription: str
    messages_per_second: float | None = None
    max_outstanding: int | None = None
    reason: str = ""
    said_by: str | None = None
    until: datetime | None = None


class SkipRule(msgspec.Struct, frozen=True):
    """Messages for which the expression is true are settled instead of delivered."""

    id: str
    expression: str
    reason: str
    created_by: str
    created_at: datetime
    removed_by: str | None = None
    removed_at: datetime | None = None


class SkipRules(msgspec.Struct, frozen=True):
    """`skipped`: messages that rules have skipped since the subscription was made or moved."""

    skip_rules: tuple[SkipRule, ...]
    skipped: int = 0
