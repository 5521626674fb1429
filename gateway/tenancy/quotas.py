"""Limits of a tenant: shown to it, set by operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, respond, tenant_of
from gateway.http.decoding import etag, if_match, read_json
from gateway.resources import precondition_failed
from gateway.tenancy.quota_bodies import limits_of, view
from gateway.tenancy.tenants import tenant_name
from metadata.errors import Conflict
from metadata.tenancy.quotas import QuotaRepository, TenantQuota
from metadata.tenancy.tenants import TenantRepository
from openapi import tenants, usage


class QuotaRoutes:
    """`defaults` are the platform's limits by name, 0 or absent for none."""

    def __init__(
        self, quotas: QuotaRepository, tenants: TenantRepository, defaults: Mapping[str, float]
    ) -> None:
        self._quotas = quotas
        self._tenants = tenants
        self._defaults = defaults

    def routes(self) -> list[Route]:
        return [
            Route(usage.OPERATIONS["getOwnQuotas"], self.own),
            Route(tenants.OPERATIONS["getQuotas"], self.of_tenant),
            Route(tenants.OPERATIONS["putQuotas"], self.put),
        ]

    async def own(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(send, await self._quotas.get(tenant_of(scope)))

    async def of_tenant(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = await self._tenants.get(tenant_name(scope))
        await self._respond(send, await self._quotas.get(tenant.tenant_id))

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200: they are all as the body says; every process knows within seconds."""
        body = await read_json(scope, receive, tenants.QuotaBody)
        tenant = await self._tenants.get(tenant_name(scope))
        version = if_match(header(scope, b"if-match"))
        try:
            quota = await self._quotas.put(
                tenant.tenant_id, limits_of(body), body.weight, if_version=version
            )
        except Conflict as error:
            raise precondition_failed("quota") from error
        await self._respond(send, quota)

    async def _respond(self, send: Send, quota: TenantQuota) -> None:
        body = msgspec.json.encode(view(quota, self._defaults))
        await respond(send, 200, body, headers=[etag(quota.version)])
