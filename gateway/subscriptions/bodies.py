"""A subscription in JSON: what makes one, what changes one, what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge.expressions import BadExpression, compile_filter
from edge.problem import FieldError, invalid
from gateway.http.merge_patch import Patch, merged
from gateway.names import label_errors, name_errors
from gateway.subscriptions.push_bodies import NewSecret, PushBody
from gateway.subscriptions.push_bodies import view as push_view
from gateway.subscriptions.start_positions import Start, start_errors, start_spec
from gateway.topics.bodies import immutable
from metadata.subscriptions.push_config import PushConfig
from metadata.types import (
    Delivery,
    OnExhausted,
    RetryPolicy,
    Subscription,
    SubscriptionSpec,
    SubscriptionType,
)

MAX_OUTSTANDING = 100_000
MAX_RATE = 1_000_000
DEFAULT_ACK_DEADLINE_S = 30.0

Backoff = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Deadline = Annotated[float, msgspec.Meta(ge=1, le=43_200)]
Attempts = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=MAX_RATE)]
Outstanding = Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTSTANDING)]
Guarantee = Literal["at_least_once", "at_most_once", "exactly_once"]


class RetryBody(msgspec.Struct, forbid_unknown_fields=True):
    """Back-off between attempts, and what becomes of a message whose attempts are used up."""

    min_backoff_seconds: Backoff = 1.0
    max_backoff_seconds: Backoff = 600.0
    max_attempts: Attempts | None = None
    on_exhausted: Literal["dead_letter", "park"] = "dead_letter"

    def policy(self) -> RetryPolicy:
        return RetryPolicy(self.min_backoff_seconds, self.max_backoff_seconds, self.max_attempts)


class RateLimitBody(msgspec.Struct, forbid_unknown_fields=True):
    """Of the subscription in all, and of each consumer; null: no limit."""

    messages_per_second: Rate | None = None
    per_consumer_messages_per_second: Rate | None = None


class SubscriptionPut(msgspec.Struct, forbid_unknown_fields=True):
    """What `PUT /subscriptions/{name}` takes: the whole subscription. What cannot be changed may be
    left out, but for the topic of one that is not there."""

    name: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    type: Literal["pull", "push"] = "pull"
    push: PushBody | None = None
    delivery: Guarantee | UnsetType = UNSET
    ordered: bool | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    ack_deadline_seconds: Deadline = DEFAULT_ACK_DEADLINE_S
    retry: RetryBody = msgspec.field(default_factory=RetryBody)
    dead_letter_topic: str | None = None
    filter: str | None = None
    rate_limit: RateLimitBody | None = None
    max_outstanding: Outstanding | None = None
    labels: dict[str, str] = {}


class SubscriptionCreate(SubscriptionPut, forbid_unknown_fields=True, kw_only=True):
    """What `POST /topics/{topic}/subscriptions` takes."""

    name: str


class SubscriptionPatch(msgspec.Struct, forbid_unknown_fields=True):
    """What `PATCH /subscriptions/{name}` takes, merged into the subscription (`patched`)."""

    name: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    type: Literal["pull", "push"] | UnsetType = UNSET
    push: PushBody | UnsetType | None = UNSET
    delivery: Guarantee | UnsetType = UNSET
    ordered: bool | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    ack_deadline_seconds: Deadline | UnsetType = UNSET
    retry: RetryBody | UnsetType = UNSET
    dead_letter_topic: str | UnsetType | None = UNSET
    filter: str | UnsetType | None = UNSET
    rate_limit: RateLimitBody | UnsetType | None = UNSET
    max_outstanding: Outstanding | UnsetType | None = UNSET
    labels: dict[str, str] | UnsetType = UNSET


MakePush = Callable[[PushBody, PushConfig | None], PushConfig]
"""Of what is asked for, and of what there is; a 422 Problem."""


def start_of(body: SubscriptionPut) -> Start:
    return "latest" if body.start is UNSET else body.start


def new_spec(
    body: SubscriptionPut, name: str, topic_name: str, make_push: MakePush
) -> SubscriptionSpec:
    """Of a subscription of that topic that is not there yet. Raises a 422 Problem, or 409 where
    the body names another than the path."""
    _check_name(body, name)
    if body.topic is not UNSET and body.topic != topic_name:
        raise immutable("topic", f"it is {topic_name!r} by the path")
    start = start_of(body)
    errors = name_errors(name) + start_errors(start)
    if errors:
        raise invalid("The body does not fit.", errors)
    blank = SubscriptionSpec(
        name,
        delivery=Delivery("at_least_once" if body.delivery is UNSET else body.delivery),
        ordered=body.ordered is True,
        start=start_spec(start),
    )
    return _checked(_applied(body, blank, make_push), topic_name, None)


def changed(
    body: SubscriptionPut | SubscriptionPatch, present: Subscription, make_push: MakePush
) -> SubscriptionSpec:
    """What the subscription becomes. Raises a 422 Problem, or 409 for what cannot change."""
    _check_immutable(body, present)
    spec = _applied(body, spec_of(present), make_push)
    return _checked(spec, present.topic_name, present.filter)


def patched(patch: Patch, present: Subscription) -> SubscriptionPatch:
    """Raises a 422 Problem."""
    shown = view(present)
    push = shown["push"]
    if push is not None:
        del push["signing"]  # the keys there are stay, where the patch does not name it
        given = patch.get("push")
        headers = given.get("headers") if isinstance(given, dict) else None
        if isinstance(headers, dict):  # names of headers are the same in whatever case
            names = {name.lower(): name for name in headers}
            kept = push["headers"].items()
            push["headers"] = {names.get(name.lower(), name): value for name, value in kept}
    return merged(patch, shown, SubscriptionPatch, SubscriptionPut)


def spec_of(subscription: Subscription) -> SubscriptionSpec:
    """What a caller would have to ask for to get it."""
    return SubscriptionSpec(
        name=subscription.name,
        type=subscription.type,
        delivery=subscription.delivery,
        ordered=subscription.ordered,
        ack_deadline_s=subscription.ack_deadline_s,
        retry=subscription.retry,
        start=subscription.start,
        labels=subscription.labels,
        dead_letter_topic=subscription.dead_letter_topic,
        on_exhausted=subscription.on_exhausted,
        filter=subscription.filter,
        rate_limit=subscription.rate_limit,
        consumer_rate_limit=subscription.consumer_rate_limit,
        max_outstanding=subscription.max_outstanding,
        push=subscription.push,
    )


def filter_errors(text: str | None, field: str = "filter") -> list[FieldError]:
    """Says where in the text."""
    if text is not None:
        try:
            compile_filter(text)
        except BadExpression as error:
            return [error.field_error(field)]
    return []


def view(subscription: Subscription, made: Sequence[NewSecret] = ()) -> dict[str, Any]:
    """A subscription as the API shows it; with the signing secrets that were just made."""
    push = subscription.push
    limits = subscription.rate_limit, subscription.consumer_rate_limit
    return {
        "name": subscription.name,
        "topic": subscription.topic_name,
        "type": subscription.type.value,
        "push": None if push is None else push_view(push, made),
        "delivery": subscription.delivery.value,
        "ordered": subscription.ordered,
        "filter": subscription.filter,
        "ack_deadline_seconds": subscription.ack_deadline_s,
        "retry": {
            "min_backoff_seconds": subscription.retry.min_backoff_s,
            "max_backoff_seconds": subscription.retry.max_backoff_s,
            "max_attempts": subscription.retry.max_attempts,
            "on_exhausted": subscription.on_exhausted.value,
        },
        "dead_letter_topic": subscription.dead_letter_topic,
        "rate_limit": None
        if limits == (None, None)
        else {"messages_per_second": limits[0], "per_consumer_messages_per_second": limits[1]},
        "max_outstanding": subscription.max_outstanding,
        "start": subscription.start,
        "labels": dict(subscription.labels),
        "state": subscription.state.value,
        "state_reason": subscription.state_reason,
        "created_at": subscription.created_at,
        "updated_at": subscription.updated_at,
    }


def _applied(
    body: SubscriptionPut | SubscriptionPatch, spec: SubscriptionSpec, make_push: MakePush
) -> SubscriptionSpec:
    spec = _typed(body, spec, make_push)
    if body.ack_deadline_seconds is not UNSET:
        spec = replace(spec, ack_deadline_s=body.ack_deadline_seconds)
    if body.retry is not UNSET:
        on_exhausted = OnExhausted(body.retry.on_exhausted)
        spec = replace(spec, retry=body.retry.policy(), on_exhausted=on_exhausted)
    if body.dead_letter_topic is not UNSET:
        spec = replace(spec, dead_letter_topic=body.dead_letter_topic)
    if body.filter is not UNSET:
        spec = replace(spec, filter=body.filter)
    if body.rate_limit is not UNSET:
        limit = body.rate_limit or RateLimitBody()
        spec = replace(
            spec,
            rate_limit=limit.messages_per_second,
            consumer_rate_limit=limit.per_consumer_messages_per_second,
        )
    if body.max_outstanding is not UNSET:
        spec = replace(spec, max_outstanding=body.max_outstanding)
    if body.labels is not UNSET:
        spec = replace(spec, labels=body.labels)
    return spec


def _typed(
    body: SubscriptionPut | SubscriptionPatch, spec: SubscriptionSpec, make_push: MakePush
) -> SubscriptionSpec:
    kind = spec.type if body.type is UNSET else SubscriptionType(body.type)
    if kind is not SubscriptionType.PUSH:
        if isinstance(body.push, PushBody):
            raise invalid("The body does not fit.", [FieldError("push", "needs type push")])
        return replace(spec, type=kind, push=None)
    if isinstance(body.push, PushBody):
        return replace(spec, type=kind, push=make_push(body.push, spec.push))
    if body.push is None or spec.push is None:
        detail = "required for type push: an object with the url of the endpoint"
        raise invalid("The body does not fit.", [FieldError("push", detail)])
    return replace(spec, type=kind)


def named_topics(of: SubscriptionSpec | Subscription) -> list[tuple[str, str]]:
    """By field: where the platform publishes for it."""
    named = [("dead_letter_topic", of.dead_letter_topic)]
    if of.push is not None:
        named.append(("push.events_topic", of.push.events_topic))
    return [(field, name) for field, name in named if name is not None]


def _checked(spec: SubscriptionSpec, topic_name: str, kept_filter: str | None) -> SubscriptionSpec:
    """The rules between fields; a 422 Problem names each field. A filter that was taken before and
    stays is not looked at: rules for new ones may be stricter."""
    errors = label_errors(dict(spec.labels))
    if spec.filter != kept_filter:
        errors += filter_errors(spec.filter)
    retry, parks = spec.retry, spec.on_exhausted is OnExhausted.PARK
    if retry.min_backoff_s > retry.max_backoff_s:
        errors.append(FieldError("retry.min_backoff_seconds", "at most max_backoff_seconds"))
    if parks and not spec.ordered:
        errors.append(FieldError("retry.on_exhausted", "park needs an ordered subscription"))
    if retry.max_attempts is not None and spec.dead_letter_topic is None and not parks:
        detail = "needs a dead_letter_topic, or on_exhausted park in an ordered subscription"
        errors.append(FieldError("retry.max_attempts", detail))
    for field, name in named_topics(spec):
        errors += name_errors(name, field)
        if name == topic_name:
            detail = "another topic than the one the subscription reads"
            errors.append(FieldError(field, detail))
    if errors:
        raise invalid("The body does not fit.", errors)
    return spec


def _check_immutable(body: SubscriptionPut | SubscriptionPatch, present: Subscription) -> None:
    _check_name(body, present.name)
    for field, given, has in (
        ("topic", body.topic, present.topic_name),
        ("delivery", body.delivery, present.delivery.value),
        ("ordered", body.ordered, present.ordered),
    ):
        if given is not UNSET and given != has:
            raise immutable(field, f"it is {has!r}")
    if body.start is not UNSET:
        errors = start_errors(body.start)
        if errors:
            raise invalid("The body does not fit.", errors)
        if start_spec(body.start) != present.start:
            raise immutable("start", "POST /subscriptions/{name}/seek moves a subscription")


def _check_name(body: SubscriptionPut | SubscriptionPatch, name: str) -> None:
    if body.name is not UNSET and body.name != name:
        raise immutable("name", f"it is {name!r}")
