"""Locks: what one of many may do at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    TIMEOUT_S,
    Call,
    change,
    delete,
    fetch,
    nothing,
    page,
    part,
    put,
    reader,
    send_json,
)
from packetboat.models import Lock, LockState, LockVerified, Page


def list_locks(page_size: int, page_token: str | None) -> Call[Page[LockState]]:
    return page("/locks", "locks", LockState, page_size, page_token)


def get_lock(name: str) -> Call[LockState]:
    return fetch(_path(name), LockState)


def delete_lock(name: str) -> Call[None]:
    return delete(_path(name))


def acquire_lock(
    name: str,
    ttl_seconds: float | None,
    wait_seconds: float,
    holder: str | None,
    request_id: str | None,
    labels: Mapping[str, str] | None,
) -> Call[Lock]:
    """Safe with a request id: sent again it gets the same holding."""
    body: dict[str, Any] = {"wait_seconds": wait_seconds}
    put(body, ttl_seconds=ttl_seconds, holder=holder, request_id=request_id, labels=labels)
    request = send_json("POST", f"{_path(name)}:acquire", body)
    request = request._replace(timeout_s=TIMEOUT_S + wait_seconds)
    return Call(request, reader(Lock), safe=request_id is not None)


def renew_lock(name: str, lock_id: str, ttl_seconds: float | None) -> Call[Lock]:
    body: dict[str, Any] = {"lock_id": lock_id}
    put(body, ttl_seconds=ttl_seconds)
    return change("POST", f"{_path(name)}:renew", body, Lock, safe=True)


def release_lock(name: str, lock_id: str) -> Call[None]:
    request = send_json("POST", f"{_path(name)}:release", {"lock_id": lock_id})
    return Call(request, nothing, safe=True)


def verify_lock(name: str, fencing_token: int) -> Call[LockVerified]:
    body = {"fencing_token": fencing_token}
    return change("POST", f"{_path(name)}:verify", body, LockVerified, safe=True)


def _path(name: str) -> str:
    return f"/locks/{part(name)}"
