# Generated from openapi/: `make generate`. Do not edit.
"""Calls of parked keys."""

from __future__ import annotations

from typing import Any

from packetboat.calls.call import (
    Call,
    get,
    member,
    part,
    send_json,
)
from packetboat.models import ParkedKey


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
