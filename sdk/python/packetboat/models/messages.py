# Generated from openapi/: `make generate`. Do not edit.
"""Messages, schedules that publish them, backlogs and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from packetboat.models.data import Data, Failure, Readable, Redriving
from packetboat.models.topics import PushStatus

Durability = Literal["quorum", "all"]
EarlyDurability = Literal["leader", "none"]
MissedRuns = Literal["skip", "latest", "all"]


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish in a batch. Give `deliver_at`, with a zone, or `delay_seconds`."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""
    idempotency_key: str | None = None
    delay_seconds: float | None = None
    deliver_at: datetime | None = None
    """The time to publish it, instead of `delay_seconds`."""


class Receipt(msgspec.Struct, frozen=True):
    """The proof that a message is stored. A delayed message has its final id, and no offset yet."""

    message_id: str
    topic: str
    partition: int
    offset: int | None
    """None while the message waits to be published."""
    publish_time: datetime | None
    """None while the message waits to be published, and for a duplicate of a message that is
    gone."""
    duplicate: bool = False
    """Whether the message was known by its idempotency key or its batch; the receipt is then that
    of the first one."""
    scheduled_for: datetime | None = None
    """The time of a delayed message; None in the receipt of a duplicate."""
    accepted_time: datetime | None = None
    """The time at which a delayed message was stored."""


class Content(Readable, msgspec.Struct, frozen=True, kw_only=True):
    """The content of a message, which is the same however you get the message."""

    data: msgspec.Raw = msgspec.Raw(b"")
    """JSON as JSON, text as a JSON string; `body`, `text` and `json()` read it."""
    data_base64: bytes | None = None
    """Any other body, decoded."""
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    publisher_id: str | None = None
    priority: int = 0
    traceparent: str | None = None
    """W3C trace context, of a message that was published with one."""
    tracestate: str | None = None
    """W3C trace state, of a message that was published with one beside traceparent."""


class Message(Content, frozen=True, kw_only=True):
    """A leased message: ack it before its deadline, or it is delivered again."""

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    ack_id: str | None
    """None where the message is acked already, as with at-most-once delivery."""
    attempt: int = 1
    """The number of its deliveries, with this one."""


class StoredMessage(Content, frozen=True, kw_only=True):
    """A message as it is stored, whether or not it is published yet. The content of a cancelled
    message may be gone."""

    message_id: str
    partition: int
    state: str = "published"
    """`scheduled`, `published` or `cancelled`."""
    publish_time: datetime | None = None
    offset: int | None = None
    scheduled_for: datetime | None = None
    accepted_time: datetime | None = None
    """The time at which it was stored; given while it is not published."""


class DelayedMessage(msgspec.Struct, frozen=True):
    """A message that waits for its time."""

    message_id: str
    partition: int
    key: str | None
    scheduled_for: datetime
    accepted_time: datetime
    content_type: str | None = None
    size_bytes: int = 0
    """The size of the body."""
    priority: int = 0


class ReplayPage(msgspec.Struct, frozen=True):
    """Messages of a partition, in the order of their offsets."""

    messages: tuple[StoredMessage, ...]
    next_offset: int
    """The offset from which the next read goes on."""
    first_offset: int
    """The first offset stored."""
    end_offset: int
    """One past the last."""


class PartitionOffsets(msgspec.Struct, frozen=True):
    """Offsets of a partition."""

    first: int
    """The first offset stored."""
    end: int
    """One past the last offset."""
    at: int
    """The offset of the first message that is not older than the time asked for."""


class AckState(msgspec.Struct, frozen=True):
    """The state of a message in one subscription."""

    state: str
    """`acked`, `pending`, `leased`, `dead_lettered`, `expired`, `filtered`, `skipped`, `settled` or
    `scheduled`."""
    outcomes: tuple[str, ...] | None = None
    """The possible outcomes of a message that is `settled`, where the topic keeps no `ack_history`
    that says which."""
    attempts: int | None = None
    """The number of attempts that ended without an ack, and the present one of a leased message;
    given for pending, leased and dead-lettered messages."""
    settled_at: datetime | None = None
    """The time of the outcome, where the topic keeps its ack history, and of dead letters."""
    reason: str | None = None
    """The reason that the message is still pending, or was dead-lettered."""
    detail: str | None = None
    """The comment of the consumer."""
    not_before: datetime | None = None
    """The end of the back-off, or the time of a delayed message."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish with an ack: consumers see it if and only if the ack is committed."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    topic: str
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""


