"""Pulling messages and settling them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    BODY_TIMEOUT,
    CONFLICT,
    HEARTBEAT_SECONDS,
    MAX_BYTES,
    MAX_SECONDS,
    OUTCOME_UNKNOWN,
    STORAGE_FULL,
    TOO_LARGE,
    WAIT_SECONDS,
    WORK_LIMITED,
    Message,
    MessageId,
    Positive,
)
from openapi.contract import (
    Answer,
    Body,
    OpenAnswer,
    Operation,
    Parameter,
    Success,
    lines,
    ok,
    table,
)
from openapi.publish import PublishedMessage

PAGE_TYPE = "application/vnd.packetboat.page"
"""The media type of a page of messages in binary."""
MAX_MESSAGES_AT_ONCE = 1000
MaxMessages = Annotated[int, Meta(ge=1, le=MAX_MESSAGES_AT_ONCE)]
ShortText = Annotated[str, Meta(max_length=1024)]
MAX_IDS = 1000
MessageIds = Annotated[list[ShortText], Meta(min_length=1, max_length=MAX_IDS)]
MAX_PARTITION = 65_535
MAX_PARTITIONS = 1000
"""The most partitions that one request names."""
DelaySeconds = Annotated[float, Meta(ge=0, le=43_200)]


class Delivery(Message, kw_only=True):
    """A leased message: ack it before its deadline, or it is delivered again."""

    ack_id: str | None
    """Null where the message is acked already, as with at-most-once delivery."""
    attempt: Positive
    """The number of its deliveries, with this one."""


class Pulled(Answer):
    """The answer to a pull."""

    messages: list[Delivery]
    """The leased messages; empty where none came in time."""


class StreamTicket(OpenAnswer):
    """A ticket that opens one subscription's stream for a minute, without a header."""

    ticket: str
    """The value of the query parameter `ticket` of the stream."""
    expires_at: datetime
    """The time until which it opens streams; an open stream goes on."""
    path: str
    """The stream's path and query with the ticket; more parameters may be added behind it."""


