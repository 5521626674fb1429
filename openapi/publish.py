"""Publishing messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    RETRY_AFTER,
    STORAGE_FULL,
    Count,
    MessageId,
    Name,
    Problem,
)
from openapi.contract import (
    Answer,
    Body,
    Header,
    OpenBody,
    Operation,
    Parameter,
    Refusal,
    Success,
    ok,
    table,
)

MAX_KEY_BYTES = 1024
MAX_ID_BYTES = 256
"""Bytes of a publisher id, an idempotency key, a content type, or a traceparent."""
MAX_ATTRIBUTES = 100
MAX_ATTRIBUTE_NAME_BYTES = 256
MAX_ATTRIBUTE_BYTES = 1024
MAX_PRIORITY = 9
MAX_DELAY_S = 365 * 86_400
MAX_TTL_S = 365 * 86_400
MAX_BATCH_MESSAGES = 1000
MAX_SEQUENCE = 2**63 - 1

Id = Annotated[str, Meta(min_length=1, max_length=1024)]
Datacontenttype = Annotated[str, Meta(max_length=256)]
Dataschema = Annotated[str, Meta(max_length=1024)]
Durability = Literal["quorum", "all"]
EarlyDurability = Literal["leader", "none"]
"""Answers are given before the message is durable."""
ShortText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_ID_BYTES})]
Key = Annotated[
    str,
    Meta(
        description=(
            "The key of the message: messages of a topic with the same key are in the same "
            "partition, in order. Null: it has none."
        ),
        extra_json_schema={"minLength": 1, "maxLength": MAX_KEY_BYTES},
    ),
]
"""Servers count the bytes of a text and of a key themselves."""
AttributeValue = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_ATTRIBUTE_BYTES})]
Attributes = Annotated[
    dict[str, AttributeValue],
    Meta(
        description="The attributes of the message, which filters can use; null: it has none.",
        extra_json_schema={"maxProperties": MAX_ATTRIBUTES},
    ),
]
"""Servers check attributes themselves, with a refusal that names the attribute."""
Priority = Annotated[int, Meta(ge=0, le=MAX_PRIORITY)]
Delay = Annotated[float, Meta(le=MAX_DELAY_S)]
Ttl = Annotated[float, Meta(gt=0, le=MAX_TTL_S)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time of RFC 3339 that servers read and write themselves, the same in a body as in a header: the
digits after a microsecond are ignored, and an answer has six digits after the second."""


class CloudEvent(OpenBody):
    """A CloudEvent 1.0 in JSON. Its other members are extensions, named with small letters and
    digits."""

    EXTRA: ClassVar[dict[str, Any]] = {
        "additionalProperties": {"type": ["string", "boolean", "integer", "null"]}
    }
    specversion: Literal["1.0"]
    """The version of CloudEvents."""
    id: Id
    """The id of the event, which its source gives to no other one."""
    source: Id
    """The origin of the event, as a URI or a path."""
    type: Id
    """The kind of the event."""
    datacontenttype: Datacontenttype | None = None
    """The media type of `data`; without one it is JSON."""
    dataschema: Dataschema | None = None
    """The URI of the schema of `data`."""
    subject: Dataschema | None = None
    """The thing in the source that the event is about."""
    time: datetime | None = None
    """The time of the event, by its source."""
    data: Any = UNSET
    """JSON, or a string where datacontenttype is no JSON type."""
    data_base64: bytes | None = None
    """The body in base64, instead of `data`."""


class Receipt(Answer):
    """The proof that a message is stored. A delayed message has its final id, and no offset yet."""

    message_id: MessageId
    topic: Name
    """The name of the topic that has the message."""
    partition: Count
    """The number of the partition that has the message, from 0."""
    offset: Count | None
    """Null while the message waits to be published."""
    publish_time: datetime | None
    """Null while the message waits to be published, and for a duplicate of a message that is gone.
    """
    duplicate: bool
    """Whether the message was known by its idempotency key or its batch; the receipt is then that
    of the first one."""
    scheduled_for: Moment | UnsetType | None = UNSET
    """The time of a delayed message; null in the receipt of a duplicate."""
    accepted_time: Moment | UnsetType | None = UNSET
    """The time at which a delayed message was stored."""


class PublishId(Answer):
    publish_id: str
    """An id that only logs and metrics have."""


class BatchResults(Answer):
    results: list[Receipt | PublishId | Problem]
    """The result of each message, in the order of the request: a receipt, or a problem; only an id
    of the request where the answer does not wait for the store."""


