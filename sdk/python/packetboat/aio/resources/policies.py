# Generated from openapi/: `make generate`. Do not edit.
"""Policies: who may do what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import Page, Policy, Role


class AsyncPolicies:
    """Policies: who may do what."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        name: str,
        role: Role,
        members: Sequence[str],
        *,
        resources: Sequence[str] = ("*",),
        labels: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Policy:
        """Give `members`, each `client:NAME` or `issuer:NAME#SUBJECT`, the role for `resources`:
        `*`, or `topics/NAME`, `subscriptions/NAME`, …; `*` stands for any characters. Raise
        Conflict where the name is taken."""
        return await self._sender.send(
            calls.create_policy(name, role, members, resources, labels), timeout_s
        )

    async def get(self, name: str, *, timeout_s: float | None = None) -> Policy:
        """Return the policy. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_policy(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Policy]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_policies(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Policy]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_policies(page_size, page_token), timeout_s)

    async def put(
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
        """Create or replace the policy. Raise Conflict where nobody would be left who may give
        roles, unless `force` is true."""
        return await self._sender.send(
            calls.put_policy(name, role, members, resources, labels, if_match, force), timeout_s
        )

    async def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the policy. Raise Conflict where nobody would be left who may give roles, unless
        `force` is true."""
        await self._sender.send(calls.delete_policy(name, if_match, force), timeout_s)
