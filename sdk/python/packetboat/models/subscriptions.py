# Generated from openapi/: `make generate`. Do not edit.
"""Subscriptions, with their parts and states."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from packetboat.models.data import Position
from packetboat.models.push import Push, PushEndpoint


class RetryPolicy(msgspec.Struct, frozen=True):
    """Back-off between attempts, doubled from one to the next, with full jitter."""

    min_backoff_seconds: float = 1.0
    """Seconds before the second attempt."""
    max_backoff_seconds: float = 600.0
    """Seconds that an attempt waits at most."""
    max_attempts: int | None = None
    """The number of failures after which a message is given up. A number needs a
    `dead_letter_topic`, or `park`."""
    on_exhausted: str = "dead_letter"
    """The rule for a message that failed `max_attempts` times. `park`, of an ordered subscription,
    parks its key until somebody skips or resumes it."""


class RateLimit(msgspec.Struct, frozen=True):
    """Limits of the subscription in all, and of each consumer; null is no limit."""

    messages_per_second: float | None = None
    """The limit over all consumers."""
    per_consumer_messages_per_second: float | None = None
    """The limit of each consumer."""


class SubscriptionChanges(TypedDict, total=False):
    """Fields of a subscription that may be changed; the others stay."""

    type: Literal["pull", "push"]
    push: Push | None
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    retry: RetryPolicy
    rate_limit: RateLimit | None
    dead_letter_topic: str | None
    """The topic that gets messages whose attempts are used up, and rejected ones. It must be there,
    and be another topic."""
    filter: str | None
    """A CEL expression over `attributes`, `data` (a JSON body, else None), `key`, `content_type`,
    `priority`, `publish_time`, `partition`, `offset` and `publisher_id`. Messages for which it is
    not true are not delivered."""
    max_outstanding: int | None
    """The number of leased and waiting messages at which new deliveries pause."""
    labels: Mapping[str, str]


class SubscriptionSettings(SubscriptionChanges, total=False):
    """Fields of a new subscription; the others get the server's defaults."""

    start: Position
    delivery: Literal["at_least_once", "at_most_once", "exactly_once"]
    """The promise for each message."""
    ordered: bool
    """Messages of a key are delivered one by one, in the order in which they were published."""


class Subscription(msgspec.Struct, frozen=True):
    """An independent reader of a topic; its consumers share its messages."""

    name: str
    topic: str
    delivery: str
    ack_deadline_seconds: float
    """Seconds that a message is leased to a consumer."""
    type: str
    retry: RetryPolicy
    start: Any
    created_at: datetime
    updated_at: datetime
    ordered: bool = False
    """Messages of a key are delivered one by one, in the order in which they were published."""
    rate_limit: RateLimit | None = None
    push: PushEndpoint | None = None
    dead_letter_topic: str | None = None
    """The topic that gets messages whose attempts are used up, and rejected ones. It must be there,
    and be another topic."""
    filter: str | None = None
    """A CEL expression over `attributes`, `data` (a JSON body, else None), `key`, `content_type`,
    `priority`, `publish_time`, `partition`, `offset` and `publisher_id`. Messages for which it is
    not true are not delivered."""
    max_outstanding: int | None = None
    """The number of leased and waiting messages at which new deliveries pause."""
    labels: dict[str, str] = {}
    state: str = "active"
    """`paused`: nothing is handed out; `draining`: only what was handed out before."""
    state_reason: str | None = None
    etag: str | None = None
    """For `if_match`; None in a listing."""


class StreamTicket(msgspec.Struct, frozen=True):
    """A ticket that opens one subscription's stream for a minute, without a header."""

    ticket: str
    """The value of the query parameter `ticket` of the stream."""
    expires_at: datetime
    """The time until which it opens streams; an open stream goes on."""
    path: str
    """The stream's path and query with the ticket; more parameters may be added behind it."""


class SubscriptionState(msgspec.Struct, frozen=True):
    """The state of a subscription after a change of it."""

    name: str
    state: str
    state_reason: str | None = None


class Flow(msgspec.Struct, frozen=True):
    """Limits that a consumer asked for."""

    subscription: str
    messages_per_second: float | None = None
    max_outstanding: int | None = None
    reason: str = ""
    said_by: str | None = None
    """The subject of the token."""
    until: datetime | None = None


class SkipRule(msgspec.Struct, frozen=True):
    """A rule that settles the messages for which its expression is true."""

    id: str
    expression: str
    reason: str
    created_by: str
    created_at: datetime
    removed_by: str | None = None
    removed_at: datetime | None = None


class SkipRules(msgspec.Struct, frozen=True):
    """The skip rules of a subscription."""

    skip_rules: tuple[SkipRule, ...]
    skipped: int = 0
    """Messages that rules have skipped since the subscription was made or last moved, as of the
    last commit."""