class PublishedMessage(Body, kw_only=True):
    """A message with its metadata, and with either data or data_base64."""

    data: Any = UNSET
    """A string is text/plain, anything else JSON, unless content_type says otherwise."""
    data_base64: bytes | None = None
    """The body in base64, instead of `data`."""
    content_type: ShortText | None = None
    """The media type of the body. Null: `text/plain` for a string as `data`, JSON for other `data`,
    and none for `data_base64`."""
    key: Key | None = None
    attributes: Attributes | None = None
    priority: Priority = 0
    """The priority of the message, from 0 to 9; 9 is the most urgent. A topic with fewer priorities
    gives higher ones its highest lane."""
    ttl_seconds: Ttl | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """W3C trace context of this message, in place of that of the request."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""


class BatchItem(PublishedMessage, kw_only=True):
    """One message of a batch."""

    idempotency_key: ShortText | None = None
    """A name that the publisher gives to the message: within the dedup window of the topic, the
    topic stores one message of this name."""
    delay_seconds: Delay | None = None
    """Seconds from now until the message is published; 0 and less is at once."""
    deliver_at: Moment | None = None
    """The time to publish it, instead of `delay_seconds`."""


class Batch(Body):
    messages: Annotated[list[BatchItem], Meta(min_length=1, max_length=MAX_BATCH_MESSAGES)]
    """The messages, each stored or refused on its own."""


KEY = Parameter("key", "Packetboat-Key", "header", "The key, percent-encoded UTF-8, at most 1 KiB.")
ATTRIBUTES = Parameter(
    "attributes",
    "Packetboat-Attributes",
    "header",
    "A JSON object of strings, percent-encoded UTF-8; at most 100.",
)
PUBLISHER_ID = Parameter(
    "publisher_id",
    "Packetboat-Publisher-Id",
    "header",
    "The id of the publisher, percent-encoded UTF-8, at most 256 bytes.",
)
PRIORITY = Parameter(
    "priority",
    "Packetboat-Priority",
    "header",
    (
        "Kept with the message. A topic with `priorities` has a lane for each, the highest "
        "for all that are higher."
    ),
    Priority,
)
DURABILITY = Parameter(
    "durability",
    "Packetboat-Durability",
    "header",
    (
        "When the answer is given: on a majority's disks, on every connected voter's, once "
        "the leader has it, at once."
    ),
    Literal[Durability, EarlyDurability],
    default="quorum",
)
IDEMPOTENCY_KEY = Parameter(
    "idempotency_key",
    "Idempotency-Key",
    "header",
    (
        "ASCII, at most 256 bytes. Within the topic's dedup window a message is stored "
        "once per idempotency key, which also picks the partition of a message without a key. "
        "Send a message again with the same key."
    ),
)
DELAY = Parameter(
    "delay",
    "Packetboat-Delay",
    "header",
    ("Seconds from now until the message is published, at most 365 days; 0 and less is at once."),
    Delay,
)
DELIVER_AT = Parameter(
    "deliver_at",
    "Packetboat-Deliver-At",
    "header",
    (
        "An RFC 3339 time with a zone, at most 365 days from now; one in the past is at "
        "once. Not together with Packetboat-Delay."
    ),
    datetime,
)
TTL = Parameter(
    "ttl",
    "Packetboat-TTL",
    "header",
    (
        "Seconds, more than 0 and at most 365 days, from the time it is due, else from "
        "when it is published. A message that is not delivered by then is settled as expired."
    ),
    Ttl,
)
SCHEMA_VERSION = Parameter(
    "schema_version",
    "Packetboat-Schema-Version",
    "header",
    (
        "The version of the topic's schema that the body is written in, the latest if it "
        "is not given; kept as the attribute packetboat-schema-version."
    ),
    Annotated[int, Meta(ge=1, le=999_999_999)],
)
TRACEPARENT = Parameter(
    "traceparent",
    "traceparent",
    "header",
    "W3C trace context, kept with the message and shown by every delivery.",
)
TRACESTATE = Parameter(
    "tracestate",
    "tracestate",
    "header",
    "Beside traceparent, up to 512 bytes; a longer one is left out.",
)
UNSUPPORTED_MEDIA_TYPE = Refusal(
    "UnsupportedMediaType",
    415,
    "The content type or encoding is not one this operation takes.",
    Problem,
)
TOO_MANY_IN_FLIGHT = Refusal(
    "TooManyInFlight",
    429,
    (
        "This tenant has too much in flight (`too-many-in-flight`), has used up a limit "
        "per second (`rate-limited`), or what it costs to check its bodies is over its "
        "share (`work-limited`); nothing was accepted."
    ),
    Problem,
    (
        RETRY_AFTER,
        Header(
            "RateLimit-Policy",
            "The tenant's limits, where it has any; also with answers that succeed.",
            component=False,
        ),
        Header("RateLimit", "The rest of them at the process that answers.", component=False),
    ),
)
HEADERS_TOO_LARGE = Refusal(
    "HeadersTooLarge", 431, "The headers are over 48 KiB; use messages:batch.", Problem
)
NOT_SUPPORTED = Refusal("NotSupported", 501, "The store does not carry this out yet.", Problem)
PRODUCER = Parameter(
    "producer",
    "Packetboat-Producer",
    "header",
    "32 hexadecimal digits that a producer chose for itself; with Packetboat-Sequence.",
    Annotated[str, Meta(pattern=r"^[0-9A-Fa-f]{32}\Z")],
)
SEQUENCE = Parameter(
    "sequence",
    "Packetboat-Sequence",
    "header",
    (
        "The producer's number of this batch, the same whenever it sends it; with "
        "Packetboat-Producer."
    ),
    Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)],
)

OPERATIONS = table(
    "publish",
    Operation(
        id="publish",
        route="POST /topics/{topic}/messages",
        needs="publish topic:topic",
        summary="Publish one message",
        description=(
            "The body is the message, stored verbatim, of any content type. Metadata is in "
            "headers; `Packetboat-Attr-<name>` and `ce-<name>` headers are attributes too. A "
            "`Packetboat-` header that is not known is refused. A body of the type "
            "`application/x-www-form-urlencoded` that is one JSON object or array is recorded "
            "as `application/json`.\n\nA CloudEvent 1.0 is taken apart: its attributes are "
            "those of the message, with `ce-` before their names. In binary mode they are "
            "`ce-` headers; `application/cloudevents+json` is one event; "
            "`application/cloudevents-batch+json` is a batch of them, answered 200 or 202 as "
            "`messages:batch` is.\n\nWith an `Idempotency-Key` the message is stored at most "
            "once within the topic's dedup window: sent again with the same body it is "
            "answered with the first one's id and `duplicate: true`, with another body 422. "
            "With `Packetboat-Delay` or `Packetboat-Deliver-At` it is stored now and published "
            "at its time.\n\n504 says that the outcome is unknown: the message may or may not "
            "be stored. With an `Idempotency-Key` it can be sent again without harm."
        ),
        parameters=(
            KEY,
            ATTRIBUTES,
            PUBLISHER_ID,
            PRIORITY,
            DURABILITY,
            IDEMPOTENCY_KEY,
            DELAY,
            DELIVER_AT,
            TTL,
            SCHEMA_VERSION,
            TRACEPARENT,
            TRACESTATE,
        ),
        media={
            "application/cloudevents+json": CloudEvent,
            "application/cloudevents-batch+json": Annotated[
                list[CloudEvent], Meta(min_length=1, max_length=MAX_BATCH_MESSAGES)
            ],
            "*/*": Any,
        },
        body_required=False,
        answers=(
            ok(BatchResults, "One result for each event of a batch of CloudEvents, in order."),
            Success(201, "On disk at a majority of the group's voters.", Receipt),
            Success(
                202,
                "Accepted with durability `leader` or `none`: it may be lost.",
                PublishId | BatchResults,
            ),
        ),
        problems=(
            UNSUPPORTED_MEDIA_TYPE,
            TOO_MANY_IN_FLIGHT,
            HEADERS_TOO_LARGE,
            NOT_SUPPORTED,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="publishBatch",
        route="POST /topics/{topic}/messages:batch",
        needs="publish topic:topic",
        summary="Publish up to 1,000 messages",
        description=(
            "A wrong item fails alone; after an item of a key has failed, later items of that "
            "key fail as `preceding-item-failed`.\n\nWith `Packetboat-Producer` and "
            "`Packetboat-Sequence` the batch as a whole is stored at most once within the "
            "topic's dedup window, however often it is sent; its items then have no "
            "idempotency keys of their own."
        ),
        parameters=(
            PUBLISHER_ID,
            DURABILITY,
            PRODUCER,
            SEQUENCE,
            TRACEPARENT,
            TRACESTATE,
        ),
        media={
            "application/json": Batch,
            "application/x-ndjson": Annotated[str, Meta(description="One item per line.")],
            "application/msgpack": Annotated[
                str, Meta(description="msgpack of the JSON form; `data` may be bytes.")
            ],
            "application/cloudevents-batch+json": Annotated[
                list[CloudEvent], Meta(min_length=1, max_length=MAX_BATCH_MESSAGES)
            ],
            "application/cloudevents+json": CloudEvent,
        },
        answers=(
            ok(BatchResults, "One result per item, in order: a receipt or a problem."),
            Success(202, "As 200, for durability `leader` or `none`.", BatchResults),
        ),
        problems=(
            UNSUPPORTED_MEDIA_TYPE,
            TOO_MANY_IN_FLIGHT,
            HEADERS_TOO_LARGE,
            NOT_SUPPORTED,
            STORAGE_FULL,
        ),
    ),
)