class PullRequest(Body):
    """A request for messages."""

    max_messages: MaxMessages = 10
    """The most messages of the answer."""
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for the first message; with 0 the answer comes at once."""
    max_bytes: Annotated[int, Meta(ge=1, le=8_388_608)] | UnsetType = UNSET
    """The most bytes of data in the answer, 8 MiB where it is left out; one message is always
    given."""
    min_messages: MaxMessages = 1
    """The number of messages to wait for, up to `max_messages`."""
    consumer: Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")] | UnsetType = UNSET
    """The name of the consumer, to which the rate limit of each consumer applies."""
    partitions: (
        Annotated[
            list[Annotated[int, Meta(ge=0, le=MAX_PARTITION)]],
            Meta(min_length=1, max_length=MAX_PARTITIONS),
        ]
        | UnsetType
    ) = UNSET
    """Only messages of these partitions, not together with `affinity`; all where it is left out."""
    affinity: bool = False
    """Only messages of the partitions that are dealt to this consumer, which needs a name."""


class Output(PublishedMessage, kw_only=True):
    """A message that is published with an ack."""

    topic: str
    """The name of the topic that the message is published to."""


MAX_OUTPUTS = 100
OUTPUTS_LIMITS = Meta(
    min_length=1,
    max_length=MAX_OUTPUTS,
    description=(
        "Messages published with the ack, both or neither. The ids must then be of one partition "
        "(and priority)."
    ),
)
Outputs = Annotated[list[Output], OUTPUTS_LIMITS]


class MessageChoice(Body):
    """A choice of leased messages, by one of the four fields."""

    EXACTLY_ONE: ClassVar[tuple[str, ...]] = ("ack_ids", "message_ids", "ack_id", "message_id")
    message_id: ShortText | UnsetType = UNSET
    """The id of the one message."""
    ack_id: ShortText | UnsetType = UNSET
    """The ack id of the one delivery."""
    message_ids: MessageIds | UnsetType = UNSET
    """The ids of the messages."""
    ack_ids: MessageIds | UnsetType = UNSET
    """The ack ids of the deliveries, of 1,000 messages at most; one id may name several messages of
    a page."""


class AckRequest(MessageChoice):
    publish: Outputs | UnsetType = UNSET


class ItemFailure(OpenAnswer, kw_only=True):
    """The reason that one item failed, or one message of an item that names several."""

    index: int
    """The place of the item in the request, from 0."""
    ack_id: str | UnsetType = UNSET
    """The ack id that the request named, where it named one; that of the one message where only
    this message of several failed."""
    message_id: str | UnsetType = UNSET
    """The message id that the request named, where it named one."""
    status: int
    """The status that a request for this item alone would get."""
    type: str
    """The type of the problem."""
    detail: str | UnsetType = UNSET
    """The reason, for people."""


class AckedOutput(Answer):
    """A message that was published with an ack."""

    message_id: MessageId


class Acked(Answer):
    """The result of an ack."""

    acked: int
    """The number of messages that are acked, those that were acked before included."""
    results: list[ItemFailure]
    """The items that failed; empty where none did."""
    published: list[AckedOutput] | UnsetType = UNSET
    """The messages of an ack that publishes, in the order given; empty when it is a duplicate."""
    duplicate: bool | UnsetType = UNSET
    """Whether the messages of an ack that publishes had been acked before; then nothing was
    published now."""


class NackRequest(MessageChoice):
    delay_seconds: DelaySeconds | None = None
    """Absent or null, the back-off of the retry policy."""
    reason: ShortText | None = None
    """The reason of the failure, for people: a dead letter and the state of the message show it."""


class Done(Answer):
    """The result of a nack, reject, release or change of deadlines."""

    done: int
    """The number of messages that it was done for."""
    results: list[ItemFailure]
    """The items that failed; empty where none did."""


class RejectRequest(MessageChoice):
    reason: ShortText | None = None
    """The reason, for people: the dead letter shows it."""


class ReleaseRequest(MessageChoice):
    pass


class ModifyRequest(MessageChoice, kw_only=True):
    deadline_seconds: DelaySeconds
    """Seconds from now until the lease ends; 0 ends it at once."""


MAX_MESSAGES = Parameter(
    "max_messages", "max_messages", "query", "Most messages of the answer.", MaxMessages, default=10
)
MIN_MESSAGES = Parameter(
    "min_messages",
    "min_messages",
    "query",
    "The number of messages to wait for, up to `wait_seconds`; at most `max_messages`.",
    MaxMessages,
    default=1,
)
CONSUMER = Parameter(
    "consumer",
    "consumer",
    "query",
    "The consumer's name for itself, to which the rate limit of a consumer applies.",
    Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")],
)
PARTITIONS = Parameter(
    "partitions",
    "partitions",
    "query",
    (
        "Only messages of these partitions, up to 1,000 numbers with commas between; not "
        "with `affinity`. docs/guides/affinity.md."
    ),
    Annotated[str, Meta(pattern=r"^[0-9]{1,5}(,[0-9]{1,5})*\Z")],
)
AFFINITY = Parameter(
    "affinity",
    "affinity",
    "query",
    ("Only messages of the partitions that are dealt to this consumer, which needs a name."),
    bool,
    default=False,
)
PACKETBOAT_CONSUMER = Parameter(
    "packetboat_consumer",
    "Packetboat-Consumer",
    "header",
    "As `consumer`, where that is not given.",
    Annotated[str, Meta(pattern=r"^[!-~]{1,128}\Z")],
)
MAX_OUTSTANDING_MESSAGES = Parameter(
    "max_outstanding_messages",
    "max_outstanding_messages",
    "query",
    "Most messages that are delivered on the stream and still leased.",
    Annotated[int, Meta(ge=1, le=10_000)],
    default=100,
)
MAX_OUTSTANDING_BYTES = Parameter(
    "max_outstanding_bytes",
    "max_outstanding_bytes",
    "query",
    "Most bytes of their data; the last message may be over it.",
    Annotated[int, Meta(ge=1, le=67_108_864)],
    default=8_388_608,
)
TICKET = Parameter(
    "ticket",
    "ticket",
    "query",
    "A ticket of `createStreamTicket`, instead of an Authorization header.",
    Annotated[str, Meta(max_length=8192)],
)

PULLED = Success(
    200,
    (
        "Leased messages; none when there were none in time. JSON, or by `Accept` a page in "
        "binary, whose form docs/guides/pull.md has."
    ),
    Pulled,
    others={PAGE_TYPE: Annotated[str, Meta(extra_json_schema={"format": "binary"})]},
)

OPERATIONS = table(
    "consume",
    Operation(
        id="pull",
        route="GET /subscriptions/{name}/messages",
        needs="consume subscription:name",
        summary="Pull messages",
        description=(
            "Answered at once when a message is there, else after `wait_seconds`. Each message "
            "is leased: invisible to others until its ack deadline, then delivered again. 409 "
            "of a subscription that pushes."
        ),
        parameters=(
            MAX_MESSAGES,
            WAIT_SECONDS,
            MAX_BYTES,
            MIN_MESSAGES,
            CONSUMER,
            PARTITIONS,
            AFFINITY,
            PACKETBOAT_CONSUMER,
        ),
        answers=(PULLED,),
        problems=(CONFLICT,),
        head=False,
    ),
    Operation(
        id="pullTopicSubscription",
        route="GET /topics/{topic}/subscriptions/{name}/messages",
        needs="consume subscription:name",
        summary="Pull messages",
        description=(
            "Answered at once when a message is there, else after `wait_seconds`. Each message "
            "is leased: invisible to others until its ack deadline, then delivered again. 409 "
            "of a subscription that pushes."
        ),
        parameters=(
            MAX_MESSAGES,
            WAIT_SECONDS,
            MAX_BYTES,
            MIN_MESSAGES,
            CONSUMER,
            PARTITIONS,
            AFFINITY,
            PACKETBOAT_CONSUMER,
        ),
        answers=(PULLED,),
        problems=(CONFLICT,),
        head=False,
    ),
    Operation(
        id="stream",
        route="GET /subscriptions/{name}/messages:stream",
        needs="consume subscription:name",
        summary="Stream messages",
        description=(
            "Messages as they come, until the client or the server ends it; "
            "docs/guides/streaming.md has the lines. Each message is leased as with a pull, "
            "and acked over any other connection."
        ),
        parameters=(
            MAX_OUTSTANDING_MESSAGES,
            MAX_OUTSTANDING_BYTES,
            HEARTBEAT_SECONDS,
            MAX_SECONDS,
            CONSUMER,
            PARTITIONS,
            AFFINITY,
            TICKET,
            PACKETBOAT_CONSUMER,
        ),
        answers=(
            lines(
                "Lines, the first a heartbeat and the last an end. NDJSON, or "
                "Server-Sent Events for clients that accept these."
            ),
        ),
        problems=(
            CONFLICT,
            TOO_LARGE,
        ),
        head=False,
    ),
    Operation(
        id="createStreamTicket",
        route="POST /subscriptions/{name}/stream_tickets",
        needs="consume subscription:name",
        summary="Make a ticket that opens the stream",
        description=(
            "For a client that sends no header, as a browser's EventSource: the ticket stands "
            "for the caller's token, and for a minute opens this subscription's stream alone. "
            "404 where tickets are not switched on (`PACKETBOAT_STREAM_TICKETS`)."
        ),
        answers=(Success(201, "The ticket, which is shown this once.", StreamTicket),),
        problems=(
            BODY_TIMEOUT,
            TOO_LARGE,
        ),
        never=(OUTCOME_UNKNOWN,),
    ),
    Operation(
        id="streamTopicSubscription",
        route="GET /topics/{topic}/subscriptions/{name}/messages:stream",
        needs="consume subscription:name",
        summary="Stream messages",
        description=(
            "Messages as they come, until the client or the server ends it; "
            "docs/guides/streaming.md has the lines. Each message is leased as with a pull, "
            "and acked over any other connection."
        ),
        parameters=(
            MAX_OUTSTANDING_MESSAGES,
            MAX_OUTSTANDING_BYTES,
            HEARTBEAT_SECONDS,
            MAX_SECONDS,
            CONSUMER,
            PARTITIONS,
            AFFINITY,
            PACKETBOAT_CONSUMER,
        ),
        answers=(
            lines(
                "Lines, the first a heartbeat and the last an end. NDJSON, or "
                "Server-Sent Events for clients that accept these."
            ),
        ),
        problems=(
            CONFLICT,
            TOO_LARGE,
        ),
        head=False,
    ),
    Operation(
        id="pullPost",
        route="POST /subscriptions/{name}:pull",
        needs="consume subscription:name",
        summary="Pull messages",
        description=(
            "Answered at once when a message is there, else after `wait_seconds`. Each message "
            "is leased: invisible to others until its ack deadline, then delivered again. 409 "
            "of a subscription that pushes."
        ),
        body=PullRequest,
        body_required=False,
        answers=(PULLED,),
    ),
    Operation(
        id="ack",
        route="POST /subscriptions/{name}/ack",
        needs="consume subscription:name",
        summary="Acknowledge messages",
        description=(
            "200 means that the acks are committed in Postgres. `acked` counts those already "
            "acked too; `results` holds failures only. With `publish` the messages in it "
            "become readable if and only if the ack is committed, and an id that may not be "
            "acked fails the request."
        ),
        body=AckRequest,
        answers=(ok(Acked, "How many were done, and the failures among them."),),
        problems=(
            CONFLICT,
            WORK_LIMITED,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="nack",
        route="POST /subscriptions/{name}/nack",
        needs="consume subscription:name",
        summary="Give messages back as failed",
        description=(
            "Delivered again after `delay_seconds` or the back-off of the retry policy; the "
            "attempt counts. Answered once that is committed."
        ),
        body=NackRequest,
        answers=(ok(Done, "How many were done, and the failures among them."),),
    ),
    Operation(
        id="reject",
        route="POST /subscriptions/{name}/reject",
        needs="consume subscription:name",
        summary="Send messages to the dead letters",
        description="They are not delivered again; answered once that is committed.",
        body=RejectRequest,
        answers=(ok(Done, "How many were done, and the failures among them."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="release",
        route="POST /subscriptions/{name}/release",
        needs="consume subscription:name",
        summary="Give messages back",
        description="Delivered again at once; the attempt does not count.",
        body=ReleaseRequest,
        answers=(ok(Done, "How many were done, and the failures among them."),),
    ),
    Operation(
        id="modifyAckDeadline",
        route="POST /subscriptions/{name}/modify_ack_deadline",
        needs="consume subscription:name",
        summary="Move the ack deadline",
        description="The lease ends `deadline_seconds` from now.",
        body=ModifyRequest,
        answers=(ok(Done, "How many were done, and the failures among them."),),
    ),
)
