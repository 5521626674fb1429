# Generated from openapi/: `make generate`. Do not edit.
"""Calls of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.bodies import position, subscription_body
from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    member,
    page,
    part,
    put,
)
from packetboat.models import (
    Backlog,
    FilterPreview,
    Flow,
    Hold,
    Position,
    Reconciliation,
    SkipRule,
    SkipRules,
    Sought,
    StreamTicket,
    Subscription,
    SubscriptionState,
)
from packetboat.models.page import Page


def create_subscription(topic: str, name: str, settings: Mapping[str, Any]) -> Call[Subscription]:
    body: dict[str, Any] = {"name": name, **settings}
    body = subscription_body(body)
    return change("POST", f"/topics/{part(topic)}/subscriptions", body, Subscription, tagged=True)


def get_subscription(name: str) -> Call[Subscription]:
    return fetch(f"/subscriptions/{part(name)}", Subscription, tagged=True)


def list_topic_subscriptions(
    topic: str, page_size: int, page_token: str | None
) -> Call[Page[Subscription]]:
    return page(
        f"/topics/{part(topic)}/subscriptions", "subscriptions", Subscription, page_size, page_token
    )


def list_subscriptions(page_size: int, page_token: str | None) -> Call[Page[Subscription]]:
    return page("/subscriptions", "subscriptions", Subscription, page_size, page_token)


def put_subscription(
    name: str, settings: Mapping[str, Any], topic: str | None, if_match: str | None
) -> Call[Subscription]:
    body: dict[str, Any] = {**settings}
    put(body, topic=topic)
    body = subscription_body(body)
    return change(
        "PUT",
        f"/subscriptions/{part(name)}",
        body,
        Subscription,
        safe=settings.get("push") is None,
        if_match=if_match,
        tagged=True,
    )


def patch_subscription(
    name: str, settings: Mapping[str, Any], if_match: str | None
) -> Call[Subscription]:
    body: dict[str, Any] = {**settings}
    body = subscription_body(body)
    return change(
        "PATCH",
        f"/subscriptions/{part(name)}",
        body,
        Subscription,
        safe=settings.get("push") is None,
        if_match=if_match,
        tagged=True,
    )


def delete_subscription(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/subscriptions/{part(name)}", force=force, if_match=if_match)


def list_subscription_holds(name: str) -> Call[tuple[Hold, ...]]:
    return Call(
        get(f"/subscriptions/{part(name)}/holds"), member("holds", tuple[Hold, ...]), safe=True
    )


def create_stream_ticket(name: str) -> Call[StreamTicket]:
    return change(
        "POST", f"/subscriptions/{part(name)}/stream_tickets", None, StreamTicket, safe=True
    )


def pause(name: str, reason: str | None) -> Call[SubscriptionState]:
    body: dict[str, Any] = {}
    put(body, reason=reason)
    return change(
        "POST", f"/subscriptions/{part(name)}/pause", body or None, SubscriptionState, safe=True
    )


def resume(name: str, reason: str | None) -> Call[SubscriptionState]:
    body: dict[str, Any] = {}
    put(body, reason=reason)
    return change(
        "POST", f"/subscriptions/{part(name)}/resume", body or None, SubscriptionState, safe=True
    )


def drain(name: str, reason: str | None) -> Call[SubscriptionState]:
    body: dict[str, Any] = {}
    put(body, reason=reason)
    return change(
        "POST", f"/subscriptions/{part(name)}/drain", body or None, SubscriptionState, safe=True
    )


def seek(name: str, to: Position, dry_run: bool) -> Call[Sought]:
    body: dict[str, Any] = {"to": position(to), "dry_run": dry_run}
    return change("POST", f"/subscriptions/{part(name)}/seek", body, Sought, safe=dry_run)


def get_backlog(name: str) -> Call[Backlog]:
    return fetch(f"/subscriptions/{part(name)}/backlog", Backlog)


def get_reconciliation(name: str) -> Call[Reconciliation]:
    return fetch(f"/subscriptions/{part(name)}/reconciliation", Reconciliation)


def preview_subscription_filter(name: str, expression: str, messages: int) -> Call[FilterPreview]:
    body: dict[str, Any] = {"filter": expression, "messages": messages}
    return change(
        "POST", f"/subscriptions/{part(name)}:preview_filter", body, FilterPreview, safe=True
    )


def list_skip_rules(name: str, removed: bool) -> Call[SkipRules]:
    return fetch(f"/subscriptions/{part(name)}/skip_rules", SkipRules, {"removed": removed or None})


def add_skip_rule(name: str, expression: str, reason: str) -> Call[SkipRule]:
    body: dict[str, Any] = {"expression": expression, "reason": reason}
    return change("POST", f"/subscriptions/{part(name)}/skip_rules", body, SkipRule)


def remove_skip_rule(name: str, rule: str) -> Call[None]:
    return delete(f"/subscriptions/{part(name)}/skip_rules/{part(rule)}")._replace(safe=True)


def say_flow(
    name: str,
    messages_per_second: float | None,
    max_outstanding: int | None,
    ttl_seconds: float | None,
    reason: str | None,
) -> Call[Flow]:
    body: dict[str, Any] = {}
    put(
        body,
        messages_per_second=messages_per_second,
        max_outstanding=max_outstanding,
        ttl_seconds=ttl_seconds,
        reason=reason,
    )
    return change("POST", f"/subscriptions/{part(name)}/flow", body, Flow, safe=True)


def get_flow(name: str) -> Call[Flow]:
    return fetch(f"/subscriptions/{part(name)}/flow", Flow)


def end_flow(name: str) -> Call[None]:
    return delete(f"/subscriptions/{part(name)}/flow")._replace(safe=True)
