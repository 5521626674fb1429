# Generated from aio/resources/audit.py: `make generate`. Do not edit.
"""The changes of a tenant, and their authors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Unpack

from packetboat.calls import streams as calls
from packetboat.models import AuditEntry, AuditFilter
from packetboat.sync.operations.tenancy import AuditOperations
from packetboat.sync.resources.lines import lines_of


class Audit(AuditOperations):
    """The changes of a tenant, and their authors."""

    def export(
        self,
        tenant: str | None = None,
        *,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Generator[AuditEntry, None, None]:
        """Iterate over the same changes, read from one answer as it comes, which begins within
        `timeout_s`. Raise UnknownOutcome where it was cut off: then some are missing."""
        if tenant is None:
            call = calls.export_own_audit(filters)
        else:
            call = calls.export_audit(tenant, filters)
        with closing(lines_of(self._sender, call, timeout_s)) as incoming:
            for line in incoming:
                yield calls.read_entry(line)
