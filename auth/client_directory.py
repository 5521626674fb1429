"""Clients and tenants for the checks of tokens, in memory until the change feed reports a change.

A missing client or tenant is never remembered. Those in memory stay in use while Postgres is down.
"""

from __future__ import annotations

from collections.abc import Sequence

from auth.errors import TenantSuspended, TokenRefused
from auth.known import Known
from metadata.errors import NotFound
from metadata.tenancy.clients import Client, ClientRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.types import Change, ChangeKind, Tenant


class ClientDirectory:
    """`on_changes` is a listener of the change feed, added before the first question is asked."""

    def __init__(self, clients: ClientRepository, tenants: TenantRepository) -> None:
        async def tenant_of(tenant_id: bytes) -> Tenant | None:
            try:
                return await tenants.get_by_id(tenant_id)
            except NotFound:
                return None

        self._clients = Known[str, Client](clients.by_client_id)
        self._tenants = Known[bytes, Tenant](tenant_of)

    async def client(self, client_id: str) -> Client | None:
        """Return a client of any tenant, or None.

        Raises VerifierUnavailable if it cannot be read now.
        """
        return await self._clients.get(client_id)

    async def tenant(self, tenant_id: bytes) -> Tenant | None:
        """Return a tenant, or None. Raises VerifierUnavailable if it cannot be read now."""
        return await self._tenants.get(tenant_id)

    async def require_served(self, tenant_id: bytes, *, suspended: bool = False) -> None:
        """Check that a tenant is served.

        Raises TokenRefused for a tenant that does not exist or is being deleted, TenantSuspended
        for a suspended one unless `suspended` is true, and VerifierUnavailable.
        """
        tenant = await self.tenant(tenant_id)
        if tenant is None or tenant.state == "deleting":
            raise TokenRefused
        if tenant.state == "suspended" and not suspended:
            raise TenantSuspended

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._clients.forget(lambda client: True)
            self._tenants.forget(lambda tenant: True)
            return
        clients = {change.uid for change in changes if change.kind is ChangeKind.CLIENT}
        tenants = {change.tenant_id for change in changes if change.kind is ChangeKind.TENANT}
        if clients or tenants:
            # A tenant that is gone took its clients along, without a change of each.
            self._clients.forget(lambda c: c.uid in clients or c.tenant_id in tenants)
            self._tenants.forget(lambda tenant: tenant.tenant_id in tenants)
