# Generated from openapi/: `make generate`. Do not edit.
"""Calls of locks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    nothing,
    page,
    part,
    put,
    send_json,
    waiting,
)
from packetboat.models import Lock, LockState, LockVerified, Page


def acquire_lock(
    name: str,
    ttl_seconds: float | None,
    wait_seconds: float,
    holder: str | None,
    request_id: str | None,
    labels: Mapping[str, str] | None,
) -> Call[Lock]:
    body: dict[str, Any] = {"wait_seconds": wait_seconds}
    put(body, ttl_seconds=ttl_seconds, holder=holder, request_id=request_id, labels=labels)
    return waiting(
        change("POST", f"/locks/{part(name)}:acquire", body, Lock, safe=request_id is not None),
        wait_seconds,
    )


def renew_lock(name: str, lock_id: str, ttl_seconds: float | None) -> Call[Lock]:
    body: dict[str, Any] = {"lock_id": lock_id}
    put(body, ttl_seconds=ttl_seconds)
    return change("POST", f"/locks/{part(name)}:renew", body, Lock, safe=True)


def release_lock(name: str, lock_id: str) -> Call[None]:
    body: dict[str, Any] = {"lock_id": lock_id}
    return Call(send_json("POST", f"/locks/{part(name)}:release", body), nothing, safe=True)


def verify_lock(name: str, fencing_token: int) -> Call[LockVerified]:
    body: dict[str, Any] = {"fencing_token": fencing_token}
    return change("POST", f"/locks/{part(name)}:verify", body, LockVerified, safe=True)


def get_lock(name: str) -> Call[LockState]:
    return fetch(f"/locks/{part(name)}", LockState)


def list_locks(page_size: int, page_token: str | None) -> Call[Page[LockState]]:
    return page("/locks", "locks", LockState, page_size, page_token)


def delete_lock(name: str) -> Call[None]:
    return delete(f"/locks/{part(name)}")