class ItemFailure(Failure, msgspec.Struct, frozen=True):
    """The reason that one item failed."""

    index: int
    status: int
    type: str
    ack_id: str | None = None
    message_id: str | None = None
    detail: str = ""


class ScheduleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message of each run. Runs add the attributes `packetboat-schedule` and
    `packetboat-scheduled-time`."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    content_type: str | None = None
    """The content type. Left out, `data` is `text/plain` if it is a string, and else
    `application/json`; `data_base64` has none."""
    key: str | None = None
    """The key of the message."""
    attributes: Mapping[str, str] | None = None
    """The attributes of the message."""
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered."""
    priority: int = 0
    """A number from 0 to 9; messages of priority 9 are the most urgent."""


class ScheduleChanges(TypedDict, total=False):
    """Fields of a schedule that may be changed; the others stay."""

    topic: str
    """The topic that its messages are published to."""
    cron: str
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduleMessage
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """The rule for runs that could not be made in their minute."""
    paused: bool
    """Whether the clock makes no runs of it."""
    labels: Mapping[str, str]


class ScheduleSettings(TypedDict, total=False):
    """Fields of a new schedule beside its topic, cron and message; the others get the server's
    defaults."""

    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """The rule for runs that could not be made in their minute."""
    paused: bool
    """Whether the clock makes no runs of it."""
    labels: Mapping[str, str]


class ScheduledMessage(Content, frozen=True, kw_only=True):
    """The message of each run."""

    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered."""


class Schedule(msgspec.Struct, frozen=True):
    """A message that is published by the clock."""

    name: str
    topic: str
    """The topic that its messages are published to."""
    cron: str
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduledMessage
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: str
    """The rule for runs that could not be made in their minute."""
    paused: bool
    """Whether the clock makes no runs of it."""
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    next_runs: tuple[datetime, ...] = ()
    """The next runs of the clock."""
    last_run: datetime | None = None
    """The time of the last run that was made."""
    last_message_id: str | None = None
    """The message of that run."""
    runs: int = 0
    """The number of runs that were made since the schedule was created."""
    missed: int = 0
    """The number of runs that were passed over."""
    failure: str | None = None
    """The reason that the run that is due cannot be made now."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class ScheduleRun(msgspec.Struct, frozen=True):
    """The message that a run published."""

    message_id: str
    partition: int
    offset: int


class FilterSample(msgspec.Struct, frozen=True):
    """A message that a filter was tried on."""

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    key: str | None = None
    attributes: dict[str, str] = {}


class FilterSamples(msgspec.Struct, frozen=True):
    """Some messages that match, and some others."""

    matched: tuple[FilterSample, ...] = ()
    unmatched: tuple[FilterSample, ...] = ()


class FilterChanges(msgspec.Struct, frozen=True):
    """Messages that another filter would treat otherwise than the present one, or than none."""

    newly_matched: int = 0
    no_longer_matched: int = 0


class FilterPreview(msgspec.Struct, frozen=True):
    """The effect of a filter on recent messages."""

    examined: int
    matched: int
    errors: int
    """Evaluations that failed or gave no boolean; such a message does not match."""
    samples: FilterSamples
    changes: FilterChanges
    """The difference to the present filter of the subscription, or to none."""
    first_error: str | None = None


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
    pending: int
    lane: int | None = None
    """The priority; only where the topic has several."""
    start: int | None = None
    end: int | None = None
    """One past the last message; None until the store has told it."""
    exceptions: int | None = None
    """Open deliveries that the cursor has stepped over."""
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
    waiting_pulls: int = 0
    streams: int = 0
    """Streams that are open."""
    paused: str | None = None
    """The reason that nothing new is delivered: paused, draining, too_many_outstanding,
    blocked_by_keys (messages wait for earlier ones of their keys), too_many_ranges,
    too_many_exceptions, rate_limited, tenant_in_flight (the tenant has as many messages leased as
    it may)."""
    throttles: tuple[Throttle, ...] = ()
    """The limits that slow it now, beside its own settings."""
    forwarders: int = 0
    """The number of forwarders that own its partitions between them."""
    push: PushStatus | None = None


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


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose attempts are used up, or that a consumer rejected."""

    id: str
    """The id of the dead letter in its subscription."""
    state: str
    """`open`, `redriven` or `discarded`."""
    reason: str
    """`exhausted` or `rejected`."""
    attempts: int
    dead_at: datetime
    message_id: str
    """The id of the message as it was published."""
    partition: int
    offset: int
    publish_time: datetime
    size_bytes: int
    letter_id: str
    """The id of the message in the dead-letter topic."""
    detail: str | None = None
    """The last comment of a consumer."""
    first_at: datetime | None = None
    """The time of its first delivery."""
    last_at: datetime | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    content_type: str | None = None
    redrive_id: str | None = None
    """The redrive that took it, or is to take it."""


