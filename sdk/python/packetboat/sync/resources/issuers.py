# Generated from aio/resources/issuers.py: `make generate`. Do not edit.
"""Other issuers whose tokens hold here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import access as calls
from packetboat.models import Issuer, IssuerSettings, Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Issuers:
    """Other issuers whose tokens hold here."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        name: str,
        issuer: str,
        audience: str | None = None,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[IssuerSettings],
    ) -> Issuer:
        """Its keys are found by OpenID Connect Discovery. Its tokens name the tenant's own audience
        (`whoami().token_audience`); another needs a proof. Raises Conflict where the name is
        taken."""
        return self._sender.send(calls.create_issuer(name, issuer, audience, settings), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Issuer:
        """Raises NotFound."""
        return self._sender.send(calls.get_issuer(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Issuer]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_issuers(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Issuer]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_issuers(page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        issuer: str,
        audience: str | None = None,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[IssuerSettings],
    ) -> Issuer:
        """Makes it, or replaces it; what is not given gets its default."""
        return self._sender.send(
            calls.put_issuer(name, issuer, audience, settings, if_match), timeout_s
        )

    def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Raises Conflict where nobody would be left who may give roles, unless forced."""
        self._sender.send(calls.delete_issuer(name, if_match, force), timeout_s)
