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
    """The media type of the body. None: `text/plain` for a string as `data`, JSON for other `data`,
    and none for `data_base64`."""
    key: str | None = None
    """The key of the message: messages of a topic with the same key are in the same partition, in
    order. None: it has none."""
    attributes: Mapping[str, str] | None = None
    """The attributes of the message, which filters can use; None: it has none."""
    priority: int = 0
    """The priority of the message, from 0 to 9; 9 is the most urgent. A topic with fewer priorities
    gives higher ones its highest lane."""
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""
    idempotency_key: str | None = None
    """A name that the publisher gives to the message: within the dedup window of the topic, the
    topic stores one message of this name."""
    delay_seconds: float | None = None
    """Seconds from now until the message is published; 0 and less is at once."""
    deliver_at: datetime | None = None
    """The time to publish it, instead of `delay_seconds`."""


class Receipt(msgspec.Struct, frozen=True):
    """The proof that a message is stored. A delayed message has its final id, and no offset yet."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    topic: str
    """The name of the topic that has the message."""
    partition: int
    """The number of the partition that has the message, from 0."""
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
    """The media type of the body; None where its publisher named none."""
    key: str | None = None
    """The key of the message; None where it has none."""
    attributes: dict[str, str] = {}
    """The attributes of the message; empty where it has none."""
    publisher_id: str | None = None
    """The id that the publisher gave itself; None where it gave none."""
    priority: int = 0
    """The priority of the message, from 0 to 9; 9 is the most urgent."""
    traceparent: str | None = None
    """W3C trace context, of a message that was published with one."""
    tracestate: str | None = None
    """W3C trace state, of a message that was published with one beside traceparent."""


class Message(Content, frozen=True, kw_only=True):
    """A leased message: ack it before its deadline, or it is delivered again."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    publish_time: datetime
    """The time at which it was published."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""
    ack_id: str | None
    """None where the message is acked already, as with at-most-once delivery."""
    attempt: int = 1
    """The number of its deliveries, with this one."""


class StoredMessage(Content, frozen=True, kw_only=True):
    """A message as it is stored, whether or not it is published yet. The content of a cancelled
    message may be gone."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    partition: int
    """The number of the partition, from 0."""
    state: str = "published"
    """`scheduled`: it is not published yet; `cancelled`: it never will be."""
    publish_time: datetime | None = None
    """The time at which it was published; None where it was not."""
    offset: int | None = None
    """The offset of the message in its lane; None where it was not published."""
    scheduled_for: datetime | None = None
    """The time that was given to a delayed message; None for other messages."""
    accepted_time: datetime | None = None
    """The time at which it was stored; given while it is not published."""


