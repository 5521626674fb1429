"""Subscriptions: readers of topics."""

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
    HEARTBEAT_SECONDS,
    HELD,
    IF_MATCH,
    MAX_SECONDS,
    NOT_FOUND,
    TOO_LARGE,
    CreatedAt,
    Filter,
    FilterPreview,
    FilterPreviewRequest,
    HoldList,
    Labels,
    LaneNumber,
    Moment,
    Name,
    NextPageToken,
    PartitionNumber,
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
    Success,
    lines,
    no_content,
    ok,
    table,
)
from openapi.flow import Throttle
from openapi.patch import patch_of
from openapi.push import PushStatus
from openapi.webhooks import Push, PushView

DeliveryValue = Literal["at_least_once", "at_most_once", "exactly_once"]
AckDeadlineSeconds = Annotated[float, Meta(ge=1, le=43_200)]
OnExhausted = Literal["dead_letter", "park"]
MessagesPerSecond = Annotated[float, Meta(gt=0, le=1_000_000)]
MaxOutstanding = Annotated[int, Meta(ge=1, le=100_000)]
Type = Literal["pull", "push"]
StoredType = Literal["pull", "push", "export"]
"""The types of subscriptions that there are; exports make their own."""
State = Literal["active", "paused", "draining"]
MinBackoffSeconds = Annotated[float, Meta(ge=0, le=86_400)]
MaxAttempts = Annotated[int, Meta(ge=1, le=10_000)]


class RateLimit(Body):
    """Limits of the subscription in all, and of each consumer; null is no limit."""

    messages_per_second: MessagesPerSecond | None = None
    """The limit over all consumers."""
    per_consumer_messages_per_second: MessagesPerSecond | None = None
    """The limit of each consumer."""


class RetryPolicy(Body):
    """Back-off between attempts, doubled from one to the next, with full jitter."""

    min_backoff_seconds: MinBackoffSeconds = 1.0
    """Seconds before the second attempt."""
    max_backoff_seconds: MinBackoffSeconds = 600.0
    """Seconds that an attempt waits at most."""
    max_attempts: MaxAttempts | None = None
    """The number of failures after which a message is given up. A number needs a
    `dead_letter_topic`, or `park`."""
    on_exhausted: OnExhausted = "dead_letter"
    """The rule for a message that failed `max_attempts` times. `park`, of an ordered subscription,
    parks its key until somebody skips or resumes it."""


class RetryPolicyView(RetryPolicy, Answer):
    """Back-off between attempts, doubled from one to the next, with full jitter."""


class StartAt(Body):
    """A place other than the two named ones where a subscription begins."""

    EXACTLY_ONE: ClassVar[tuple[str, ...]] = ("time", "offset", "snapshot")
    time: Moment | UnsetType = UNSET
    """The first message that is not older."""
    offset: Total | UnsetType = UNSET
    """The offset in every partition."""
    snapshot: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET
    """A snapshot of the same topic; the messages that were unacked then are delivered again."""


NamedStart = Literal["latest", "earliest"]
StartPosition = Annotated[
    NamedStart | StartAt,
    Meta(
        description=(
            "Where the subscription begins: at what is published from now on, at the "
            "first message kept, at a time, at an offset of every partition, or with "
            "what was unacked in a snapshot."
        )
    ),
]


class PlainSettings(msgspec.Struct, kw_only=True):
    """The settings of a subscription that are stored as they are asked for, each in a column of its
    name. The rows and values of `metadata` take them from here, and the bodies below."""

    dead_letter_topic: str | None = None
    """The topic that gets messages whose attempts are used up, and rejected ones. It must be there,
    and be another topic."""
    filter: Filter | None = None
    """A CEL expression over `attributes`, `data` (a JSON body, else null), `key`, `content_type`,
    `priority`, `publish_time`, `partition`, `offset` and `publisher_id`. Messages for which it
    is not true are not delivered."""
    max_outstanding: MaxOutstanding | None = None
    """The number of leased and waiting messages at which new deliveries pause."""
    labels: Labels = {}


