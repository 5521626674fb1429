"""The parts that several areas of the contract share: names, labels, paging, refusals."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.contract import Answer, Body, Header, OpenAnswer, Parameter, Refusal, Success

MAX_NAME_CHARS = 128
NAME_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}"
MAX_LABELS = 64
MAX_LABEL_KEY_CHARS = 63
LABEL_KEY_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9._/-]{{0,{MAX_LABEL_KEY_CHARS - 1}}}"
MAX_LABEL_VALUE_CHARS = 255
Name = Annotated[
    str,
    Meta(
        extra_json_schema={
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "pattern": f"^{NAME_PATTERN}$",
        }
    ),
]
"""A name that somebody gives. Servers check it themselves, with a refusal that says the rule."""
NameOfPath = Annotated[
    Name,
    Meta(description="The name. A POST needs it; in a PUT it is that of the path, or is left out."),
]
"""The name of a thing whose body is the same for POST and PUT."""
LabelName = Annotated[str, Meta(extra_json_schema={"pattern": f"^{LABEL_KEY_PATTERN}$"})]
LabelText = Annotated[
    str,
    Meta(
        extra_json_schema={
            "maxLength": MAX_LABEL_VALUE_CHARS,
            "pattern": r"^[^\u0000-\u001f\u007f]*$",
        }
    ),
]
_LABELS = "Names and values that you choose; servers only keep and show them."
Labels = Annotated[
    dict[LabelName, LabelText],
    Meta(description=_LABELS, extra_json_schema={"maxProperties": MAX_LABELS}),
]
"""Labels of a resource. Servers check them themselves, with a refusal that names the label."""
ShownLabels = Annotated[dict[str, str], Meta(description=_LABELS)]
"""Labels in an answer."""
NO_CONTROL = r"^[^\u0000-\u001f\u007f]*\Z"
"""A pattern that control characters do not match."""
DisplayName = Annotated[str, Meta(max_length=255, pattern=NO_CONTROL)]
Text = Annotated[str, Meta(min_length=1, max_length=128, pattern=NO_CONTROL)]
MAX_FILTER_CHARS = 4096
Filter = Annotated[str, Meta(max_length=MAX_FILTER_CHARS)]
"""A CEL expression that is true for some messages."""
MAX_CRON_CHARS = 200
Cron = Annotated[str, Meta(max_length=MAX_CRON_CHARS)]
"""A plan of runs: five fields, or a word such as `@hourly`."""
TimeZone = Annotated[str, Meta(max_length=100)]
"""A name of the IANA time zone database."""
Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its zone."""
Hex128 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Total = Annotated[int, Meta(ge=0, le=2**53)]
"""A count that JSON readers keep exactly."""
NextPageToken = Annotated[
    str | None, Meta(description="The `page_token` of the next page; null on the last page.")
]
CreatedAt = Annotated[datetime, Meta(description="The time at which it was created.")]
UpdatedAt = Annotated[datetime, Meta(description="The time of its last change.")]
PartitionNumber = Annotated[int, Meta(description="The number of the partition, from 0.")]
LaneNumber = Annotated[
    int,
    Meta(
        description=(
            "The lane of the partition: the priority of its messages, and 0 of a topic without "
            "priorities."
        )
    ),
]
MessageId = Annotated[
    str,
    Meta(description="The id of the message, the same for its publisher and for every consumer."),
]
PublishTime = Annotated[datetime, Meta(description="The time at which it was published.")]
Offset = Annotated[int, Meta(description="The offset of the message in its lane.")]
MessageKey = Annotated[str, Meta(description="The key of the message; null where it has none.")]
ContentType = Annotated[
    str, Meta(description="The media type of the body; null where its publisher named none.")
]
MessageAttributes = Annotated[
    dict[str, str], Meta(description="The attributes of the message; empty where it has none.")
]
"""The parts of a message, in answers."""


class FieldProblem(Answer):
    """A field that does not fit."""

    field: str
    """The path of the field in the body, such as `retry.max_attempts`, or the name of a parameter.
    """
    detail: str
    """The rule that the value breaks, for people."""


