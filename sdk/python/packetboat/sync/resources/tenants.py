# Generated from aio/resources/tenants.py: `make generate`. Do not edit.
"""Tenants, for operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import tenancy as calls
from packetboat.models import Page, Tenant, TenantSettings
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Tenants:
    """Tenants, for operators."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self, name: str, *, timeout_s: float | None = None, **settings: Unpack[TenantSettings]
    ) -> Tenant:
        """Create a tenant; with `owner` the answer has the first client and its secret, shown once.
        Raise Conflict where the name is taken."""
        return self._sender.send(calls.create_tenant(name, settings), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Tenant:
        """Return the tenant. Raise NotFound where there is none of this name."""
        return self._sender.send(calls.get_tenant(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Tenant]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_tenants(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Tenant]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_tenants(page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[TenantSettings],
    ) -> Tenant:
        """Create or replace the tenant; fields that are not given get their defaults."""
        return self._sender.send(calls.put_tenant(name, settings, if_match), timeout_s)

    def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> Tenant:
        """Delete the tenant, which is `deleting` until all that it has is gone. Raise Conflict
        while it has topics, unless `force` is true."""
        return self._sender.send(calls.delete_tenant(name, if_match, force), timeout_s)
