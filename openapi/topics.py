"""Topics, their partitions and their delayed messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    FORBIDDEN_OR_FULL,
    FORCE,
    HELD,
    IF_MATCH,
    MAX_BYTES,
    STORAGE_FULL,
    WAIT_SECONDS,
    ContentType,
    Count,
    CreatedAt,
    Filter,
    FilterPreview,
    FilterPreviewRequest,
    HoldList,
    Labels,
    Message,
    MessageId,
    MessageKey,
    Name,
    NextPageToken,
    PartitionNumber,
    Problem,
    Total,
    UpdatedAt,
    created,
)
from openapi.contract import (
    Answer,
    Body,
    OpenAnswer,
    Operation,
    Parameter,
    Refusal,
    Success,
    no_content,
    ok,
    table,
)
from openapi.patch import patch_of
from openapi.publish import MAX_PRIORITY, NOT_SUPPORTED, Delay, Moment

Priorities = Annotated[int, Meta(ge=1, le=MAX_PRIORITY + 1)]
Mode = Literal["consume", "retain"]
Seconds = Annotated[int, Meta(ge=600, le=31_536_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**53)]
OnLimit = Literal["refuse", "expire_oldest"]
PlacementKind = Literal["move", "grow"]
"""A `move` puts one partition into another group. A `grow` gives the topic more partitions, and
spreads every key over all of them from then on."""
PartitionsValue = Annotated[int, Meta(ge=1, le=256)]
DedupWindowSeconds = Annotated[int, Meta(ge=0, le=86_400)]


class Retention(Body):
    """The rule by which messages are kept. Where nothing holds them (no subscription), the limits
    alone decide."""

    mode: Mode = "consume"
    """`consume`: a message goes once every subscription is done with it; `retain`: by age and
    bytes."""
    seconds: Seconds | None = None
    """Seconds after which a message goes, acked or not. Null: seven days."""
    bytes: Bytes | None = None
    """The size limit, over all partitions. Null: the storage limit of the tenant."""
    on_limit: OnLimit = "refuse"
    """The rule for messages that are not acked and reach a limit of age or bytes. `refuse`:
    publishes are answered 507 until there is room; `expire_oldest`: the oldest go, and are
    counted as expired by each subscription that had not acked them."""


class TopicPut(Body):
    """The whole topic. Name, partitions and priorities cannot be changed and may be left out."""

    FIXED = ("name", "partitions", "priorities")
    name: Name | UnsetType = UNSET
    """The name of the topic, unique in the tenant."""
    partitions: PartitionsValue | UnsetType = UNSET
    """The number of partitions, which only the operation that grows them changes."""
    priorities: Priorities | UnsetType = UNSET
    """The number of lanes of each partition, for good; partitions times priorities is at most
    1024."""
    retention: Retention = msgspec.field(default_factory=Retention)
    """The rule by which messages are kept; each field of it has a default."""
    dedup_window_seconds: DedupWindowSeconds = 600
    """Seconds for which idempotency keys are remembered; 0 turns deduplication off."""
    ack_history: bool = False
    """Whether it is kept when each message was settled, and how, for as long as messages may be
    kept."""
    schema: str | None = None
    """The name of a schema that bodies must fit."""
    labels: Labels = {}


TopicPatch = patch_of(TopicPut)


class TopicCreate(TopicPut, kw_only=True):
    """A request to create a topic."""

    name: Name
    partitions: PartitionsValue = 4
    """The number of partitions; it can grow later."""
    priorities: Priorities = 1


class TopicRetention(Retention, Answer):
    """The rule by which messages are kept."""


class Topic(TopicPut, Answer, kw_only=True):
    """A named stream."""

    retention: TopicRetention
    full: str | None
    """The reason that publishes are answered 507 now, and a way to make room; null while there is
    room."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class TopicPage(Answer):
    """One page of topics."""

    topics: list[Topic]
    """The topics of this page, by name."""
    next_page_token: NextPageToken


class TopicGrow(Body):
    """A request for more partitions."""

    partitions: PartitionsValue
    """The new number of partitions; never fewer than now."""


class PartitionGeneration(OpenAnswer):
    """A stretch of a partition that one group of store nodes holds."""

    partition: PartitionNumber
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    generation: int
    """Grows with each move or growth; a sealed one stays until its messages are trimmed."""
    group: int
    """The group of store nodes that holds it."""
    state: Literal["open", "sealed"]
    """Whether new messages are appended to it; a `sealed` one takes no more."""
    base: int
    """The first offset ever; the generation before ended there."""
    first: int | None
    """The first offset kept; null, as the next two, while its group does not answer."""
    end: int | None
    """One past the last offset."""
    stored_bytes: int | None
    """The size of the messages in it; null while its group does not answer."""


