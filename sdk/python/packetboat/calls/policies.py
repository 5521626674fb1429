# Generated from openapi/: `make generate`. Do not edit.
"""Calls of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
    put,
    with_query,
)
from packetboat.models import Policy, Role
from packetboat.models.page import Page


def create_policy(
    name: str,
    role: Role,
    members: Sequence[str],
    resources: Sequence[str],
    labels: Mapping[str, str] | None,
) -> Call[Policy]:
    body: dict[str, Any] = {"name": name, "role": role, "members": members, "resources": resources}
    put(body, labels=labels)
    return change("POST", "/policies", body, Policy, tagged=True)


def get_policy(name: str) -> Call[Policy]:
    return fetch(f"/policies/{part(name)}", Policy, tagged=True)


def list_policies(page_size: int, page_token: str | None) -> Call[Page[Policy]]:
    return page("/policies", "policies", Policy, page_size, page_token)


def put_policy(
    name: str,
    role: Role,
    members: Sequence[str],
    resources: Sequence[str],
    labels: Mapping[str, str] | None,
    if_match: str | None,
    force: bool,
) -> Call[Policy]:
    body: dict[str, Any] = {"role": role, "members": members, "resources": resources}
    put(body, labels=labels)
    return change(
        "PUT",
        with_query(f"/policies/{part(name)}", {"force": force or None}),
        body,
        Policy,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def delete_policy(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/policies/{part(name)}", force=force, if_match=if_match)
