"""Subscriptions between the API and the rows: the rules across fields, changes and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from edge.expressions import BadExpression, compile_filter
from edge.problem import FieldError, invalid
from gateway.http.merge_patch import create_of, merged_into
from gateway.names import label_errors, name_errors
from gateway.subscriptions.push_bodies import NewSecret
from gateway.subscriptions.push_bodies import put_of as push_put
from gateway.subscriptions.push_bodies import view as push_view
from gateway.topics.bodies import immutable
from metadata.subscriptions.push_config import PushConfig
from metadata.types import (
    RetryPolicy,
    Subscription,
    SubscriptionSpec,
)
from openapi import subscriptions as contract
from openapi.contract import Body, fields_of
from openapi.webhooks import Push
from positions.targets import To

MakePush = Callable[[Push, PushConfig | None], PushConfig]
"""Makes the push that a body asks for of the one there is. Raises a 422 Problem."""


def start_of(body: contract.SubscriptionPut) -> To:
    return "latest" if body.start is UNSET else body.start


def start_spec(start: To) -> str | Mapping[str, object]:
    """Return a start as the subscription keeps it."""
    if isinstance(start, str):
        return start
    if start.time is not UNSET:
        return {"time": start.time.isoformat()}
    if start.snapshot is not UNSET:
        return {"snapshot": start.snapshot}
    return {"offset": start.offset}


def to_create(body: contract.SubscriptionPut, name: str) -> contract.SubscriptionCreate:
    """Return the body that creates the subscription of a PUT. Raise a 409 Problem where the body
    names another subscription than the path."""
    _check_name(body, name)
    return create_of(body, contract.SubscriptionCreate, name)


def new_spec(
    body: contract.SubscriptionCreate, topic_name: str, make_push: MakePush
) -> SubscriptionSpec:
    """Return a new subscription of that topic. Raise a 422 Problem, or a 409 one where the body
    names another topic than the path."""
    if body.topic is not UNSET and body.topic != topic_name:
        raise immutable("topic", f"it is {topic_name!r} by the path")
    errors = name_errors(body.name)
    if errors:
        raise invalid("The body does not fit.", errors)
    blank = SubscriptionSpec(
        body.name,
        delivery=body.delivery,
        ordered=body.ordered,
        start=start_spec(start_of(body)),
    )
    return _checked(_applied(body, blank, make_push), topic_name, None)


def changed(
    body: contract.SubscriptionPut, present: Subscription, make_push: MakePush
) -> SubscriptionSpec:
    """Return the changed subscription. Raise a 422 Problem, or a 409 one for a field that cannot
    change."""
    _check_immutable(body, present)
    spec = _applied(body, spec_of(present), make_push)
    return _checked(spec, present.topic_name, present.filter)


def patched(patch: Body, present: Subscription) -> contract.SubscriptionPut:
    """Return what a patch asks for of a subscription. Raise a 422 Problem."""
    whole = contract.SubscriptionPut(
        push=None if present.push is None else push_put(present.push),
        retry=contract.RetryPolicy(**_retry(present)),
        **_settings(present),
    )
    push = getattr(patch, "push", UNSET)
    headers = getattr(push, "headers", UNSET)
    if whole.push is not None and isinstance(headers, dict):
        # Names of headers are the same in whatever case.
        names = {name.lower(): name for name in headers}
        kept = whole.push.headers.items()
        whole.push.headers = {names.get(name.lower(), name): value for name, value in kept}
    body = merged_into(patch, whole)
    if body.type != "push" and push is UNSET:
        body.push = None
    return body


def spec_of(subscription: Subscription) -> SubscriptionSpec:
    """Return what a caller would have to ask for to get the subscription."""
    return SubscriptionSpec(**fields_of(SubscriptionSpec, subscription))


def filter_errors(text: str | None, field: str = "filter") -> list[FieldError]:
    """Return the fault of a filter, with its place in the text."""
    if text is not None:
        try:
            compile_filter(text)
        except BadExpression as error:
            return [error.field_error(field)]
    return []


def view(subscription: Subscription, made: Sequence[NewSecret] = ()) -> contract.Subscription:
    """Return a subscription as the API shows it, with the signing secrets that were just made."""
    push = subscription.push
    return contract.Subscription(
        name=subscription.name,
        topic=subscription.topic_name,
        push=None if push is None else push_view(push, made),
        delivery=subscription.delivery,
        ordered=subscription.ordered,
        retry=contract.RetryPolicyView(**_retry(subscription)),
        start=subscription.start,
        state=subscription.state,
        state_reason=subscription.state_reason,
        created_at=subscription.created_at,
        updated_at=subscription.updated_at,
        **_settings(subscription),
    )


def _settings(subscription: Subscription) -> dict[str, Any]:
    """Return the fields that are the same in a body and in an answer."""
    limits = subscription.rate_limit, subscription.consumer_rate_limit
    return {
        "type": subscription.type,
        "ack_deadline_seconds": subscription.ack_deadline_s,
        "rate_limit": None if limits == (None, None) else contract.RateLimit(*limits),
        **fields_of(contract.PlainSettings, subscription),
    }


def _retry(subscription: Subscription) -> dict[str, Any]:
    return {
        "min_backoff_seconds": subscription.retry.min_backoff_s,
        "max_backoff_seconds": subscription.retry.max_backoff_s,
        "max_attempts": subscription.retry.max_attempts,
        "on_exhausted": subscription.on_exhausted,
    }


def _applied(
    body: contract.SubscriptionPut, spec: SubscriptionSpec, make_push: MakePush
) -> SubscriptionSpec:
    retry, limit = body.retry, body.rate_limit or contract.RateLimit()
    return replace(
        _typed(body, spec, make_push),
        ack_deadline_s=body.ack_deadline_seconds,
        retry=RetryPolicy(retry.min_backoff_seconds, retry.max_backoff_seconds, retry.max_attempts),
        on_exhausted=retry.on_exhausted,
        rate_limit=limit.messages_per_second,
        consumer_rate_limit=limit.per_consumer_messages_per_second,
        **fields_of(contract.PlainSettings, body),
    )


def _typed(
    body: contract.SubscriptionPut, spec: SubscriptionSpec, make_push: MakePush
) -> SubscriptionSpec:
    """Return the subscription with its type and push. A push that stays as it is is not looked at
    again: the tenant may have other rules for endpoints by now."""
    kind = body.type
    if kind != "push":
        if body.push is not None:
            raise invalid("The body does not fit.", [FieldError("push", "needs type push")])
        return replace(spec, type=kind, push=None)
    if body.push is None:
        detail = "required for type push: an object with the url of the endpoint"
        raise invalid("The body does not fit.", [FieldError("push", detail)])
    if spec.push is not None and body.push == push_put(spec.push):
        return replace(spec, type=kind)
    return replace(spec, type=kind, push=make_push(body.push, spec.push))


def named_topics(of: SubscriptionSpec | Subscription) -> list[tuple[str, str]]:
    """Return the topics that the platform publishes to for a subscription, by field."""
    named = [("dead_letter_topic", of.dead_letter_topic)]
    if of.push is not None:
        named.append(("push.events_topic", of.push.events_topic))
    return [(field, name) for field, name in named if name is not None]


def _checked(spec: SubscriptionSpec, topic_name: str, kept_filter: str | None) -> SubscriptionSpec:
    """Return a subscription whose fields go together; raise a 422 Problem that names the faults.
    A filter that stays is not looked at: rules for new ones may be stricter."""
    errors = label_errors(spec.labels)
    if spec.filter != kept_filter:
        errors += filter_errors(spec.filter)
    retry, parks = spec.retry, spec.on_exhausted == "park"
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


def _check_immutable(body: contract.SubscriptionPut, present: Subscription) -> None:
    _check_name(body, present.name)
    for field, given, has in (
        ("topic", body.topic, present.topic_name),
        ("delivery", body.delivery, present.delivery),
        ("ordered", body.ordered, present.ordered),
    ):
        if given is not UNSET and given != has:
            raise immutable(field, f"it is {has!r}")
    if body.start is not UNSET and start_spec(body.start) != present.start:
        raise immutable("start", "POST /subscriptions/{name}/seek moves a subscription")


def _check_name(body: contract.SubscriptionPut, name: str) -> None:
    if body.name is not UNSET and body.name != name:
        raise immutable("name", f"it is {name!r}")