class Problem(OpenAnswer):
    """RFC 9457; every `type` is described in docs/problems.md."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri"})]
    """The kind of problem; programs compare its last part, such as `not-found`."""
    title: str
    """The kind of problem in a few words, the same for all of this kind."""
    status: int
    """The status of the answer, or of the item of a batch."""
    detail: str | UnsetType = UNSET
    """The reason in this case, for people."""
    instance: str | UnsetType = UNSET
    """The id of the request, which the header `X-Request-Id` and the server's log have too; missing
    in items of a batch."""
    errors: list[FieldProblem] | UnsetType = UNSET
    """The fields that do not fit, where it is about fields."""


class Message(OpenAnswer):
    """A stored message."""

    message_id: MessageId
    publish_time: PublishTime
    partition: PartitionNumber
    offset: Offset
    data: Any = UNSET
    """The body, where its content type is JSON (then as JSON) or text (then as a string)."""
    data_base64: str | UnsetType = UNSET
    """The body in base64, where it is neither JSON nor text in UTF-8."""
    content_type: ContentType | UnsetType | None = UNSET
    key: MessageKey | UnsetType | None = UNSET
    attributes: MessageAttributes | UnsetType = UNSET
    publisher_id: str | UnsetType | None = UNSET
    """The id that the publisher gave itself; null where it gave none."""
    priority: int | UnsetType = UNSET
    """The priority of the message, from 0 to 9; 9 is the most urgent."""
    traceparent: str | UnsetType = UNSET
    """W3C trace context, of a message that was published with one."""
    tracestate: str | UnsetType = UNSET
    """W3C trace state, of a message that was published with one beside traceparent."""


class QuotaProblem(Problem):
    """A problem that names a limit of the tenant, and how much of it is used."""

    quota: str | UnsetType = UNSET
    """The name of the limit, such as `topics`."""
    limit: int | UnsetType = UNSET
    """The most that the tenant may have."""
    used: int | UnsetType = UNSET
    """The number that the tenant has."""


HoldKind = Literal["undelivered", "delayed", "export", "snapshot", "dead_letters"]


class Hold(Answer):
    """One thing that would be lost by a delete."""

    kind: HoldKind
    """The kind of loss: messages that a subscription has not acked, delayed messages, messages that
    an export has not copied, a snapshot, or open dead letters."""
    name: str | None
    """The name of the subscription, export or snapshot; null for delayed messages."""
    messages: Count
    """Not acked by a subscription, delayed (at most 100,000 of a queue are counted), not taken by
    an export, kept by a snapshot, or open dead letters."""
    advice: str
    """The action that loses nothing."""


class HeldProblem(Problem):
    """A problem that names what would be lost."""

    holds: list[Hold] | UnsetType = UNSET
    """The losses, up to 20 of them."""


class FilterPreviewRequest(Body):
    filter: Filter
    """The CEL expression to try; it may use the names that filters of subscriptions use."""
    messages: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """The number of newest messages to look at, over all partitions."""


class FilterSample(Answer):
    """A message that a filter was tried on."""

    DESCRIBED_BY = Message

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    key: MessageKey | None
    attributes: dict[str, str]


MAX_FILTER_SAMPLES = 5
FilterSamples = Annotated[list[FilterSample], Meta(max_length=MAX_FILTER_SAMPLES)]


class FilterPreviewSamples(Answer):
    """Some messages that match, and some others."""

    matched: FilterSamples
    """The newest messages that match, newest first."""
    unmatched: FilterSamples
    """The newest messages that do not match, newest first."""


class FilterChanges(Answer):
    """Messages that another filter would treat otherwise than the present one, or than none."""

    newly_matched: int
    """The number of messages that match this filter and do not match the present one."""
    no_longer_matched: int
    """The number of messages that match the present filter and do not match this one."""


class FilterPreview(Answer):
    """The effect of a filter on recent messages."""

    examined: int
    """The number of messages that the filter was tried on."""
    matched: int
    """The number of messages that match."""
    errors: int
    """Evaluations that failed or gave no boolean; such a message does not match."""
    first_error: str | None
    """The error of the first evaluation that failed; null where none failed."""
    samples: FilterPreviewSamples
    """Examples of messages that match, and of messages that do not."""
    changes: FilterChanges
    """The difference to the present filter of the subscription, or to none."""


class HoldList(Answer):
    holds: list[Hold]
    """All losses that a delete would bring; empty where it would bring none."""


CACHE_CONTROL = Header("Cache-Control", "For how long it may be kept.")
ETAG = Header("ETag", "Its version.")
LOCATION = Header("Location", "Where it is.")
RETRY_AFTER = Header("Retry-After", "Seconds until a retry may do better.", int)
WWW_AUTHENTICATE = Header("WWW-Authenticate", "`Bearer`.")
BAD_REQUEST = Refusal(
    "BadRequest",
    400,
    (
        "The body is not readable, a parameter of the query is out of its range, the "
        "operation has no such parameter, or the bytes are no request of HTTP/1.1 "
        "(`malformed-request`, and the connection is closed)."
    ),
    Problem,
)
UNAUTHENTICATED = Refusal(
    "Unauthenticated", 401, "No valid bearer token.", Problem, (WWW_AUTHENTICATE,)
)
FORBIDDEN = Refusal(
    "Forbidden", 403, "The token lacks the permission this operation needs.", Problem
)
RATE_LIMITED = Refusal(
    "RateLimited",
    429,
    ("The tenant has used up its limit of requests per second (`rate-limited`); nothing was done."),
    Problem,
    (RETRY_AFTER,),
)
INTERNAL_ERROR = Refusal("InternalError", 500, "A defect of the server.", Problem)
UNAVAILABLE = Refusal("Unavailable", 503, "Not now; nothing was accepted.", Problem, (RETRY_AFTER,))
OUTCOME_UNKNOWN = Refusal(
    "OutcomeUnknown", 504, "It may or may not have been done.", Problem, (RETRY_AFTER,)
)
NAME = Parameter(
    "name", "name", "path", "A name.", Annotated[str, Meta(min_length=1)], required=True
)
WAIT_SECONDS = Parameter(
    "wait_seconds",
    "wait_seconds",
    "query",
    "How long to wait for the first message.",
    Annotated[float, Meta(ge=0, le=60)],
    default=0,
)
MAX_BYTES = Parameter(
    "max_bytes",
    "max_bytes",
    "query",
    "Most bytes of data in the answer; one message is always given.",
    Annotated[int, Meta(ge=1, le=8_388_608)],
    default=8_388_608,
)
CONFLICT = Refusal(
    "Conflict",
    409,
    "The request conflicts with the present state; `type` and `detail` say why.",
    Problem,
)
NOT_FOUND = Refusal("NotFound", 404, "There is no such thing in this tenant.", Problem)
TOPIC = Parameter(
    "topic", "topic", "path", "A topic's name.", Annotated[str, Meta(min_length=1)], required=True
)
HEARTBEAT_SECONDS = Parameter(
    "heartbeat_seconds",
    "heartbeat_seconds",
    "query",
    "Seconds without a line after which a line says that the stream is alive.",
    Annotated[float, Meta(ge=1, le=60)],
    default=10,
)
MAX_SECONDS = Parameter(
    "max_seconds",
    "max_seconds",
    "query",
    "Seconds after which the stream ends; without it, the client ends it.",
    Annotated[float, Meta(ge=0, le=43_200)],
)
TOO_LARGE = Refusal("TooLarge", 413, "The body, the batch or a message is over its limit.", Problem)
BODY_TIMEOUT = Refusal("BodyTimeout", 408, "The rest of the body did not arrive in time.", Problem)
UNPROCESSABLE = Refusal("Unprocessable", 422, "A field does not fit; `errors` names it.", Problem)
WORK_LIMITED = Refusal(
    "WorkLimited",
    429,
    (
        "Checks of the tenant's bodies and schemas cost more than its share "
        "(`work-limited`), or the tenant has used up a limit per second (`rate-limited`); "
        "nothing was done."
    ),
    Problem,
    (RETRY_AFTER,),
)
STORAGE_FULL = Refusal(
    "StorageFull", 507, "The store, the topic or the tenant takes no more.", Problem, (RETRY_AFTER,)
)
MAX_PAGE_SIZE = 1000
PAGE_SIZE = Parameter(
    "page_size",
    "page_size",
    "query",
    "Most items of the page.",
    Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE)],
    default=100,
)
PAGE_TOKEN = Parameter("page_token", "page_token", "query", "`next_page_token` of the page before.")
LETTER = Parameter(
    "letter",
    "letter",
    "path",
    "A dead letter's id.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)
TOO_MANY_CHANGES = Refusal(
    "TooManyChanges",
    429,
    (
        "As many changes of this tenant wait for their turn as may (`too-many-changes`), "
        "or it has used up its limit of requests per second (`rate-limited`); nothing was "
        "done."
    ),
    Problem,
    (RETRY_AFTER,),
)
REDRIVE = Parameter(
    "redrive",
    "redrive",
    "path",
    "A redrive's id.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)
IF_MATCH = Parameter("if_match", "If-Match", "header", "Only if the ETag is still this one.")
PRECONDITION_FAILED = Refusal(
    "PreconditionFailed", 412, "It has changed since the version named in If-Match.", Problem
)
RUN = Parameter(
    "run",
    "run",
    "path",
    "The number of a run.",
    Annotated[int, Meta(ge=1, le=2**53 - 1)],
    required=True,
)
UID = Parameter(
    "uid",
    "uid",
    "path",
    "The uid of a run that was claimed.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)
JOB = Parameter(
    "job", "job", "path", "A job's name.", Annotated[str, Meta(min_length=1)], required=True
)
POOL = Parameter(
    "pool", "pool", "path", "A pool's name.", Annotated[str, Meta(min_length=1)], required=True
)
FORBIDDEN_OR_FULL = Refusal(
    "ForbiddenOrFull",
    403,
    (
        "The token lacks the permission this operation needs; or the tenant has as many of "
        "what would be made as it may (`quota-exceeded`): `quota` names the limit."
    ),
    QuotaProblem,
)
TOO_MANY_CHANGES_OR_WORK = Refusal(
    "TooManyChangesOrWork",
    429,
    (
        "As many changes of this tenant wait for their turn as may (`too-many-changes`), "
        "what it costs to check its bodies and schemas is over its share (`work-limited`), "
        "or it has used up its limit of requests per second (`rate-limited`); nothing was "
        "done."
    ),
    Problem,
    (RETRY_AFTER,),
)
NUMBER = Parameter(
    "number",
    "number",
    "path",
    "The number of a schema's version.",
    Annotated[int, Meta(ge=1, le=999_999)],
    required=True,
)
ASSET = Parameter(
    "asset", "asset", "path", "The name of a file, such as `swagger-ui.css`.", required=True
)
FORCE = Parameter(
    "force",
    "force",
    "query",
    "Also when messages are lost that a subscription has not acked.",
    bool,
    default=False,
)
HELD = Refusal(
    "Held",
    409,
    ("`backlog-not-empty`: something would be lost; `holds` names up to 20 of what, with counts."),
    HeldProblem,
)
RULE = Parameter(
    "rule", "rule", "path", "A skip rule's id.", Annotated[str, Meta(min_length=1)], required=True
)
TENANT = Parameter(
    "tenant",
    "tenant",
    "path",
    "A tenant's name.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)
PREFIX = Parameter(
    "prefix",
    "prefix",
    "path",
    "How the secret begins.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)
PARTITION = Parameter(
    "partition",
    "partition",
    "path",
    "Number of a partition, from 0.",
    Annotated[int, Meta(ge=0, le=9999)],
    required=True,
)
ID = Parameter(
    "id", "id", "path", "A message id.", Annotated[str, Meta(min_length=1)], required=True
)
SIGNING_SECRET = Parameter(
    "signing_secret",
    "signing_secret",
    "path",
    "A signing secret's id.",
    Annotated[str, Meta(min_length=1)],
    required=True,
)

PAGING = (PAGE_SIZE, PAGE_TOKEN)
IN_PATH = {
    each.name: each
    for each in tuple(globals().values())
    if isinstance(each, Parameter) and each.where == "path"
}
"""The parameters of paths, by their name."""


def created(kind: Any, description: str) -> Success:
    """Return the answer 201 with what was made, where it is and its version."""
    return Success(201, description, kind, (ETAG, LOCATION))