class Placement(OpenAnswer):
    """A move or growth that is not finished."""

    kind: PlacementKind
    """The change: the move of a partition to another group, or the growth of the topic."""
    partitions: list[int]
    """The partitions that get a new generation."""
    groups: list[int]
    """The new group of each of these partitions."""


class Partitions(OpenAnswer):
    """The places of a topic's partitions."""

    partitions: list[PartitionGeneration]
    """The queue generations of each partition, sealed ones too."""
    placement: Placement | None
    """A move or growth that is not finished."""


class DelayedMessage(Answer):
    """A message that waits for its time."""

    message_id: MessageId
    partition: Count
    """The number of the partition that will have the message, from 0."""
    key: MessageKey | None
    scheduled_for: Moment
    """The time at which the message is to be published."""
    accepted_time: Moment
    """The time at which the message was stored."""
    content_type: ContentType | None
    size_bytes: Count
    """The size of the body."""
    priority: Annotated[int, Meta(ge=0, le=9)]
    """The priority of the message, from 0 to 9; 9 is the most urgent."""


class DelayedPage(Answer):
    """One page of delayed messages."""

    messages: list[DelayedMessage]
    """The delayed messages of this page."""
    next_page_token: NextPageToken


class PartitionMove(Body):
    """A request to move a partition."""

    group: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    """The group of store nodes that is to hold the partition."""


class StoredMessage(OpenAnswer):
    """A message as it is stored, whether or not it is published yet. The content of a cancelled
    message may be gone."""

    DESCRIBED_BY = Message

    message_id: str
    state: Literal["scheduled", "published", "cancelled"]
    """`scheduled`: it is not published yet; `cancelled`: it never will be."""
    publish_time: datetime | None
    """The time at which it was published; null where it was not."""
    partition: int
    offset: int | None
    """The offset of the message in its lane; null where it was not published."""
    data: Any = UNSET
    data_base64: str | UnsetType = UNSET
    content_type: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    attributes: dict[str, str] | UnsetType = UNSET
    publisher_id: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    scheduled_for: datetime | UnsetType | None = UNSET
    """The time that was given to a delayed message; null for other messages."""
    accepted_time: datetime | UnsetType = UNSET
    """The time at which it was stored; given while it is not published."""
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


class Reschedule(Body):
    """A new time for a delayed message, given by one of the two fields."""

    EXACTLY_ONE: ClassVar[tuple[str, ...]] = ("deliver_at", "delay_seconds")
    delay_seconds: Delay | UnsetType = UNSET
    """Seconds from now until the message is published; 0 and less is at once."""
    deliver_at: Moment | UnsetType = UNSET
    """The time to publish it, instead of `delay_seconds`; one in the past is at once."""


class Rescheduled(Answer):
    """A delayed message with its new time."""

    message_id: MessageId
    topic: str
    """The name of the topic of the message."""
    partition: PartitionNumber
    scheduled_for: Moment
    """The new time at which the message is to be published."""


Outcome = Literal["acked", "filtered", "skipped", "expired"]


class AckState(Answer):
    """The state of a message in one subscription."""

    state: Literal[
        "acked",
        "pending",
        "leased",
        "dead_lettered",
        "expired",
        "filtered",
        "skipped",
        "settled",
        "scheduled",
    ]
    """`pending`: it waits for its delivery; `leased`: a consumer has it; `settled`: it ended in one
    of `outcomes`; `scheduled`: it is not published yet. The others are the outcome."""
    outcomes: list[Outcome] | UnsetType = UNSET
    """The possible outcomes of a message that is `settled`, where the topic keeps no `ack_history`
    that says which."""
    attempts: Count | UnsetType = UNSET
    """The number of attempts that ended without an ack, and the present one of a leased message;
    given for pending, leased and dead-lettered messages."""
    settled_at: datetime | UnsetType = UNSET
    """The time of the outcome, where the topic keeps its ack history, and of dead letters."""
    reason: str | UnsetType = UNSET
    """The reason that the message is still pending, or was dead-lettered."""
    detail: str | UnsetType = UNSET
    """The comment of the consumer."""
    not_before: datetime | UnsetType = UNSET
    """The end of the back-off, or the time of a delayed message."""


class AckStates(Answer):
    """The states of a message."""

    subscriptions: dict[str, AckState]
    """The state of the message for each subscription of its topic that the caller may read, by
    name."""


class Replayed(Answer):
    """Messages of a partition, in the order of their offsets."""

    messages: list[Message]
    """The messages, in the order of their offsets."""
    next_offset: int
    """The offset from which the next read goes on."""
    first_offset: int
    """The first offset stored."""
    end_offset: int
    """One past the last."""


class PartitionOffsets(Answer):
    """Offsets of a partition."""

    first: int
    """The first offset stored."""
    end: int
    """One past the last offset."""
    at: int
    """The offset of the first message that is not older than the time asked for."""