class DeadLetterWithMessage(DeadLetter, frozen=True, kw_only=True):
    """A dead letter and its message."""

    message: StoredMessage | None = None
    """The message in the dead-letter topic; None when it is stored no more."""


class Undelivered(msgspec.Struct, frozen=True):
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""

    messages: int = 0
    reason: str | None = None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters; `next_page_token` is None on the last."""

    items: tuple[DeadLetter, ...] = msgspec.field(name="dead_letters")
    examined: int = 0
    """The number of letters that the filter was tried on."""
    undelivered: Undelivered = Undelivered()
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""
    next_page_token: str | None = None


class Discarded(msgspec.Struct, frozen=True):
    """The number of dead letters that were discarded."""

    discarded: int
    complete: bool
    """Whether all were looked at; ask again while this is false."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to each message; members that are absent stay."""

    attributes: Mapping[str, str | None] | None = None
    """New values; None drops the attribute."""
    data: Data | msgspec.UnsetType = msgspec.UNSET
    """The new body."""
    content_type: str | None = None
    key: str | msgspec.UnsetType | None = msgspec.UNSET
    """None drops it."""


class Redrive(Redriving, msgspec.Struct, frozen=True):
    """Dead letters that are published again."""

    redrive_id: str
    state: str
    """`running`, `done`, `cancelling`, `cancelled` or `failed`."""
    to: str
    """`subscription`, or the name of a topic."""
    total: int
    """The number of letters to redrive."""
    redriven: int
    failed: int
    """The number of letters whose message is stored no more."""
    created_at: datetime
    updated_at: datetime
    detail: str | None = None
    """The reason that it waits or failed, or the messages that could not be redriven."""
    filter: str | None = None
    rate: float | None = None
    """Messages a second, at most."""


class DryRun(msgspec.Struct, frozen=True):
    """The dead letters that a redrive would publish."""

    matched: int
    examined: int
    complete: bool
    """Whether all were examined."""
    sample: tuple[DeadLetter, ...] = ()


class ParkedKey(msgspec.Struct, frozen=True):
    """A key that waits because its first message failed for good."""

    partition: int
    lane: int
    attempts: int
    reason: str
    waiting: int
    """Messages of the key behind it."""
    key: str | None = None
    """None when the message is stored no more."""
    detail: str | None = None
    message_id: str | None = None
    """The id of the first message, at which the key stopped."""
    since: datetime | None = None
    """The time of the last delivery of the first message."""
