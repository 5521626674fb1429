"""Dead letters: looking at them, redriving and discarding them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    LOCATION,
    ContentType,
    CreatedAt,
    Filter,
    LaneNumber,
    Message,
    MessageAttributes,
    MessageKey,
    NextPageToken,
    Offset,
    PartitionNumber,
    PublishTime,
    UpdatedAt,
)
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
    """A message whose attempts are used up, or that a consumer rejected."""

    DESCRIBED_BY = Message

    id: str
    """The id of the dead letter in its subscription."""
    state: State
    """`open` until it is redriven or discarded."""
    reason: Reason
    """`exhausted`: its attempts are used up; `rejected`: a consumer rejected it."""
    detail: str | None
    """The last comment of a consumer."""
    attempts: int
    """The number of attempts that failed."""
    first_at: datetime | None
    """The time of its first delivery."""
    last_at: datetime | None
    """The time of its last delivery; null where it was never delivered."""
    dead_at: datetime
    """The time at which it became a dead letter."""
    message_id: str
    """The id of the message as it was published."""
    partition: PartitionNumber
    offset: Offset
    publish_time: PublishTime
    key: MessageKey | None
    attributes: MessageAttributes
    content_type: ContentType | None
    size_bytes: int
    """The size of the body."""
    letter_id: str
    """The id of the message in the dead-letter topic."""
    redrive_id: str | None
    """The redrive that took it, or is to take it."""


class Undelivered(Answer):
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""

    messages: int
    """The number of these messages."""
    reason: str | None
    """The reason of the last failure; null where there is none."""


class DeadLetterPage(Answer):
    """A page of dead letters; `next_page_token` is null on the last."""

    dead_letters: list[DeadLetter]
    """The dead letters of this page, oldest first."""
    examined: int
    """The number of letters that the filter was tried on."""
    undelivered: Undelivered
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""
    next_page_token: NextPageToken


class LetterMessage(Answer):
    """The message of a dead letter, in the dead-letter topic."""

    DESCRIBED_BY = Message

    message_id: str
    attributes: dict[str, str]
    publish_time: datetime
    partition: int
    offset: int
    data: Any = UNSET
    data_base64: str | UnsetType = UNSET
    content_type: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    publisher_id: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    scheduled_for: datetime | UnsetType | None = UNSET
    """The time that was given to a delayed message; null for other messages."""
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


class DeadLetterWithMessage(DeadLetter):
    """A dead letter and its message."""

    message: LetterMessage | None
    """The message in the dead-letter topic; null when it is stored no more."""


class DiscardRequest(Body):
    """A choice of dead letters, by one of the two fields."""

    filter: Filter | None = None
    """CEL, as when they are listed."""
    ids: Ids | None = None
    """The ids of the dead letters, at most 1,000."""


class Discarded(Answer):
    """The number of dead letters that were discarded."""

    discarded: int
    """The number of dead letters that were discarded."""
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
    """The new body in base64, instead of `data`."""
    content_type: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The new media type of the body; null keeps that of the message."""
    key: KeyValue | UnsetType | None = UNSET
    """The new key; null drops the key."""


class RedriveRequest(Body):
    """A choice of dead letters; all open ones without filter and ids."""

    filter: Filter | None = None
    """CEL, as when they are listed."""
    ids: Ids | None = None
    """The ids of the dead letters, at most 1,000."""
    to: Id = TO_SUBSCRIPTION
    """`subscription`: back to it, and to it alone; else the name of a topic."""
    edit: RedriveEdit | None = None
    """Changes to each message; null: messages stay as they are."""
    rate: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """Messages per second at most."""
    dry_run: bool = False
    """Only say what would be redriven."""


class DryRun(Answer):
    """The dead letters that a redrive would publish."""

    matched: int
    """The number of dead letters that would be redriven, of those that were examined."""
    examined: int
    """The number of dead letters that were examined."""
    complete: bool
    """Whether all were examined."""
    sample: list[DeadLetter]
    """Examples of the dead letters that would be redriven, at most 5."""


class Redrive(Answer):
    """Dead letters that are published again."""

    redrive_id: str
    """The id of the redrive."""
    state: RedriveState
    """The state of the redrive; `cancelling` until the scheduler has stopped it."""
    detail: str | None
    """The reason that it waits or failed, or the messages that could not be redriven."""
    filter: str | None
    """The CEL expression that chooses dead letters; null where none was given."""
    to: str
    """`subscription`, or the name of a topic."""
    rate: float | None
    """Messages a second, at most."""
    total: int
    """The number of letters to redrive."""
    redriven: int
    """The number of letters that are published again."""
    failed: int
    """The number of letters whose message is stored no more."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class RedrivePage(Answer):
    """One page of redrives."""

    redrives: list[Redrive]
    """The redrives of this page."""
    next_page_token: NextPageToken


class ParkedKey(Answer):
    """A key that waits because its first message failed for good."""

    key: str | None
    """The key; null when the message is stored no more."""
    partition: PartitionNumber
    lane: LaneNumber
    attempts: int
    """The number of attempts of the first message that failed."""
    reason: str
    """The reason that the first message failed for good: `exhausted` or `rejected`."""
    detail: str | None
    """The last comment of a consumer; null where there is none."""
    message_id: str | None
    """The id of the first message, at which the key stopped."""
    waiting: int
    """Messages of the key behind it."""
    since: datetime | None
    """The time of the last delivery of the first message."""


class ParkedKeys(Answer):
    """The parked keys of a subscription."""

    parked_keys: list[ParkedKey]
    """The parked keys."""


class ResumeKeyRequest(Body):
    """A request to deliver the first message of a parked key again."""

    key: KeyValue
    """The parked key."""


class ParkedKeyDone(Answer):
    """The result for a parked key."""

    done: int
    """The number of lanes in which the key was parked and is not any more."""


class SkipKeyRequest(Body):
    """A request to go on behind the first message of a parked key."""

    key: KeyValue
    """The parked key."""
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
