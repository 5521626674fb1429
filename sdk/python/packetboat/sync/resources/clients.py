# Generated from aio/resources/clients.py: `make generate`. Do not edit.
"""Clients that get access tokens with a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import access as calls
from packetboat.models import ClientSettings, OAuthClient, Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Clients:
    """Clients that get access tokens with a secret."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self, name: str, *, timeout_s: float | None = None, **settings: Unpack[ClientSettings]
    ) -> OAuthClient:
        """`client_secret` of the answer is shown once. Raises Conflict where the name is taken."""
        return self._sender.send(calls.create_client(name, settings), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> OAuthClient:
        """Raises NotFound."""
        return self._sender.send(calls.get_client(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[OAuthClient]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_clients(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[OAuthClient]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_clients(page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
        **settings: Unpack[ClientSettings],
    ) -> OAuthClient:
        """Makes it, or replaces it; what is not given gets its default. Raises Conflict where
        nobody would be left who may give roles, unless forced."""
        return self._sender.send(calls.put_client(name, settings, if_match, force), timeout_s)

    def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Raises Conflict where nobody would be left who may give roles, unless forced."""
        self._sender.send(calls.delete_client(name, if_match, force), timeout_s)

    def add_secret(
        self,
        name: str,
        *,
        old_expires_in_seconds: int | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> OAuthClient:
        """Another secret, `client_secret` of the answer, shown once. The earlier ones hold for
        `old_expires_in_seconds`, a day unless given; 0: not at all."""
        return self._sender.send(
            calls.add_client_secret(name, old_expires_in_seconds, if_match), timeout_s
        )

    def remove_secret(
        self,
        name: str,
        prefix: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """By how it begins."""
        self._sender.send(calls.remove_client_secret(name, prefix, if_match, force), timeout_s)

    def revoke_tokens(self, name: str, *, timeout_s: float | None = None) -> OAuthClient:
        """All tokens that were issued to it until now are refused."""
        return self._sender.send(calls.revoke_client_tokens(name), timeout_s)
