"""The state of push subscriptions, and redelivery of what was pushed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from openapi.common import (
    BODY_TIMEOUT,
    CONFLICT,
    RATE_LIMITED,
    STORAGE_FULL,
    TOO_LARGE,
    Moment,
    Positive,
)
from openapi.contract import Answer, Body, Operation, Parameter, Success, ok, table

State = Literal["unverified", "enabled", "disabled"]
Breaker = Literal["closed", "half_open", "open"]
AttemptOutcome = Literal["delivered", "refused", "busy", "failed", "gone"]


class PushAttempt(Answer):
    id: str
    at: datetime
    message_id: str
    partition: int
    offset: int
    attempt: Positive
    status: int | None
    """Null where no answer came."""
    outcome: AttemptOutcome
    """refused: a 4xx, the message counts an attempt; busy: 429 or 503; failed: the endpoint did;
    gone: 410."""
    latency_ms: float
    detail: str | None
    response_excerpt: str
    """The first KiB of the body."""


class PushAttemptPage(Answer):
    attempts: list[PushAttempt]
    next_page_token: str | None


class PushTest(Answer):
    request_id: str
    """The `webhook-id` of the request."""
    outcome: Literal["delivered", "refused", "busy", "failed", "gone", "unsent"]
    status: int | None
    latency_ms: float | None
    detail: str | None
    response_excerpt: str


class PushReplayRequest(Body):
    """Either `message_ids`, or `from` and `to`."""

    message_ids: (
        Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(min_length=1, max_length=1000)]
        | UnsetType
    ) = UNSET
    from_: Moment | None = field(default=None, name="from")
    """Published then or later."""
    to: Moment | None = None
    """Published before."""
    max_messages: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """The most messages of a span of time."""


class NotReplayed(Answer):
    message_id: str
    reason: Literal["not_found", "not_settled"]
    """`not_found` or `not_settled`."""


class PushReplayed(Answer):
    replayed: int
    complete: bool
    """False where the span has more than `max_messages`."""
    skipped: list[NotReplayed]


class PushEndpointState(Answer):
    state: State
    """`unverified`, `enabled` or `disabled`."""
    reason: str | None
    failing_since: datetime | None
    """The time since which all requests failed."""
    verified_at: datetime | None


class PushStatus(Answer):
    """The state of the pushing, where its type is push and a process owns a part of it. All but the
    first three only while it is."""

    state: State
    reason: str | None
    failing_since: datetime | None
    breaker: Breaker | UnsetType = UNSET
    """`closed`, `half_open` or `open`."""
    breaker_reason: str | UnsetType | None = UNSET
    limit: float | UnsetType = UNSET
    """Requests at once that the endpoint is thought to take; below 1, of the time with one."""
    in_flight: int | UnsetType = UNSET
    """Requests to the endpoint, of all subscriptions of the tenant."""
    paused_seconds: float | UnsetType = UNSET
    """Seconds that are left of a Retry-After."""
    max_rate: float | UnsetType | None = UNSET
    """The rate that it asked for, in messages a second."""
    max_concurrency: int | UnsetType | None = UNSET
    requests_in_flight: int | UnsetType = UNSET
    leased_ahead: int | UnsetType = UNSET
    uncommitted: int | UnsetType = UNSET
    """Messages it has taken, not yet acked durably."""
    delivered: int | UnsetType = UNSET
    """Messages that were delivered since the owner began."""
    last_error: str | UnsetType | None = UNSET


ATTEMPT_OUTCOME = Parameter(
    "attempt_outcome",
    "outcome",
    "query",
    "Only attempts that ended so.",
    AttemptOutcome,
)
ATTEMPT_MESSAGE_ID = Parameter(
    "attempt_message_id",
    "message_id",
    "query",
    "Only attempts to push this message.",
    Annotated[str, Meta(min_length=1, max_length=256)],
)

OPERATIONS = table(
    "subscriptions",
    Operation(
        id="listPushAttempts",
        route="GET /subscriptions/{name}/attempts",
        needs="read subscription:name",
        summary="Requests to the endpoint of a push subscription, newest first",
        description=(
            "A row for each message of each request. The newest 1,000 are kept, for 7 days. "
            "They are written once a second: a server that dies takes the last second of them "
            "along, and of successes beyond 100 a second the newest are kept."
        ),
        parameters=(
            ATTEMPT_OUTCOME,
            ATTEMPT_MESSAGE_ID,
        ),
        paged=True,
        answers=(ok(PushAttemptPage, "A page."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="testPushEndpoint",
        route="POST /subscriptions/{name}:test",
        needs="manage subscription:name",
        summary="Send a sample to the endpoint now",
        description=(
            "Signed and headed like a delivery, with the attribute `packetboat-test: true`. "
            "The answer of the endpoint is the result; it is not an attempt of any message."
        ),
        answers=(ok(PushTest, "The result of the request."),),
        problems=(
            BODY_TIMEOUT,
            CONFLICT,
            TOO_LARGE,
            RATE_LIMITED,
        ),
    ),
    Operation(
        id="replayToEndpoint",
        route="POST /subscriptions/{name}:replay",
        needs="manage subscription:name",
        summary="Deliver settled messages to the endpoint once more",
        description=(
            "Each is published again, to this subscription alone, with an id of its own. An "
            "answer that does not come leaves it open which are."
        ),
        body=PushReplayRequest,
        answers=(Success(202, "They are published.", PushReplayed),),
        problems=(
            CONFLICT,
            RATE_LIMITED,
            STORAGE_FULL,
        ),
    ),
    Operation(
        id="enablePushEndpoint",
        route="POST /subscriptions/{name}:enable",
        needs="manage subscription:name",
        summary="Deliver to a disabled endpoint again",
        description="The backlog comes first. One that was never verified is asked before.",
        answers=(ok(PushEndpointState, "The endpoint as it is now."),),
        problems=(
            BODY_TIMEOUT,
            CONFLICT,
            TOO_LARGE,
        ),
    ),
    Operation(
        id="verifyPushEndpoint",
        route="POST /subscriptions/{name}:verify",
        needs="manage subscription:name",
        summary="Send the endpoint a challenge now",
        description=(
            "A POST with the header `Packetboat-Verification`, whose value the endpoint is to "
            "repeat in the body of a 2xx."
        ),
        answers=(ok(PushEndpointState, "The endpoint as it is now."),),
        problems=(
            BODY_TIMEOUT,
            CONFLICT,
            TOO_LARGE,
            RATE_LIMITED,
        ),
    ),
)
