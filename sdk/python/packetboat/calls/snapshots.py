# Generated from openapi/: `make generate`. Do not edit.
"""Calls of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
    put,
)
from packetboat.models import Snapshot
from packetboat.models.page import Page


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