class DelayedMessage(msgspec.Struct, frozen=True):
    """A message that waits for its time."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    partition: int
    """The number of the partition that will have the message, from 0."""
    key: str | None
    """The key of the message; None where it has none."""
    scheduled_for: datetime
    """The time at which the message is to be published."""
    accepted_time: datetime
    """The time at which the message was stored."""
    content_type: str | None = None
    """The media type of the body; None where its publisher named none."""
    size_bytes: int = 0
    """The size of the body."""
    priority: int = 0
    """The priority of the message, from 0 to 9; 9 is the most urgent."""


class ReplayPage(msgspec.Struct, frozen=True):
    """Messages of a partition, in the order of their offsets."""

    messages: tuple[StoredMessage, ...]
    """The messages, in the order of their offsets."""
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
    """`pending`: it waits for its delivery; `leased`: a consumer has it; `settled`: it ended in one
    of `outcomes`; `scheduled`: it is not published yet. The others are the outcome."""
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
    """The name of the topic that the message is published to."""
    content_type: str | None = None
    """The media type of the body. None: `text/plain` for a string as `data`, JSON for other `data`,
    and none for `data_base64`."""
    key: str | None = None
    """The key of the message: messages of a topic with the same key are in the same partition, in
    order. None: it has none."""
    attributes: Mapping[str, str] | None = None
    """The attributes of the message, which filters can use; None: it has none."""
    priority: int = 0
    """The priority of the message, from 0 to 9; 9 is the most urgent. A topic with fewer priorities
    gives higher ones its highest lane."""
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""


class ItemFailure(Failure, msgspec.Struct, frozen=True):
    """The reason that one item failed, or one message of an item that names several."""

    index: int
    """The place of the item in the request, from 0."""
    status: int
    """The status that a request for this item alone would get."""
    type: str
    """The type of the problem."""
    ack_id: str | None = None
    """The ack id that the request named, where it named one; that of the one message where only
    this message of several failed."""
    message_id: str | None = None
    """The message id that the request named, where it named one."""
    detail: str = ""
    """The reason, for people."""


class ScheduleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message of each run. Runs add the attributes `packetboat-schedule` and
    `packetboat-scheduled-time`."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    content_type: str | None = None
    """The media type of the body. None: `text/plain` for a string as `data`, JSON for other `data`,
    and none for `data_base64`."""
    key: str | None = None
    """The key of the message: messages of a topic with the same key are in the same partition, in
    order. None: it has none."""
    attributes: Mapping[str, str] | None = None
    """The attributes of the message, up to 100; runs add theirs."""
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; None: never."""
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
    """The message that each run publishes, with either `data` or `data_base64`."""
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """The rule for runs that could not be made in their minute."""
    paused: bool
    """Whether the clock makes no runs of it."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


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
    """Names and values that you choose; servers only keep and show them."""


class ScheduledMessage(Content, frozen=True, kw_only=True):
    """The message of each run."""

    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; None: never."""


class Schedule(msgspec.Struct, frozen=True):
    """A message that is published by the clock."""

    name: str
    """The name of the schedule; that of the path, if it is given."""
    topic: str
    """The topic that its messages are published to."""
    cron: str
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduledMessage
    """The message that each run publishes, with either `data` or `data_base64`."""
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: str
    """The rule for runs that could not be made in their minute."""
    paused: bool
    """Whether the clock makes no runs of it."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    next_runs: tuple[datetime, ...] = ()
    """The times of the next runs; empty while it is paused."""
    last_run: datetime | None = None
    """The time of the last run, as planned; None before the first."""
    last_message_id: str | None = None
    """The id of the message of the last run; None before the first."""
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
    """The id of the message, the same for its publisher and for every consumer."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""


