# Generated from openapi/: `make generate`. Do not edit.
"""Clients that get access tokens with a secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import ClientSettings, OAuthClient, Page


class AsyncClients:
    """Clients that get access tokens with a secret."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self, name: str, *, timeout_s: float | None = None, **settings: Unpack[ClientSettings]
    ) -> OAuthClient:
        """Create a client; `client_secret` of the answer is shown once. Raise Conflict where the
        name is taken."""
        return await self._sender.send(calls.create_client(name, settings), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> OAuthClient:
        """Return the client. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_client(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[OAuthClient]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_clients(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[OAuthClient]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_clients(page_size, page_token), timeout_s)

    async def put(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
        **settings: Unpack[ClientSettings],
    ) -> OAuthClient:
        """Create or replace the client; fields that are not given get their defaults. Raise
        Conflict where nobody would be left who may give roles, unless `force` is true."""
        return await self._sender.send(calls.put_client(name, settings, if_match, force), timeout_s)

    async def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the client. Raise Conflict where nobody would be left who may give roles, unless
        `force` is true."""
        await self._sender.send(calls.delete_client(name, if_match, force), timeout_s)

    async def add_secret(
        self,
        name: str,
        *,
        old_expires_in_seconds: int | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> OAuthClient:
        """Give the client another secret, `client_secret` of the answer, shown once. The earlier
        secrets hold for `old_expires_in_seconds`, a day unless given; 0 ends them at once."""
        return await self._sender.send(
            calls.add_client_secret(name, old_expires_in_seconds, if_match), timeout_s
        )

    async def remove_secret(
        self,
        name: str,
        prefix: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Remove a secret, which `prefix` names by its beginning."""
        await self._sender.send(
            calls.remove_client_secret(name, prefix, if_match, force), timeout_s
        )

    async def revoke_tokens(self, name: str, *, timeout_s: float | None = None) -> OAuthClient:
        """Refuse all tokens that were issued to the client until now."""
        return await self._sender.send(calls.revoke_client_tokens(name), timeout_s)
