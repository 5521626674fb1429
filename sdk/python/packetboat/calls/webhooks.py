# Generated from openapi/: `make generate`. Do not edit.
"""Calls of webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    moment,
    page,
    part,
    put,
    waiting,
)
from packetboat.models import (
    NewSigningSecret,
    PushAttempt,
    PushEndpointState,
    PushReplayed,
    PushTest,
    SigningKind,
    SigningSecrets,
)
from packetboat.models.page import Page


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