class FilterSample(msgspec.Struct, frozen=True):
    """A message that a filter was tried on."""

    message_id: str
    """The id of the message, the same for its publisher and for every consumer."""
    publish_time: datetime
    """The time at which it was published."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""
    key: str | None = None
    """The key of the message; None where it has none."""
    attributes: dict[str, str] = {}
    """The attributes of the message; empty where it has none."""


class FilterSamples(msgspec.Struct, frozen=True):
    """Some messages that match, and some others."""

    matched: tuple[FilterSample, ...] = ()
    """The newest messages that match, newest first."""
    unmatched: tuple[FilterSample, ...] = ()
    """The newest messages that do not match, newest first."""


class FilterChanges(msgspec.Struct, frozen=True):
    """Messages that another filter would treat otherwise than the present one, or than none."""

    newly_matched: int = 0
    """The number of messages that match this filter and do not match the present one."""
    no_longer_matched: int = 0
    """The number of messages that match the present filter and do not match this one."""


class FilterPreview(msgspec.Struct, frozen=True):
    """The effect of a filter on recent messages."""

    examined: int
    """The number of messages that the filter was tried on."""
    matched: int
    """The number of messages that match."""
    errors: int
    """Evaluations that failed or gave no boolean; such a message does not match."""
    samples: FilterSamples
    """Examples of messages that match, and of messages that do not."""
    changes: FilterChanges
    """The difference to the present filter of the subscription, or to none."""
    first_error: str | None = None
    """The error of the first evaluation that failed; None where none failed."""


class Throttle(msgspec.Struct, frozen=True):
    """A limit that slows a subscription now, beside its own settings."""

    kind: str
    """flow_messages_per_second and flow_max_outstanding: a consumer said so. machine: all
    deliveries of a forwarder together, messages a second. endpoint_messages_per_second,
    endpoint_requests, endpoint_pause: what the endpoint asked for. endpoint_breaker: it fails."""
    reason: str = ""
    """The reason for the limit, for people."""
    value: float | None = None
    """The limit, in the unit that its kind names; 0 stops deliveries."""
    until: datetime | None = None
    """None while its reason lasts."""


class PartitionBacklog(msgspec.Struct, frozen=True):
    """read_to - start = acked + filtered + skipped + expired + dead_lettered + exceptions +
    pending"""

    partition: int
    """The number of the partition, from 0."""
    messages: int
    """The number of messages that are not settled."""
    floor: int
    """The offset below which no message waits for its first ack."""
    read_to: int
    """One past the last offset that was read for delivery."""
    pending: int
    """The number of messages from the floor on that were read and are not settled."""
    lane: int | None = None
    """The priority; only where the topic has several."""
    start: int | None = None
    """The offset at which the subscription began, or to which it was moved last."""
    end: int | None = None
    """One past the last message; None until the store has told it."""
    exceptions: int | None = None
    """Open deliveries that the cursor has stepped over."""
    acked_ranges: int | None = None
    """The number of ranges of acked messages above the floor."""
    acked: int | None = None
    """The number of messages that were acked."""
    filtered: int | None = None
    """The number of messages that the filter did not match."""
    skipped: int | None = None
    """The number of messages that were skipped."""
    expired: int | None = None
    """The number of messages that expired, or that were gone from the topic before they were
    acked."""
    dead_lettered: int | None = None
    """The number of messages that became dead letters."""
    failure: str | None = None
    """The error for which the partition cannot be read now; None where there is none."""


class Backlog(msgspec.Struct, frozen=True):
    """The messages of a subscription that wait."""

    messages: int
    """Messages that are not acked yet."""
    leased: int
    """The number of messages that are leased to consumers now."""
    waiting_redelivery: int
    """The number of messages that wait for their back-off or for another attempt."""
    partitions: tuple[PartitionBacklog, ...]
    """The backlog of each partition, and of each lane where the topic has priorities."""
    waiting_pulls: int = 0
    """The number of pulls that wait for a message."""
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
    """The state of pushing; None where nothing of it is pushed."""


class CursorBooks(msgspec.Struct, frozen=True):
    """read_to − start = acked + filtered + skipped + expired + dead_lettered + open_deliveries +
    pending, and exceptions = open_deliveries."""

    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The lane of the partition: the priority of its messages, and 0 of a topic without
    priorities."""
    generation: int
    """The cursor generation, which each seek raises."""
    start: int
    """The offset at which the subscription began, or to which it was moved last."""
    floor: int
    """The offset below which no message waits for its first ack."""
    read_to: int
    """One past the last offset that was read for delivery."""
    acked: int
    """The number of messages that were acked."""
    filtered: int
    """The number of messages that the filter did not match."""
    skipped: int
    """The number of messages that were skipped."""
    expired: int
    """The number of messages that expired, or that were gone from the topic before they were
    acked."""
    dead_lettered: int
    """The number of messages that became dead letters."""
    exceptions: int
    """The number of messages below the floor that are not settled, as the cursor counts them."""
    open_deliveries: int
    """The number of rows of such messages; it equals `exceptions`."""
    pending: int
    """The number of messages from the floor on that were read and are not settled."""
    difference: int
    """The amount by which the sum is wrong; 0 where the books balance."""
    checked_at: datetime
    """The time of this reading."""


