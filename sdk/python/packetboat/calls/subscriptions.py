"""Subscriptions: make, change, move and pause them, and what they leave out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from packetboat.calls.call import Call, change, delete, fetch, get, member, moment, page, part, put
from packetboat.models import (
    FilterPreview,
    Flow,
    Hold,
    Page,
    Position,
    SkipRule,
    SkipRules,
    Sought,
    StreamTicket,
    Subscription,
    SubscriptionState,
)


def list_subscriptions(page_size: int, page_token: str | None) -> Call[Page[Subscription]]:
    return page("/subscriptions", "subscriptions", Subscription, page_size, page_token)


def list_topic_subscriptions(
    topic: str, page_size: int, page_token: str | None
) -> Call[Page[Subscription]]:
    return page(_of_topic(topic), "subscriptions", Subscription, page_size, page_token)


def create_subscription(topic: str, name: str, settings: Mapping[str, Any]) -> Call[Subscription]:
    body = {"name": name} | _body(settings)
    return change("POST", _of_topic(topic), body, Subscription, tagged=True)


def get_subscription(name: str) -> Call[Subscription]:
    return fetch(path_of(name), Subscription, tagged=True)


def put_subscription(
    name: str, topic: str | None, settings: Mapping[str, Any], if_match: str | None
) -> Call[Subscription]:
    body = _body(settings)
    put(body, topic=topic)
    return _changed("PUT", name, body, if_match)


def patch_subscription(
    name: str, changes: Mapping[str, Any], if_match: str | None
) -> Call[Subscription]:
    return _changed("PATCH", name, dict(changes), if_match)


def delete_subscription(name: str, force: bool, if_match: str | None) -> Call[None]:
    return delete(path_of(name), force, if_match)


def list_subscription_holds(name: str) -> Call[tuple[Hold, ...]]:
    return Call(get(f"{path_of(name)}/holds"), member("holds", tuple[Hold, ...]), safe=True)


def create_stream_ticket(name: str) -> Call[StreamTicket]:
    return change("POST", f"{path_of(name)}/stream_tickets", None, StreamTicket, safe=True)


def pause(name: str, reason: str | None) -> Call[SubscriptionState]:
    return _state(name, "pause", reason)


def resume(name: str, reason: str | None) -> Call[SubscriptionState]:
    return _state(name, "resume", reason)


def drain(name: str, reason: str | None) -> Call[SubscriptionState]:
    return _state(name, "drain", reason)


def seek(name: str, to: Position, dry_run: bool) -> Call[Sought]:
    """Not safe: a seek to the latest that is repeated passes over what came meanwhile."""
    body: dict[str, Any] = {"to": position(to), "dry_run": dry_run}
    return change("POST", f"{path_of(name)}/seek", body, Sought, safe=dry_run)


def preview_subscription_filter(name: str, expression: str, messages: int) -> Call[FilterPreview]:
    body = {"filter": expression, "messages": messages}
    return change("POST", f"{path_of(name)}:preview_filter", body, FilterPreview, safe=True)


def list_skip_rules(name: str, removed: bool) -> Call[SkipRules]:
    return fetch(f"{path_of(name)}/skip_rules", SkipRules, {"removed": removed or None})


def add_skip_rule(name: str, expression: str, reason: str) -> Call[SkipRule]:
    body = {"expression": expression, "reason": reason}
    return change("POST", f"{path_of(name)}/skip_rules", body, SkipRule)


def remove_skip_rule(name: str, rule: str) -> Call[None]:
    return delete(f"{path_of(name)}/skip_rules/{part(rule)}")._replace(safe=True)


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
    return change("POST", f"{path_of(name)}/flow", body, Flow, safe=True)


def get_flow(name: str) -> Call[Flow]:
    return fetch(f"{path_of(name)}/flow", Flow)


def end_flow(name: str) -> Call[None]:
    return delete(f"{path_of(name)}/flow")._replace(safe=True)


def path_of(name: str) -> str:
    """Return the path of a subscription."""
    return f"/subscriptions/{part(name)}"


def position(to: Position) -> Any:
    """Return a position as the API has it."""
    if isinstance(to, datetime):
        return {"time": moment(to)}
    return {"offset": to} if isinstance(to, int) else to


def _of_topic(topic: str) -> str:
    return f"/topics/{part(topic)}/subscriptions"


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(settings)
    if "start" in body:
        body["start"] = position(body["start"])
    if body.get("push") is not None:
        body.setdefault("type", "push")
    return body


def _changed(
    method: str, name: str, body: dict[str, Any], if_match: str | None
) -> Call[Subscription]:
    """The secrets of an endpoint are told once, so the answer that tells them is not asked for
    twice: it is safe where there is no endpoint."""
    safe = body.get("push") is None
    return change(
        method, path_of(name), body, Subscription, safe=safe, if_match=if_match, tagged=True
    )


def _state(name: str, verb: str, reason: str | None) -> Call[SubscriptionState]:
    body = None if reason is None else {"reason": reason}
    return change("POST", f"{path_of(name)}/{verb}", body, SubscriptionState, safe=True)