class SubscriptionPut(PlainSettings, Body):
    """The whole subscription. Name, topic, delivery, order and start cannot be changed and may be
    left out; `topic` is needed where the subscription is not there yet."""

    FIXED = ("name", "topic", "delivery", "ordered", "start")
    name: Name | UnsetType = UNSET
    """The name of the subscription, unique in the tenant."""
    topic: Name | UnsetType = UNSET
    """The name of the topic that it reads."""
    type: Type = "pull"
    """The way that messages take: consumers pull them, or they are pushed to an endpoint."""
    push: Push | None = None
    """The endpoint of a subscription of type `push`, which needs it; null for `pull`."""
    delivery: DeliveryValue | UnsetType = UNSET
    """The promise for each message: `at_least_once` delivers it until it is acked; `at_most_once`
    acks it before it is delivered; `exactly_once` delivers it until it is acked, and counts one
    ack."""
    ordered: bool | UnsetType = UNSET
    """Messages of a key are delivered one by one, in the order in which they were published."""
    ack_deadline_seconds: AckDeadlineSeconds = 30.0
    """Seconds that a message is leased to a consumer."""
    retry: RetryPolicy = msgspec.field(default_factory=RetryPolicy)
    """The back-off between attempts, doubled from one to the next; each field of it has a
    default."""
    rate_limit: RateLimit | None = None
    """Limits of messages per second, of the subscription in all and of each consumer; null is no
    limit."""
    start: StartPosition | UnsetType = UNSET


SubscriptionPatch = patch_of(SubscriptionPut)


class SubscriptionCreate(SubscriptionPut, kw_only=True):
    """A request to create a subscription. `topic` is that of the path, if it is given."""

    name: Name
    delivery: DeliveryValue = "at_least_once"
    ordered: bool = False


