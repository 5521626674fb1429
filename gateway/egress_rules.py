"""Caches the egress rules of each tenant, kept fresh by the change feed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import structlog

from auth.development import DEV_TENANT_ID
from edge.egress.guard import Guard
from metadata.errors import NotFound
from metadata.tenancy.tenants import TenantRepository
from metadata.types import Change, ChangeKind

MAX_CACHED = 10_000
_log = structlog.get_logger("packetboat.egress")


class EgressRules:
    """Caches the guards of tenants.

    The rules of the platform hold for all tenants; a tenant's row adds rules for it alone, and
    settings add rules for the development tenant.
    """

    def __init__(
        self,
        tenants: TenantRepository,
        allowed: Iterable[str],
        ports: Iterable[int],
        *,
        development: Iterable[str] = (),
    ) -> None:
        """Raises ValueError for what is no entry of a list."""
        self._tenants = tenants
        self._development = tuple(development)
        Guard(self._development, ports)
        self._allowed, self._ports = tuple(allowed), frozenset(ports)
        self.platform = Guard(self._allowed, self._ports)
        self._guards: OrderedDict[bytes, Guard] = OrderedDict()
        self._changes = 0

    async def guard_of(self, tenant_id: bytes) -> Guard:
        """Return a tenant's guard; raise MetadataError if it is not cached and cannot be read."""
        guard = self._guards.get(tenant_id)
        if guard is not None:
            return guard
        before = self._changes
        guard = await self._read(tenant_id)
        if before == self._changes:  # else the change may have been about it
            self._guards[tenant_id] = guard
            if len(self._guards) > MAX_CACHED:
                self._guards.popitem(last=False)
        return guard

    async def on_changes(self, changes: Sequence[Change]) -> None:
        """Apply changes that the change feed tells."""
        self._changes += 1
        for change in changes:
            if change.kind is ChangeKind.RESET:
                self._guards.clear()
            elif change.kind is ChangeKind.TENANT:
                self._guards.pop(change.tenant_id, None)

    async def _read(self, tenant_id: bytes) -> Guard:
        try:
            tenant = await self._tenants.get_by_id(tenant_id)
        except NotFound:
            return self.platform  # it goes, and with it what is sent
        own = tuple(tenant.egress_allowed)
        if tenant_id == DEV_TENANT_ID:
            own += self._development
        if not own:
            return self.platform
        try:
            return Guard((*self._allowed, *own), self._ports)
        except ValueError as error:
            _log.warning("a tenant's egress_allowed does not hold", error=str(error))
            return self.platform
