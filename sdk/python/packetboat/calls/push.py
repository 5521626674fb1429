"""Push subscriptions: their endpoints, attempts, and signing secrets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from packetboat.calls.call import (
    TIMEOUT_S,
    Call,
    change,
    delete,
    fetch,
    moment,
    page,
    part,
    put,
    reader,
    send_json,
)
from packetboat.calls.subscriptions import path_of
from packetboat.models import (
    NewSigningSecret,
    Page,
    PushAttempt,
    PushEndpointState,
    PushReplayed,
    PushTest,
    SigningKind,
    SigningSecrets,
)

ENDPOINT_S = 600.0
"""How long an endpoint may take to answer, at most."""


def list_push_attempts(
    subscription: str,
    outcome: str | None,
    message_id: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[PushAttempt]]:
    query = {"outcome": outcome, "message_id": message_id}
    path = f"{path_of(subscription)}/attempts"
    return page(path, "attempts", PushAttempt, page_size, page_token, query)


def test_push_endpoint(subscription: str) -> Call[PushTest]:
    request = send_json("POST", f"{path_of(subscription)}:test", None)
    return Call(request._replace(timeout_s=TIMEOUT_S + ENDPOINT_S), reader(PushTest))


def replay_to_endpoint(
    subscription: str,
    message_ids: Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
    max_messages: int | None,
) -> Call[PushReplayed]:
    body: dict[str, Any] = {}
    put(body, message_ids=message_ids, max_messages=max_messages)
    put(body, **{"from": moment(since), "to": moment(until)})
    return change("POST", f"{path_of(subscription)}:replay", body, PushReplayed)


def enable_push_endpoint(subscription: str) -> Call[PushEndpointState]:
    return _endpoint(subscription, "enable")


def verify_push_endpoint(subscription: str) -> Call[PushEndpointState]:
    return _endpoint(subscription, "verify")


def list_signing_secrets(subscription: str) -> Call[SigningSecrets]:
    return fetch(_secrets(subscription), SigningSecrets, tagged=True)


def create_signing_secret(
    subscription: str,
    kind: SigningKind | None,
    expires_previous_after_seconds: float | None,
    if_match: str | None,
) -> Call[NewSigningSecret]:
    body: dict[str, Any] = {}
    put(body, kind=kind, expires_previous_after_seconds=expires_previous_after_seconds)
    return change("POST", _secrets(subscription), body, NewSigningSecret, if_match=if_match)


def delete_signing_secret(subscription: str, secret: str, if_match: str | None) -> Call[None]:
    return delete(f"{_secrets(subscription)}/{part(secret)}", if_match=if_match)


def _secrets(subscription: str) -> str:
    return f"{path_of(subscription)}/signing_secrets"


def _endpoint(subscription: str, verb: str) -> Call[PushEndpointState]:
    request = send_json("POST", f"{path_of(subscription)}:{verb}", None)
    request = request._replace(timeout_s=TIMEOUT_S + ENDPOINT_S)
    return Call(request, reader(PushEndpointState), safe=True)
