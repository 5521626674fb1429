"""The changes of a tenant, and their authors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Unpack

from packetboat.aio.operations.tenancy import AsyncAuditOperations
from packetboat.aio.resources.lines import lines_of
from packetboat.calls import streams as calls
from packetboat.models import AuditEntry, AuditFilter


class AsyncAudit(AsyncAuditOperations):
    """The changes of a tenant, and their authors."""

    async def export(
        self,
        tenant: str | None = None,
        *,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> AsyncGenerator[AuditEntry, None]:
        """Iterate over the same changes, read from one answer as it comes, which begins within
        `timeout_s`. Raise UnknownOutcome where it was cut off: then some are missing."""
        if tenant is None:
            call = calls.export_own_audit(filters)
        else:
            call = calls.export_audit(tenant, filters)
        async with aclosing(lines_of(self._sender, call, timeout_s)) as incoming:
            async for line in incoming:
                yield calls.read_entry(line)
