"""Dead letters: looking at them, redriving and discarding them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, LOCATION, Filter
from openapi.contract import Answer, Body, Operation, Parameter, Success, ok, table
from openapi.publish import MAX_ATTRIBUTES, AttributeValue

State = Literal["open", "redriven", "discarded"]
Reason = Literal["exhausted", "rejected"]
Id = Annotated[str, Meta(max_length=256)]
Ids = Annotated[list[Id], Meta(min_length=1, max_length=1000)]
KeyValue = Annotated[str, Meta(max_length=1024)]
RedriveState = Literal["running", "done", "cancelling", "cancelled", "failed"]
TO_SUBSCRIPTION = "subscription"
"""The place of a redrive that brings letters back to their subscription."""


class DeadLetter(Answer):
    id: str
    """The id of the dead letter in its subscription."""
    state: State
    """`open`, `redriven` or `discarded`."""
    reason: Reason
    """`exhausted` or `rejected`."""
    detail: str | None
    """The last comment of a consumer."""
    attempts: int
    first_at: datetime | None
    """The time of its first delivery."""
    last_at: datetime | None
    dead_at: datetime
    message_id: str
    """The id of the message as it was published."""
    partition: int
    offset: int
    publish_time: datetime
    key: str | None
    attributes: dict[str, str]
    content_type: str | None
    size_bytes: int
    letter_id: str
    """The id of the message in the dead-letter topic."""
    redrive_id: str | None
    """The redrive that took it, or is to take it."""


class Undelivered(Answer):
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""

    messages: int
    reason: str | None


class DeadLetterPage(Answer):
    dead_letters: list[DeadLetter]
    examined: int
    """The number of letters that the filter was tried on."""
    undelivered: Undelivered
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""
    next_page_token: str | None


class LetterMessage(Answer):
    message_id: str
    attributes: dict[str, str]
    publish_time: datetime
    partition: int
    offset: int
    data: Any = UNSET
    """JSON as JSON, text as a string."""
    data_base64: str | UnsetType = UNSET
    """Anything else."""
    content_type: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    publisher_id: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    scheduled_for: datetime | UnsetType | None = UNSET
    traceparent: str | UnsetType = UNSET
    """W3C trace context, of a message that was published with one."""
    tracestate: str | UnsetType = UNSET
    """W3C trace state, of a message that was published with one beside traceparent."""


class DeadLetterWithMessage(DeadLetter):
    """A dead letter and its message."""

    message: LetterMessage | None
    """The message in the dead-letter topic; null when it is stored no more."""


class DiscardRequest(Body):
    """A choice of dead letters, by one of the two fields."""

    filter: Filter | None = None
    """CEL, as when they are listed."""
    ids: Ids | None = None


class Discarded(Answer):
    discarded: int
    complete: bool
    """Whether all were looked at; ask again while this is false."""


class RedriveEdit(Body):
    """Changes to each message; members that are absent stay."""

    attributes: (
        Annotated[dict[str, AttributeValue | None], Meta(max_length=MAX_ATTRIBUTES)] | UnsetType
    ) = UNSET
    """New values; null drops the attribute."""
    data: Any = UNSET
    """The new body, as in a batch; a string is text and all else JSON, unless content_type says
    otherwise."""
    data_base64: bytes | None = None
    content_type: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    key: KeyValue | UnsetType | None = UNSET
    """null drops it."""


class RedriveRequest(Body):
    """A choice of dead letters; all open ones without filter and ids."""

    filter: Filter | None = None
    """CEL, as when they are listed."""
    ids: Ids | None = None
    to: Id = TO_SUBSCRIPTION
    """`subscription`: back to it, and to it alone; else the name of a topic."""
    edit: RedriveEdit | None = None
    rate: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """Messages per second at most."""
    dry_run: bool = False
    """Only say what would be redriven."""


class DryRun(Answer):
    matched: int
    examined: int
    complete: bool
    """Whether all were examined."""
    sample: list[DeadLetter]


class Redrive(Answer):
    redrive_id: str
    state: RedriveState
    """`running`, `done`, `cancelling`, `cancelled` or `failed`."""
    detail: str | None
    """The reason that it waits or failed, or the messages that could not be redriven."""
    filter: str | None
    to: str
    """`subscription`, or the name of a topic."""
    rate: float | None
    """Messages a second, at most."""
    total: int
    """The number of letters to redrive."""
    redriven: int
    failed: int
    """The number of letters whose message is stored no more."""
    created_at: datetime
    updated_at: datetime


class RedrivePage(Answer):
    redrives: list[Redrive]
    next_page_token: str | None


class ParkedKey(Answer):
    key: str | None
    """Null when the message is stored no more."""
    partition: int
    lane: int
    attempts: int
    reason: str
    detail: str | None
    message_id: str | None
    """The id of the first message, at which the key stopped."""
    waiting: int
    """Messages of the key behind it."""
    since: datetime | None
    """The time of the last delivery of the first message."""


class ParkedKeys(Answer):
    parked_keys: list[ParkedKey]


class ResumeKeyRequest(Body):
    key: KeyValue


class ParkedKeyDone(Answer):
    done: int


class SkipKeyRequest(Body):
    key: KeyValue
    dead_letter: bool = False
    """Whether it becomes a dead letter instead of being skipped."""


LETTER_FILTER = Parameter(
    "letter_filter",
    "filter",
    "query",
    (
        "CEL over reason, detail, attempts, key, attributes, content_type, size_bytes, "
        "publish_time, dead_at, partition and offset."
    ),
    Filter,
)
LETTER_STATE = Parameter("letter_state", "state", "query", "Which of them.", State, default="open")

OPERATIONS = table(
    "subscriptions",
    Operation(
        id="listDeadLetters",
        route="GET /subscriptions/{name}/dead_letters",
        needs="read subscription:name",
        summary="Dead letters, oldest first",
        parameters=(
            LETTER_FILTER,
            LETTER_STATE,
        ),
        paged=True,
        answers=(
            ok(
                DeadLetterPage,
                ("A page; it may be empty while there are more, where a filter is true for few."),
            ),
        ),
    ),
    Operation(
        id="getDeadLetter",
        route="GET /subscriptions/{name}/dead_letters/{letter}",
        needs="read subscription:name",
        summary="A dead letter with its message",
        answers=(ok(DeadLetterWithMessage, "The dead letter."),),
    ),
    Operation(
        id="discardDeadLetters",
        route="POST /subscriptions/{name}/dead_letters:discard",
        needs="manage subscription:name",
        summary="Dead letters that are not to be redriven",
        body=DiscardRequest,
        answers=(ok(Discarded, "How many were open, and whether all that match were looked at."),),
    ),
    Operation(
        id="redriveDeadLetters",
        route="POST /subscriptions/{name}/dead_letters:redrive",
        needs="manage subscription:name",
        summary="Publish dead letters again",
        body=RedriveRequest,
        body_required=False,
        answers=(
            ok(DryRun, "The letters that a dry run found."),
            Success(202, "It is under way.", Redrive, (LOCATION,)),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listRedrives",
        route="GET /subscriptions/{name}/redrives",
        needs="read subscription:name",
        summary="Redrives, newest first",
        paged=True,
        answers=(ok(RedrivePage, "A page."),),
    ),
    Operation(
        id="getRedrive",
        route="GET /subscriptions/{name}/redrives/{redrive}",
        needs="read subscription:name",
        summary="How far a redrive is",
        answers=(ok(Redrive, "The redrive."),),
    ),
    Operation(
        id="cancelRedrive",
        route="POST /subscriptions/{name}/redrives/{redrive}:cancel",
        needs="manage subscription:name",
        summary="Redrive no more of it",
        answers=(ok(Redrive, "The redrive; messages that it redrove stay redriven."),),
    ),
    Operation(
        id="listParkedKeys",
        route="GET /subscriptions/{name}/parked_keys",
        needs="read subscription:name",
        summary="Keys that wait aside",
        answers=(ok(ParkedKeys, "All of them, up to a thousand."),),
    ),
    Operation(
        id="resumeParkedKey",
        route="POST /subscriptions/{name}/parked_keys:resume",
        needs="manage subscription:name",
        summary="Deliver the messages of a parked key again",
        body=ResumeKeyRequest,
        answers=(ok(ParkedKeyDone, "How many keys; durable."),),
    ),
    Operation(
        id="skipParkedKey",
        route="POST /subscriptions/{name}/parked_keys:skip",
        needs="manage subscription:name",
        summary="Give up the first message of a parked key",
        body=SkipKeyRequest,
        answers=(ok(ParkedKeyDone, "How many keys; durable."),),
        problems=(CONFLICT,),
    ),
)
