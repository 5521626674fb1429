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
    MessageId,
    Moment,
    NextPageToken,
    Offset,
    PartitionNumber,
    Positive,
)
from openapi.contract import Answer, Body, Operation, Parameter, Success, ok, table

State = Literal["unverified", "enabled", "disabled"]
Breaker = Literal["closed", "half_open", "open"]
AttemptOutcome = Literal["delivered", "refused", "busy", "failed", "gone"]
"""A 2xx is `delivered`, and a 410 is `gone`. `refused`: the message is at fault (4xx). `busy`: the
endpoint takes no more now (429, 503). `failed`: the endpoint is at fault (5xx, timeouts,
connections, TLS, redirects, egress)."""


class PushAttempt(Answer):
    """One message of one request to an endpoint."""

    id: str
    """The id of this attempt."""
    at: datetime
    """The time at which the request was sent."""
    message_id: MessageId
    partition: PartitionNumber
    offset: Offset
    attempt: Positive
    """The number of the attempt at this message, from 1."""
    status: int | None
    """Null where no answer came."""
    outcome: AttemptOutcome
    """refused: a 4xx, the message counts an attempt; busy: 429 or 503; failed: the endpoint did;
    gone: 410."""
    latency_ms: float
    """Milliseconds until the answer or the failure."""
    detail: str | None
    """The reason of the outcome, for people; null where there is none."""
    response_excerpt: str
    """The first KiB of the body."""


class PushAttemptPage(Answer):
    """One page of requests."""

    attempts: list[PushAttempt]
    """The attempts of this page, newest first."""
    next_page_token: NextPageToken


class PushTest(Answer):
    """The answer of an endpoint to a sample."""

    request_id: str
    """The `webhook-id` of the request."""
    outcome: Literal["delivered", "refused", "busy", "failed", "gone", "unsent"]
    """The end of the request, as of attempts; `unsent`: it could not be sent."""
    status: int | None
    """The status of the answer; null where none came."""
    latency_ms: float | None
    """Milliseconds until the answer; null where the request was not sent."""
    detail: str | None
    """The reason of the outcome, for people; null where there is none."""
    response_excerpt: str
    """The first KiB of the body."""


class PushReplayRequest(Body):
    """Either `message_ids`, or `from` and `to`."""

    message_ids: (
        Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(min_length=1, max_length=1000)]
        | UnsetType
    ) = UNSET
    """The ids of the messages, at most 1,000."""
    from_: Moment | None = field(default=None, name="from")
    """Published then or later."""
    to: Moment | None = None
    """Published before."""
    max_messages: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """The most messages of a span of time."""


class NotReplayed(Answer):
    """A message that was not delivered once more."""

    message_id: MessageId
    reason: Literal["not_found", "not_settled"]
    """`not_found`: the message is not stored; `not_settled`: the subscription is not done with it,
    and delivers it anyway."""


class PushReplayed(Answer):
    """The number of messages that are delivered once more."""

    replayed: int
    """The number of messages that are delivered again."""
    complete: bool
    """False where the span has more than `max_messages`."""
    skipped: list[NotReplayed]
    """The messages that are not, each with the reason."""


class PushEndpointState(Answer):
    """The state of an endpoint."""

    state: State
    """`unverified`: it has not answered the challenge; `disabled`: it failed for too long, or is
    gone. Messages wait in both states."""
    reason: str | None
    """The reason that nothing is sent to it, for people; null where it is enabled."""
    failing_since: datetime | None
    """The time since which all requests failed."""
    verified_at: datetime | None
    """The time at which it answered the challenge; null where it never did."""


class PushStatus(Answer):
    """The state of the pushing, where its type is push and a process owns a part of it. All but the
    first three only while it is."""

    DESCRIBED_BY = PushEndpointState

    state: State
    reason: str | None
    failing_since: datetime | None
    breaker: Breaker | UnsetType = UNSET
    """The breaker of the endpoint: while it is `open` nothing is sent, and while it is `half_open`
    single requests try it."""
    breaker_reason: str | UnsetType | None = UNSET
    """The reason that the breaker is not closed; null where it is."""
    limit: float | UnsetType = UNSET
    """Requests at once that the endpoint is thought to take; below 1, of the time with one."""
    in_flight: int | UnsetType = UNSET
    """Requests to the endpoint, of all subscriptions of the tenant."""
    paused_seconds: float | UnsetType = UNSET
    """Seconds that are left of a Retry-After."""
    max_rate: float | UnsetType | None = UNSET
    """The rate that it asked for, in messages a second."""
    max_concurrency: int | UnsetType | None = UNSET
    """The number of requests at once that it asked for; null where it asked for none."""
    requests_in_flight: int | UnsetType = UNSET
    """Requests to the endpoint that this subscription has under way."""
    leased_ahead: int | UnsetType = UNSET
    """Messages that are leased for coming requests."""
    uncommitted: int | UnsetType = UNSET
    """Messages it has taken, not yet acked durably."""
    delivered: int | UnsetType = UNSET
    """Messages that were delivered since the owner began."""
    last_error: str | UnsetType | None = UNSET
    """The reason of the last failure, for people; null where nothing failed."""


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