RELEASED = Refusal("Released", 409, "The message waits no longer.", Problem)
REPLAYED = 100
"""The most messages of a page of a replay that names no limit."""
MAX_STREAMED = 1_000_000
"""The most messages of one stream of a replay."""
REPLAY_OFFSET = Parameter(
    "replay_offset",
    "offset",
    "query",
    "The first offset to read; without it and without a time, the first there is.",
    Total,
)
REPLAY_END_OFFSET = Parameter(
    "replay_end_offset",
    "end_offset",
    "query",
    "One past the last offset to read; without it, to the end.",
    Total,
)
REPLAY_TIME = Parameter(
    "replay_time",
    "time",
    "query",
    "From the first message that is not older; not beside an offset.",
    datetime,
)
LANE = Parameter(
    "lane",
    "lane",
    "query",
    "The priority, in a topic with priorities; each has offsets of its own.",
    Annotated[int, Meta(ge=0, le=9)],
    default=0,
)
REPLAY_MAX_MESSAGES = Parameter(
    "replay_max_messages",
    "max_messages",
    "query",
    (
        f"Most messages; {REPLAYED} where it is not given, a million of a stream. "
        "JSON holds at most 1,000."
    ),
    Annotated[int, Meta(ge=1, le=MAX_STREAMED)],
)
REPLAY_FILTER = Parameter(
    "replay_filter",
    "filter",
    "query",
    "A CEL expression; only messages for which it is true are given.",
    Annotated[Filter, Meta(min_length=1)],
)
OFFSET_TRUNCATED = Refusal(
    "OffsetTruncated",
    410,
    "Nothing is stored there any more; `first_offset` is where the partition begins.",
    Problem,
)
REQUIRED_TIME = Parameter(
    "required_time", "time", "query", "The time to look for.", datetime, required=True
)

