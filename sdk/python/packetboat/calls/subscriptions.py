# Generated from openapi/: `make generate`. Do not edit.
"""Calls of subscriptions, snapshots, webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from packetboat.calls.bodies import position, subscription_body
from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    member,
    moment,
    page,
    part,
    put,
    waiting,
)
from packetboat.models import (
    Backlog,
    FilterPreview,
    Flow,
    Hold,
    NewSigningSecret,
    Page,
    Position,
    PushAttempt,
    PushEndpointState,
    PushReplayed,
    PushTest,
    Reconciliation,
    SigningKind,
    SigningSecrets,
    SkipRule,
    SkipRules,
    Snapshot,
    Sought,
    StreamTicket,
    Subscription,
    SubscriptionState,
)


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


def create_snapshot(
    subscription: str, name: str, expires_in_seconds: int | None, labels: Mapping[str, str] | None
) -> Call[Snapshot]:
    body: dict[str, Any] = {"name": name}
    put(body, expires_in_seconds=expires_in_seconds, labels=labels)
    return change("POST", f"/subscriptions/{part(subscription)}/snapshots", body, Snapshot)


def get_snapshot(name: str) -> Call[Snapshot]:
    return fetch(f"/snapshots/{part(name)}", Snapshot)


def list_snapshots(page_size: int, page_token: str | None) -> Call[Page[Snapshot]]:
    return page("/snapshots", "snapshots", Snapshot, page_size, page_token)


def delete_snapshot(name: str) -> Call[None]:
    return delete(f"/snapshots/{part(name)}")


def list_push_attempts(
    subscription: str,
    outcome: Literal["delivered", "refused", "busy", "failed", "gone"] | None,
    message_id: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[PushAttempt]]:
    return page(
        f"/subscriptions/{part(subscription)}/attempts",
        "attempts",
        PushAttempt,
        page_size,
        page_token,
        {"outcome": outcome, "message_id": message_id},
    )


def test_push_endpoint(subscription: str) -> Call[PushTest]:
    return waiting(
        change("POST", f"/subscriptions/{part(subscription)}:test", None, PushTest), 600.0
    )


def replay_to_endpoint(
    subscription: str,
    message_ids: Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
    max_messages: int | None,
) -> Call[PushReplayed]:
    body: dict[str, Any] = {}
    put(
        body,
        message_ids=message_ids,
        to=moment(until),
        max_messages=max_messages,
        **{"from": moment(since)},
    )
    return change("POST", f"/subscriptions/{part(subscription)}:replay", body, PushReplayed)


def enable_push_endpoint(subscription: str) -> Call[PushEndpointState]:
    return waiting(
        change(
            "POST",
            f"/subscriptions/{part(subscription)}:enable",
            None,
            PushEndpointState,
            safe=True,
        ),
        600.0,
    )


def verify_push_endpoint(subscription: str) -> Call[PushEndpointState]:
    return waiting(
        change(
            "POST",
            f"/subscriptions/{part(subscription)}:verify",
            None,
            PushEndpointState,
            safe=True,
        ),
        600.0,
    )


def list_signing_secrets(subscription: str) -> Call[SigningSecrets]:
    return fetch(
        f"/subscriptions/{part(subscription)}/signing_secrets", SigningSecrets, tagged=True
    )


def create_signing_secret(
    subscription: str,
    kind: SigningKind | None,
    expires_previous_after_seconds: float | None,
    if_match: str | None,
) -> Call[NewSigningSecret]:
    body: dict[str, Any] = {}
    put(body, kind=kind, expires_previous_after_seconds=expires_previous_after_seconds)
    return change(
        "POST",
        f"/subscriptions/{part(subscription)}/signing_secrets",
        body,
        NewSigningSecret,
        if_match=if_match,
    )


def delete_signing_secret(subscription: str, secret: str, if_match: str | None) -> Call[None]:
    return delete(
        f"/subscriptions/{part(subscription)}/signing_secrets/{part(secret)}", if_match=if_match
    )
