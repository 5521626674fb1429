# Generated from aio/operations/audit.py: `make generate`. Do not edit.
"""The changes of a tenant, and their authors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import tenancy as calls
from packetboat.models import AuditEntry, AuditFilter, Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class AuditOperations:
    """The changes of a tenant, and their authors."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        tenant: str | None = None,
        *,
        page_size: int = 100,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Iterator[AuditEntry]:
        """Iterate over the changes of a tenant, for operators, or of the own one, the newest first
        unless `order` says otherwise."""
        return every(
            self._sender,
            lambda token: (
                calls.get_own_audit(filters, page_size, token)
                if tenant is None
                else calls.get_audit(tenant, filters, page_size, token)
            ),
            timeout_s,
        )

    def page(
        self,
        tenant: str | None = None,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Page[AuditEntry]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.get_own_audit(filters, page_size, page_token)
            if tenant is None
            else calls.get_audit(tenant, filters, page_size, page_token),
            timeout_s,
        )
