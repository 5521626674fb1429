# Generated from aio/resources/policies.py: `make generate`. Do not edit.
"""Who may do what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packetboat.calls import access as calls
from packetboat.models import Page, Policy, Role
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Policies:
    """Who may do what."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        name: str,
        role: Role,
        members: Sequence[str],
        *,
        resources: Sequence[str] = ("*",),
        labels: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Policy:
        """Gives `members`, each `client:NAME` or `issuer:NAME#SUBJECT`, the role for `resources`:
        `*`, or `topics/NAME`, `subscriptions/NAME`, …; `*` stands for any characters. Raises
        Conflict where the name is taken."""
        body = _body(role, members, resources, labels)
        return self._sender.send(calls.create_policy(name, body), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Policy:
        """Raises NotFound."""
        return self._sender.send(calls.get_policy(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Policy]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_policies(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Policy]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_policies(page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        role: Role,
        members: Sequence[str],
        *,
        resources: Sequence[str] = ("*",),
        labels: Mapping[str, str] | None = None,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> Policy:
        """Makes it, or replaces it. Raises Conflict where nobody would be left who may give roles,
        unless forced."""
        body = _body(role, members, resources, labels)
        return self._sender.send(calls.put_policy(name, body, if_match, force), timeout_s)

    def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Raises Conflict where nobody would be left who may give roles, unless forced."""
        self._sender.send(calls.delete_policy(name, if_match, force), timeout_s)


def _body(
    role: Role,
    members: Sequence[str],
    resources: Sequence[str],
    labels: Mapping[str, str] | None,
) -> dict[str, Any]:
    body: dict[str, Any] = {"role": role, "members": members, "resources": resources}
    return body if labels is None else body | {"labels": labels}
