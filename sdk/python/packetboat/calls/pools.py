# Generated from openapi/: `make generate`. Do not edit.
"""Calls of pools."""

from __future__ import annotations

from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
)
from packetboat.models import Page
from packetboat.models.jobs import Pool


def put_pool(name: str, max_running: int | None) -> Call[Pool]:
    body: dict[str, Any] = {"max_running": max_running}
    return change("PUT", f"/pools/{part(name)}", body, Pool, safe=True)


def get_pool(name: str) -> Call[Pool]:
    return fetch(f"/pools/{part(name)}", Pool)


def list_pools(page_size: int, page_token: str | None) -> Call[Page[Pool]]:
    return page("/pools", "pools", Pool, page_size, page_token)


def delete_pool(name: str) -> Call[None]:
    return delete(f"/pools/{part(name)}")