class Subscription(SubscriptionPut, Answer, kw_only=True):
    """An independent reader of a topic; its consumers share its messages."""

    # The subscription of an export is shown, and cannot be asked for.
    type: StoredType  # type: ignore[assignment]
    """The way that messages take: `export` is the subscription of an export, which only its runs
    read."""
    push: PushView | None
    retry: RetryPolicyView
    start: Any
    """The place where it began: `latest`, `earliest`, or an object as in the request."""
    state: State
    """`paused`: nothing is delivered; `draining`: only messages that were delivered before."""
    state_reason: str | None
    """The reason that was given when it was paused or resumed; null where none was."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SubscriptionPage(Answer):
    """One page of subscriptions."""

    subscriptions: list[Subscription]
    """The subscriptions of this page, by name."""
    next_page_token: NextPageToken


class SkipRule(Answer):
    """A rule that settles the messages for which its expression is true."""

    id: str
    """The id of the rule."""
    expression: str
    """The CEL expression; messages for which it is true are skipped."""
    reason: str
    """The reason that its author gave."""
    created_by: str
    """The author of the rule, as audits name it."""
    created_at: CreatedAt
    removed_by: str | None
    """The caller that removed the rule; null while it holds."""
    removed_at: datetime | None
    """The time at which it was removed; null while it holds."""


class SkipRules(Answer):
    """The skip rules of a subscription."""

    skip_rules: list[SkipRule]
    """The rules that hold, and removed ones where the request asks for them."""
    skipped: int
    """Messages that rules have skipped since the subscription was made or last moved, as of the
    last commit."""


class SkipRuleCreate(Body):
    expression: Filter
    """CEL, over what filters see."""
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=1024, extra_json_schema={"pattern": r"^[^\u0000]*$"}),
    ]
    """The reason that readers of the audit see."""


class CursorBooks(Answer):
    """read_to − start = acked + filtered + skipped + expired + dead_lettered + open_deliveries +
    pending, and exceptions = open_deliveries."""

    partition: PartitionNumber
    lane: LaneNumber
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


class Reconciliation(Answer):
    """The answer whether every message is accounted for."""

    balanced: bool
    """Whether `difference` is 0 everywhere."""
    partitions: list[CursorBooks]
    """The sums of each lane of each partition."""


class PartitionBacklog(OpenAnswer, kw_only=True):
    """read_to - start = acked + filtered + skipped + expired + dead_lettered + exceptions +
    pending"""

    DESCRIBED_BY = CursorBooks

    partition: PartitionNumber
    lane: int | UnsetType = UNSET
    """The priority; only where the topic has several."""
    messages: int
    """The number of messages that are not settled."""
    start: int | UnsetType = UNSET
    floor: int
    read_to: int
    end: int | None
    """One past the last message; null until the store has told it."""
    pending: int
    exceptions: int | UnsetType = UNSET
    """Open deliveries that the cursor has stepped over."""
    acked_ranges: int | UnsetType = UNSET
    """The number of ranges of acked messages above the floor."""
    acked: int | UnsetType = UNSET
    filtered: int | UnsetType = UNSET
    skipped: int | UnsetType = UNSET
    expired: int | UnsetType = UNSET
    dead_lettered: int | UnsetType = UNSET
    failure: str | UnsetType | None = UNSET
    """The error for which the partition cannot be read now; null where there is none."""


class Backlog(Answer):
    """The messages of a subscription that wait."""

    messages: int
    """Messages that are not acked yet."""
    leased: int
    """The number of messages that are leased to consumers now."""
    waiting_redelivery: int
    """The number of messages that wait for their back-off or for another attempt."""
    waiting_pulls: int
    """The number of pulls that wait for a message."""
    streams: int
    """Streams that are open."""
    paused: str | None
    """The reason that nothing new is delivered: paused, draining, too_many_outstanding,
    blocked_by_keys (messages wait for earlier ones of their keys), too_many_ranges,
    too_many_exceptions, rate_limited, tenant_in_flight (the tenant has as many messages leased as
    it may)."""
    throttles: list[Throttle]
    """The limits that slow it now, beside its own settings."""
    forwarders: int
    """The number of forwarders that own its partitions between them."""
    push: PushStatus | None
    """The state of pushing; null where nothing of it is pushed."""
    partitions: list[PartitionBacklog]
    """The backlog of each partition, and of each lane where the topic has priorities."""


MIN_MESSAGES_OF_BACKLOG = Parameter(
    "min_messages_of_backlog",
    "min_messages",
    "query",
    ("Only subscriptions with this many messages have lines, and one when there are fewer again."),
    Annotated[int, Meta(ge=0, le=999_999_999)],
    default=0,
)

OPERATIONS = table(
    "subscriptions",
    Operation(
        id="listTopicSubscriptions",
        route="GET /topics/{topic}/subscriptions",
        needs="read topic:topic",
        summary="List a topic's subscriptions",
        paged=True,
        answers=(ok(SubscriptionPage, "One page, by name."),),
    ),
    Operation(
        id="createSubscription",
        route="POST /topics/{topic}/subscriptions",
        needs="manage subscription:?",
        summary="Create a subscription",
        description="Names are unique per tenant, over all topics.",
        body=SubscriptionCreate,
        answers=(created(Subscription, "The subscription; usable at every process at once."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="getTopicSubscription",
        route="GET /topics/{topic}/subscriptions/{name}",
        needs="read subscription:name",
        summary="Get a subscription",
        answers=(ok(Subscription, "The subscription.", ETAG),),
    ),
    Operation(
        id="deleteTopicSubscription",
        route="DELETE /topics/{topic}/subscriptions/{name}",
        needs="manage subscription:name",
        summary="Delete a subscription",
        description=(
            "Refused while something would be lost, unless forced; `holds` of the problem "
            "names it, with counts. That is messages that are not acked, delayed messages of "
            "its topic, and open dead letters."
        ),
        parameters=(
            IF_MATCH,
            FORCE,
        ),
        answers=(no_content("Gone, with its ack state."),),
        problems=(HELD,),
    ),
    Operation(
        id="listSubscriptions",
        route="GET /subscriptions",
        needs="read subscription:?",
        summary="List subscriptions",
        paged=True,
        answers=(ok(SubscriptionPage, "One page, by name."),),
    ),
    Operation(
        id="getSubscription",
        route="GET /subscriptions/{name}",
        needs="read subscription:name",
        summary="Get a subscription",
        answers=(ok(Subscription, "The subscription.", ETAG),),
    ),
    Operation(
        id="putSubscription",
        route="PUT /subscriptions/{name}",
        needs="manage subscription:name",
        summary="Create or change a subscription",
        description=(
            "As often as wanted with the same outcome. A field that is left out gets its default, "
            "but for topic, delivery, order and start, which cannot be changed."
        ),
        parameters=(IF_MATCH,),
        body=SubscriptionPut,
        answers=(
            ok(Subscription, "The subscription is now as the body says.", ETAG),
            created(
                Subscription, "The subscription was not there; usable at every process at once."
            ),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="patchSubscription",
        route="PATCH /subscriptions/{name}",
        needs="manage subscription:name",
        summary="Change a subscription",
        description=(
            "Fields that the body does not name stay. The process that delivers follows within 2 "
            "s; leased messages stay leased."
        ),
        parameters=(IF_MATCH,),
        body=SubscriptionPatch,
        answers=(ok(Subscription, "The subscription as it is now.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="deleteSubscription",
        route="DELETE /subscriptions/{name}",
        needs="manage subscription:name",
        summary="Delete a subscription",
        description=(
            "Refused while something would be lost, unless forced; `holds` of the problem "
            "names it, with counts. That is messages that are not acked, delayed messages of "
            "its topic, and open dead letters."
        ),
        parameters=(
            IF_MATCH,
            FORCE,
        ),
        answers=(no_content("Gone, with its ack state."),),
        problems=(HELD,),
    ),
    Operation(
        id="listSkipRules",
        route="GET /subscriptions/{name}/skip_rules",
        needs="read subscription:name",
        summary="List skip rules",
        description=(
            "Those that hold, in the order in which they were made; all that ever did where "
            "`removed` is true."
        ),
        parameters=(
            Parameter(
                "",
                "removed",
                "query",
                "Also those that were removed; the last 1,000.",
                bool,
                default=False,
            ),
        ),
        answers=(ok(SkipRules, "The rules."),),
    ),
    Operation(
        id="addSkipRule",
        route="POST /subscriptions/{name}/skip_rules",
        needs="manage subscription:name",
        summary="Add a skip rule",
        description=(
            "From now on (within 2 s) messages for which the expression is true are settled as "
            "skipped instead of delivered, also those that wait in the backlog. Leased "
            "messages stay leased."
        ),
        body=SkipRuleCreate,
        answers=(Success(201, "The rule.", SkipRule),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="removeSkipRule",
        route="DELETE /subscriptions/{name}/skip_rules/{rule}",
        needs="manage subscription:name",
        summary="Remove a skip rule",
        description=(
            "Messages that it skipped stay skipped. The rule stays in the audit; removing it "
            "twice is no error."
        ),
        answers=(no_content("It no longer holds."),),
    ),
    Operation(
        id="previewSubscriptionFilter",
        route="POST /subscriptions/{name}:preview_filter",
        needs="read subscription:name",
        summary="Try a filter on recent messages",
        description=(
            "Reads messages of the topic, touches no ack state, and compares with the present "
            "filter."
        ),
        body=FilterPreviewRequest,
        answers=(ok(FilterPreview, "The effect of the filter."),),
    ),
    Operation(
        id="getReconciliation",
        route="GET /subscriptions/{name}/reconciliation",
        needs="read subscription:name",
        summary="Whether every message is accounted for",
        description="From what is committed, in one snapshot.",
        answers=(ok(Reconciliation, "The terms of each partition and lane, and what is missing."),),
    ),
    Operation(
        id="listSubscriptionHolds",
        route="GET /subscriptions/{name}/holds",
        needs="manage subscription:name",
        summary="Ask for the losses that a delete would cause",
        description=(
            "Counted as a delete counts it, which is refused without `force` while there is any."
        ),
        answers=(ok(HoldList, "All that holds it; none when it can be deleted."),),
    ),
    Operation(
        id="getBacklog",
        route="GET /subscriptions/{name}/backlog",
        needs="read subscription:name",
        summary="Ask for the backlog of a subscription",
        answers=(ok(Backlog, "Counts of messages, and the reason if nothing is delivered."),),
    ),
    Operation(
        id="streamBacklog",
        route="GET /subscriptions/{name}/backlog:stream",
        needs="read subscription:name",
        summary="Stream the backlog of a subscription",
        description=(
            "A line of what it is, and another whenever it has changed, at most one a second. "
            "For those who start and stop workers. It ends with the subscription."
        ),
        parameters=(
            MIN_MESSAGES_OF_BACKLOG,
            HEARTBEAT_SECONDS,
            MAX_SECONDS,
        ),
        answers=(
            lines(
                "Lines, the first a heartbeat and the last an end; "
                "docs/guides/autoscaling.md has them. NDJSON, or Server-Sent "
                "Events for clients that accept these."
            ),
        ),
        problems=(TOO_LARGE,),
        head=False,
    ),
    Operation(
        id="streamBacklogs",
        route="GET /backlog:stream",
        needs="read subscription:?",
        summary="Stream the backlogs of subscriptions",
        description=(
            "As of one subscription, of all those that match, also of those that are made later."
        ),
        parameters=(
            Parameter(
                "",
                "subscription",
                "query",
                (
                    "A name, or the beginning of names and a `*`; several are given one by one. "
                    "Without it, all. They may match 1,000."
                ),
                Annotated[
                    list[
                        Annotated[
                            str, Meta(pattern=r"^([A-Za-z0-9._-]{1,128}|[A-Za-z0-9._-]{0,128}\*)\Z")
                        ]
                    ],
                    Meta(max_length=100),
                ],
            ),
            MIN_MESSAGES_OF_BACKLOG,
            HEARTBEAT_SECONDS,
            MAX_SECONDS,
        ),
        answers=(
            lines(
                "Lines, the first a heartbeat and the last an end; "
                "docs/guides/autoscaling.md has them. NDJSON, or Server-Sent "
                "Events for clients that accept these."
            ),
        ),
        problems=(
            NOT_FOUND,
            TOO_LARGE,
        ),
        head=False,
    ),
)