OPERATIONS = table(
    "topics",
    Operation(
        id="listTopics",
        route="GET /topics",
        needs="read topic:?",
        summary="List topics",
        paged=True,
        answers=(ok(TopicPage, "One page, by name."),),
    ),
    Operation(
        id="createTopic",
        route="POST /topics",
        needs="manage topic:?",
        summary="Create a topic",
        description=(
            "Answered once every partition's queue exists in the store. Repeating a request "
            "that was answered 503 or 504 finishes it."
        ),
        body=TopicCreate,
        answers=(created(Topic, "The topic; usable at every process at once."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="getTopic",
        route="GET /topics/{topic}",
        needs="read topic:topic",
        summary="Get a topic",
        answers=(ok(Topic, "The topic.", ETAG),),
    ),
    Operation(
        id="putTopic",
        route="PUT /topics/{topic}",
        needs="manage topic:topic",
        summary="Create or change a topic",
        description=(
            "As often as wanted with the same outcome. A field that is left out gets its "
            "default, but for name, partitions and priorities, which cannot be changed."
        ),
        parameters=(IF_MATCH,),
        body=TopicPut,
        answers=(
            ok(Topic, "The topic is now as the body says.", ETAG),
            created(Topic, "The topic was not there; usable at every process at once."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="patchTopic",
        route="PATCH /topics/{topic}",
        needs="manage topic:topic",
        summary="Change a topic",
        description=(
            "Retention, dedup window, labels, schema and ack history change in place, at every "
            "process within 2 s."
        ),
        parameters=(IF_MATCH,),
        body=TopicPatch,
        answers=(ok(Topic, "The topic as it is now.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="deleteTopic",
        route="DELETE /topics/{topic}",
        needs="manage topic:topic",
        summary="Delete a topic",
        description=(
            "Refused while something would be lost, unless forced; `holds` of the problem "
            "names it, with counts. That is messages that a subscription has not acked, "
            "delayed messages, messages that an export has not taken, snapshots and open dead "
            "letters. A topic made again under the same name shares nothing with this one."
        ),
        parameters=(
            IF_MATCH,
            FORCE,
        ),
        answers=(no_content("Gone, with its messages and subscriptions; the name is free."),),
        problems=(
            HELD,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="growTopic",
        route="POST /topics/{topic}:grow",
        needs="manage topic:topic",
        summary="Give a topic more partitions",
        description=(
            "Publishing goes on. From then on keys are spread over all partitions; a message "
            "of a key that was published after the growth is first delivered after those "
            "published before."
        ),
        body=TopicGrow,
        answers=(
            ok(Partitions, "The topic has that many partitions."),
            Success(
                202,
                (
                    "Begun, and finished by the server as soon as the groups that hold "
                    "the partitions answer; repeat the request to wait for it."
                ),
                Partitions,
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listTopicHolds",
        route="GET /topics/{topic}/holds",
        needs="manage topic:topic",
        summary="Ask for the losses that a delete would cause",
        description=(
            "Counted as a delete counts it, which is refused without `force` while there is any."
        ),
        answers=(ok(HoldList, "All that holds it; none when it can be deleted."),),
    ),
    Operation(
        id="listDelayedMessages",
        route="GET /topics/{topic}/delayed",
        needs="read topic:topic",
        summary="List the messages that wait for their time",
        description=(
            "By partition, and there in the order in which they were accepted, as the store "
            "has them now. A page may have fewer than were asked for while there are more; the "
            "last one has no token."
        ),
        paged=True,
        answers=(ok(DelayedPage, "A page."),),
    ),
    Operation(
        id="listPartitions",
        route="GET /topics/{topic}/partitions",
        needs="read topic:topic",
        summary="List a topic's partitions and where they are",
        answers=(ok(Partitions, "All generations, by partition and lane, the open one last."),),
    ),
    Operation(
        id="movePartition",
        route="POST /topics/{topic}/partitions/{partition}:move",
        needs="manage topic:topic",
        summary="Move a partition to another group of store nodes",
        description=(
            "Publishing goes on, in order; stored messages stay where they are and are read there."
        ),
        body=PartitionMove,
        answers=(
            ok(Partitions, "New messages of the partition are stored in that group."),
            Success(
                202,
                (
                    "Begun, and finished by the server as soon as both groups answer; "
                    "repeat the request to wait for it."
                ),
                Partitions,
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="getMessage",
        route="GET /topics/{topic}/messages/{id}",
        needs="read topic:topic",
        summary="Get a message",
        answers=(ok(StoredMessage, "The message, and whether it is published."),),
    ),
    Operation(
        id="getMessageAck",
        route="GET /topics/{topic}/messages/{id}/ack",
        needs="read topic:topic",
        summary="State of a message per subscription",
        description=(
            "Pending, leased and dead-lettered are always exact, as of the last commit. How a "
            "message was settled otherwise is exact where the topic keeps its `ack_history` "
            "(and did then), or where its subscription settled all alike; else it is "
            "`settled`, and `outcomes` says how it can have been. A delayed message is "
            "`scheduled` until its time comes."
        ),
        answers=(ok(AckStates, "Each subscription of the topic, by name."),),
    ),
    Operation(
        id="previewTopicFilter",
        route="POST /topics/{topic}:preview_filter",
        needs="read topic:topic",
        summary="Try a filter on recent messages",
        body=FilterPreviewRequest,
        answers=(ok(FilterPreview, "The effect of the filter."),),
    ),
    Operation(
        id="replay",
        route="GET /topics/{topic}/partitions/{partition}/messages",
        needs="read topic:topic",
        summary="Read messages again",
        description=(
            "From an offset or a time on, or from the first. No ack state is looked at or changed."
        ),
        parameters=(
            REPLAY_OFFSET,
            REPLAY_END_OFFSET,
            REPLAY_TIME,
            LANE,
            REPLAY_MAX_MESSAGES,
            MAX_BYTES,
            WAIT_SECONDS,
            REPLAY_FILTER,
        ),
        answers=(
            Success(
                200,
                (
                    "Messages by offset. JSON, or by `Accept` a stream - NDJSON with a "
                    "message a line, or Arrow record batches."
                ),
                Replayed,
                others={
                    "application/x-ndjson": str,
                    "application/vnd.apache.arrow.stream": Annotated[
                        str, Meta(extra_json_schema={"format": "binary"})
                    ],
                },
            ),
        ),
        problems=(
            OFFSET_TRUNCATED,
            NOT_SUPPORTED,
        ),
        head=False,
    ),
    Operation(
        id="offsetsOfPartition",
        route="GET /topics/{topic}/partitions/{partition}/offsets",
        needs="read topic:topic",
        summary="Where a time is",
        parameters=(
            REQUIRED_TIME,
            LANE,
        ),
        answers=(
            ok(
                PartitionOffsets,
                (
                    "The first offset stored, one past the last, and the first that is "
                    "not older than the time."
                ),
            ),
        ),
    ),
) | table(
    "publish",
    Operation(
        id="cancelMessage",
        route="DELETE /topics/{topic}/messages/{id}",
        needs="publish topic:topic",
        summary="Cancel a delayed message",
        description="Cancelling it twice is no error.",
        answers=(no_content("It will not be published."),),
        problems=(
            RELEASED,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="rescheduleMessage",
        route="PATCH /topics/{topic}/messages/{id}",
        needs="publish topic:topic",
        summary="Change the time of a delayed message",
        body=Reschedule,
        answers=(ok(Rescheduled, "It will be published then."),),
        problems=(
            RELEASED,
            STORAGE_FULL,
        ),
    ),
)
