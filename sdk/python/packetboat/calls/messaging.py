# Generated from openapi/: `make generate`. Do not edit.
"""Calls of schedules, topics, messages, subscriptions, snapshots, webhooks, dead letters, parked
keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from packetboat.calls.bodies import edited, position, schedule_body, subscription_body
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
    send_json,
    waiting,
)
from packetboat.models import (
    AckState,
    Backlog,
    DeadLetterPage,
    DeadLetterWithMessage,
    DelayedMessage,
    Discarded,
    DryRun,
    Edit,
    FilterPreview,
    Flow,
    Hold,
    NewSigningSecret,
    Page,
    ParkedKey,
    PartitionOffsets,
    Partitions,
    Position,
    PushAttempt,
    PushEndpointState,
    PushReplayed,
    PushTest,
    Reconciliation,
    Redrive,
    Schedule,
    ScheduleMessage,
    ScheduleRun,
    SchemaPreviewed,
    SchemaType,
    SigningKind,
    SigningSecrets,
    SkipRule,
    SkipRules,
    Snapshot,
    Sought,
    StoredMessage,
    StreamTicket,
    Subscription,
    SubscriptionState,
    Topic,
)


def create_schedule(
    name: str, topic: str, cron: str, message: ScheduleMessage, settings: Mapping[str, Any]
) -> Call[Schedule]:
    body: dict[str, Any] = {
        "name": name,
        "topic": topic,
        "cron": cron,
        "message": message,
        **settings,
    }
    body = schedule_body(body)
    return change("POST", "/schedules", body, Schedule, tagged=True)


def get_schedule(name: str) -> Call[Schedule]:
    return fetch(f"/schedules/{part(name)}", Schedule, tagged=True)


def list_schedules(page_size: int, page_token: str | None) -> Call[Page[Schedule]]:
    return page("/schedules", "schedules", Schedule, page_size, page_token)


def put_schedule(
    name: str,
    topic: str,
    cron: str,
    message: ScheduleMessage,
    settings: Mapping[str, Any],
    if_match: str | None,
) -> Call[Schedule]:
    body: dict[str, Any] = {"topic": topic, "cron": cron, "message": message, **settings}
    body = schedule_body(body)
    return change(
        "PUT", f"/schedules/{part(name)}", body, Schedule, safe=True, if_match=if_match, tagged=True
    )


def change_schedule(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Schedule]:
    body: dict[str, Any] = {**settings}
    body = schedule_body(body)
    return change(
        "PATCH",
        f"/schedules/{part(name)}",
        body,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def delete_schedule(name: str, if_match: str | None) -> Call[None]:
    return delete(f"/schedules/{part(name)}", if_match=if_match)


def next_runs(name: str, count: int) -> Call[tuple[datetime, ...]]:
    return Call(
        get(f"/schedules/{part(name)}/next", {"count": count}),
        member("next_runs", tuple[datetime, ...]),
        safe=True,
    )


def pause_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return change(
        "POST",
        f"/schedules/{part(name)}:pause",
        None,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def resume_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return change(
        "POST",
        f"/schedules/{part(name)}:resume",
        None,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def run_schedule(name: str) -> Call[ScheduleRun]:
    return change("POST", f"/schedules/{part(name)}:run", None, ScheduleRun)


def create_topic(name: str, settings: Mapping[str, Any]) -> Call[Topic]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/topics", body, Topic, tagged=True)


def get_topic(name: str) -> Call[Topic]:
    return fetch(f"/topics/{part(name)}", Topic, tagged=True)


def list_topics(page_size: int, page_token: str | None) -> Call[Page[Topic]]:
    return page("/topics", "topics", Topic, page_size, page_token)


def put_topic(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT", f"/topics/{part(name)}", body, Topic, safe=True, if_match=if_match, tagged=True
    )


def patch_topic(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    body: dict[str, Any] = {**settings}
    return change(
        "PATCH", f"/topics/{part(name)}", body, Topic, safe=True, if_match=if_match, tagged=True
    )


def delete_topic(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/topics/{part(name)}", force=force, if_match=if_match)


def list_topic_holds(name: str) -> Call[tuple[Hold, ...]]:
    return Call(get(f"/topics/{part(name)}/holds"), member("holds", tuple[Hold, ...]), safe=True)


def grow_topic(name: str, partitions: int) -> Call[Partitions]:
    body: dict[str, Any] = {"partitions": partitions}
    return change("POST", f"/topics/{part(name)}:grow", body, Partitions, safe=True)


def list_partitions(name: str) -> Call[Partitions]:
    return fetch(f"/topics/{part(name)}/partitions", Partitions)


def move_partition(name: str, partition: int, group: int) -> Call[Partitions]:
    body: dict[str, Any] = {"group": group}
    return change("POST", f"/topics/{part(name)}/partitions/{partition}:move", body, Partitions)


def preview_topic_filter(name: str, expression: str, messages: int) -> Call[FilterPreview]:
    body: dict[str, Any] = {"filter": expression, "messages": messages}
    return change("POST", f"/topics/{part(name)}:preview_filter", body, FilterPreview, safe=True)


def preview_schema(
    name: str, schema: str | None, type: SchemaType | None, definition: object, messages: int
) -> Call[SchemaPreviewed]:
    body: dict[str, Any] = {"messages": messages}
    put(body, schema=schema, type=type, definition=definition)
    return change("POST", f"/topics/{part(name)}:preview_schema", body, SchemaPreviewed, safe=True)


def get_message(topic: str, message_id: str) -> Call[StoredMessage]:
    return fetch(f"/topics/{part(topic)}/messages/{part(message_id)}", StoredMessage)


def list_delayed_messages(
    topic: str, page_size: int, page_token: str | None
) -> Call[Page[DelayedMessage]]:
    return page(f"/topics/{part(topic)}/delayed", "messages", DelayedMessage, page_size, page_token)


def cancel_message(topic: str, message_id: str) -> Call[None]:
    return delete(f"/topics/{part(topic)}/messages/{part(message_id)}")._replace(safe=True)


def reschedule_message(
    topic: str, message_id: str, delay_seconds: float | None, deliver_at: datetime | None
) -> Call[datetime]:
    body: dict[str, Any] = {}
    put(body, delay_seconds=delay_seconds, deliver_at=moment(deliver_at))
    return Call(
        send_json("PATCH", f"/topics/{part(topic)}/messages/{part(message_id)}", body),
        member("scheduled_for", datetime),
        safe=True,
    )


def get_message_ack(topic: str, message_id: str) -> Call[dict[str, AckState]]:
    return Call(
        get(f"/topics/{part(topic)}/messages/{part(message_id)}/ack"),
        member("subscriptions", dict[str, AckState]),
        safe=True,
    )


def offsets_of_partition(
    topic: str, partition: int, time: datetime, lane: int | None
) -> Call[PartitionOffsets]:
    return fetch(
        f"/topics/{part(topic)}/partitions/{partition}/offsets",
        PartitionOffsets,
        {"time": time, "lane": lane},
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


def list_dead_letters(
    subscription: str,
    filter: str | None,
    state: Literal["open", "redriven", "discarded"] | None,
    page_size: int,
    page_token: str | None,
) -> Call[DeadLetterPage]:
    return fetch(
        f"/subscriptions/{part(subscription)}/dead_letters",
        DeadLetterPage,
        {"filter": filter, "state": state, "page_size": page_size, "page_token": page_token},
    )


def get_dead_letter(subscription: str, letter: str) -> Call[DeadLetterWithMessage]:
    return fetch(
        f"/subscriptions/{part(subscription)}/dead_letters/{part(letter)}", DeadLetterWithMessage
    )


def discard_dead_letters(
    subscription: str, filter: str | None, ids: Sequence[str] | None
) -> Call[Discarded]:
    body: dict[str, Any] = {}
    put(body, filter=filter, ids=ids)
    return change(
        "POST",
        f"/subscriptions/{part(subscription)}/dead_letters:discard",
        body,
        Discarded,
        safe=ids is not None,
    )


def redrive_dead_letters(
    subscription: str,
    filter: str | None,
    ids: Sequence[str] | None,
    to: str | None,
    edit: Edit | None,
    rate: float | None,
) -> Call[Redrive]:
    body: dict[str, Any] = {}
    put(body, filter=filter, ids=ids, to=to, edit=edited(edit), rate=rate)
    return change(
        "POST", f"/subscriptions/{part(subscription)}/dead_letters:redrive", body, Redrive
    )


def redrive_dry_run(
    subscription: str,
    filter: str | None,
    ids: Sequence[str] | None,
    to: str | None,
    edit: Edit | None,
) -> Call[DryRun]:
    body: dict[str, Any] = {"dry_run": True}
    put(body, filter=filter, ids=ids, to=to, edit=edited(edit))
    return change(
        "POST", f"/subscriptions/{part(subscription)}/dead_letters:redrive", body, DryRun, safe=True
    )


def list_redrives(subscription: str, page_size: int, page_token: str | None) -> Call[Page[Redrive]]:
    return page(
        f"/subscriptions/{part(subscription)}/redrives", "redrives", Redrive, page_size, page_token
    )


def get_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    return fetch(f"/subscriptions/{part(subscription)}/redrives/{part(redrive)}", Redrive)


def cancel_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    return change(
        "POST",
        f"/subscriptions/{part(subscription)}/redrives/{part(redrive)}:cancel",
        None,
        Redrive,
        safe=True,
    )


def list_parked_keys(subscription: str) -> Call[tuple[ParkedKey, ...]]:
    return Call(
        get(f"/subscriptions/{part(subscription)}/parked_keys"),
        member("parked_keys", tuple[ParkedKey, ...]),
        safe=True,
    )


def resume_parked_key(subscription: str, key: str) -> Call[int]:
    body: dict[str, Any] = {"key": key}
    return Call(
        send_json("POST", f"/subscriptions/{part(subscription)}/parked_keys:resume", body),
        member("done", int),
    )


def skip_parked_key(subscription: str, key: str, dead_letter: bool) -> Call[int]:
    body: dict[str, Any] = {"key": key, "dead_letter": dead_letter}
    return Call(
        send_json("POST", f"/subscriptions/{part(subscription)}/parked_keys:skip", body),
        member("done", int),
    )