class Reconciliation(msgspec.Struct, frozen=True):
    """The answer whether every message is accounted for."""

    balanced: bool
    """Whether `difference` is 0 everywhere."""
    partitions: tuple[CursorBooks, ...]
    """The sums of each lane of each partition."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose attempts are used up, or that a consumer rejected."""

    id: str
    """The id of the dead letter in its subscription."""
    state: str
    """`open` until it is redriven or discarded."""
    reason: str
    """`exhausted`: its attempts are used up; `rejected`: a consumer rejected it."""
    attempts: int
    """The number of attempts that failed."""
    dead_at: datetime
    """The time at which it became a dead letter."""
    message_id: str
    """The id of the message as it was published."""
    partition: int
    """The number of the partition, from 0."""
    offset: int
    """The offset of the message in its lane."""
    publish_time: datetime
    """The time at which it was published."""
    size_bytes: int
    """The size of the body."""
    letter_id: str
    """The id of the message in the dead-letter topic."""
    detail: str | None = None
    """The last comment of a consumer."""
    first_at: datetime | None = None
    """The time of its first delivery."""
    last_at: datetime | None = None
    """The time of its last delivery; None where it was never delivered."""
    key: str | None = None
    """The key of the message; None where it has none."""
    attributes: dict[str, str] = {}
    """The attributes of the message; empty where it has none."""
    content_type: str | None = None
    """The media type of the body; None where its publisher named none."""
    redrive_id: str | None = None
    """The redrive that took it, or is to take it."""


class DeadLetterWithMessage(DeadLetter, frozen=True, kw_only=True):
    """A dead letter and its message."""

    message: StoredMessage | None = None
    """The message in the dead-letter topic; None when it is stored no more."""


class Undelivered(msgspec.Struct, frozen=True):
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""

    messages: int = 0
    """The number of these messages."""
    reason: str | None = None
    """The reason of the last failure; None where there is none."""


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters; `next_page_token` is None on the last."""

    items: tuple[DeadLetter, ...] = msgspec.field(name="dead_letters")
    """The dead letters of this page, oldest first."""
    examined: int = 0
    """The number of letters that the filter was tried on."""
    undelivered: Undelivered = Undelivered()
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""
    next_page_token: str | None = None
    """The `page_token` of the next page; None on the last page."""


class Discarded(msgspec.Struct, frozen=True):
    """The number of dead letters that were discarded."""

    discarded: int
    """The number of dead letters that were discarded."""
    complete: bool
    """Whether all were looked at; ask again while this is false."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to each message; members that are absent stay."""

    attributes: Mapping[str, str | None] | None = None
    """New values; None drops the attribute."""
    data: Data | msgspec.UnsetType = msgspec.UNSET
    """The new body."""
    content_type: str | None = None
    """The new media type of the body; None keeps that of the message."""
    key: str | msgspec.UnsetType | None = msgspec.UNSET
    """The new key; None drops the key."""


class Redrive(Redriving, msgspec.Struct, frozen=True):
    """Dead letters that are published again."""

    redrive_id: str
    """The id of the redrive."""
    state: str
    """The state of the redrive; `cancelling` until the scheduler has stopped it."""
    to: str
    """`subscription`, or the name of a topic."""
    total: int
    """The number of letters to redrive."""
    redriven: int
    """The number of letters that are published again."""
    failed: int
    """The number of letters whose message is stored no more."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    detail: str | None = None
    """The reason that it waits or failed, or the messages that could not be redriven."""
    filter: str | None = None
    """The CEL expression that chooses dead letters; None where none was given."""
    rate: float | None = None
    """Messages a second, at most."""


class DryRun(msgspec.Struct, frozen=True):
    """The dead letters that a redrive would publish."""

    matched: int
    """The number of dead letters that would be redriven, of those that were examined."""
    examined: int
    """The number of dead letters that were examined."""
    complete: bool
    """Whether all were examined."""
    sample: tuple[DeadLetter, ...] = ()
    """Examples of the dead letters that would be redriven, at most 5."""


class ParkedKey(msgspec.Struct, frozen=True):
    """A key that waits because its first message failed for good."""

    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The lane of the partition: the priority of its messages, and 0 of a topic without
    priorities."""
    attempts: int
    """The number of attempts of the first message that failed."""
    reason: str
    """The reason that the first message failed for good: `exhausted` or `rejected`."""
    waiting: int
    """Messages of the key behind it."""
    key: str | None = None
    """The key; None when the message is stored no more."""
    detail: str | None = None
    """The last comment of a consumer; None where there is none."""
    message_id: str | None = None
    """The id of the first message, at which the key stopped."""
    since: datetime | None = None
    """The time of the last delivery of the first message."""
