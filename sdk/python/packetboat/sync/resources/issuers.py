# Generated from aio/resources/issuers.py: `make generate`. Do not edit.
"""Other issuers, whose tokens the tenant trusts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import tenancy as calls
from packetboat.models import Issuer, IssuerSettings, Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Issuers:
    """Other issuers, whose tokens the tenant trusts."""

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
        """Trust an issuer. Its keys are found by OpenID Connect Discovery. Its tokens name the
        tenant's own audience (`whoami().token_audience`); another needs a proof. Raise Conflict
        where the name is taken."""
        return self._sender.send(calls.create_issuer(name, issuer, settings, audience), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Issuer:
        """Return the issuer. Raise NotFound where there is none of this name."""
        return self._sender.send(calls.get_issuer(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Issuer]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_issuers(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Issuer]:
        """Return one page; `page_token` is that of the page before."""
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
        """Create or replace the issuer; fields that are not given get their defaults."""
        return self._sender.send(
            calls.put_issuer(name, issuer, settings, audience, if_match), timeout_s
        )

    def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the issuer. Raise Conflict where nobody would be left who may give roles, unless
        `force` is true."""
        self._sender.send(calls.delete_issuer(name, if_match, force), timeout_s)
