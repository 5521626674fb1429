# Generated from aio/resources/audit.py: `make generate`. Do not edit.
"""Who changed what."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, Unpack

from packetboat.calls import audit as calls
from packetboat.calls.call import Call
from packetboat.models import AuditEntry, AuditFilter, Page
from packetboat.sync.resources.lines import lines_of
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Audit:
    """Who changed what."""

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
        """Of a tenant, for operators, or the own one; newest first unless said otherwise."""
        return every(
            self._sender, lambda token: _call(tenant, filters, page_size, token), timeout_s
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
        """One page; `page_token` is that of the page before."""
        return self._sender.send(_call(tenant, filters, page_size, page_token), timeout_s)

    def export(
        self,
        tenant: str | None = None,
        *,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Generator[AuditEntry, None, None]:
        """The same in one answer, which is read as it comes, and begins within `timeout_s`. Raises
        UnknownOutcome where it was cut off: what came is not all."""
        if tenant is None:
            call = calls.export_own_audit(filters)
        else:
            call = calls.export_audit(tenant, filters)
        with closing(lines_of(self._sender, call, timeout_s)) as incoming:
            for line in incoming:
                yield calls.read_entry(line)


def _call(
    tenant: str | None, filters: Mapping[str, Any], page_size: int, token: str | None
) -> Call[Page[AuditEntry]]:
    if tenant is None:
        return calls.get_own_audit(filters, page_size, token)
    return calls.get_audit(tenant, filters, page_size, token)
