# Generated from openapi/: `make generate`. Do not edit.
"""API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import Key, KeySettings, Page


class AsyncKeys:
    """API keys."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        timeout_s: float | None = None,
        **settings: Unpack[KeySettings],
    ) -> Key:
        """Create a key. `scopes` are permissions, each alone or with a resource: `read`,
        `publish:topics/orders-*`. `key` of the answer is shown once. Raise Conflict where the name
        is taken."""
        return await self._sender.send(calls.create_key(name, scopes, settings), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Key:
        """Return the key. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_key(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> AsyncIterator[Key]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_keys(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Key]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_keys(page_size, page_token), timeout_s)

    async def put(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
        **settings: Unpack[KeySettings],
    ) -> Key:
        """Create or replace the key; fields that are not given get their defaults. Raise Conflict
        where nobody would be left who may give roles, unless `force` is true."""
        return await self._sender.send(
            calls.put_key(name, scopes, settings, if_match, force), timeout_s
        )

    async def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the key. Raise Conflict where nobody would be left who may give roles, unless
        `force` is true."""
        await self._sender.send(calls.delete_key(name, if_match, force), timeout_s)

    async def rotate(
        self,
        name: str,
        *,
        old_expires_in_seconds: int | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> Key:
        """Give the key another secret, `key` of the answer, shown once. The earlier secrets hold
        for `old_expires_in_seconds`, a day unless given; 0 ends them at once."""
        return await self._sender.send(
            calls.rotate_key(name, old_expires_in_seconds, if_match), timeout_s
        )
