"""Lists the usage per hour: a tenant's own, and that of any tenant for operators."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, tenant_of
from edge.parameters import Query, text_of
from gateway.tenancy.answers import page_size_of, respond_listing, time_of
from gateway.tenancy.tenants import tenant_name
from metadata.tenancy.tenants import TenantRepository
from metadata.tenancy.usage_hours import UsageHours
from openapi import tenants, usage


class UsageRoutes:
    def __init__(self, usage: UsageHours, tenants: TenantRepository) -> None:
        self._usage = usage
        self._tenants = tenants

    def routes(self) -> list[Route]:
        return [
            Route(usage.OPERATIONS["getOwnUsage"], self.own),
            Route(tenants.OPERATIONS["getUsage"], self.of_tenant),
        ]

    async def own(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page(scope, send, tenant_of(scope))

    async def of_tenant(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = await self._tenants.get(tenant_name(scope))
        await self._page(scope, send, tenant.tenant_id)

    async def _page(self, scope: Scope, send: Send, tenant_id: bytes) -> None:
        query = Query(scope)
        page = await self._usage.page(
            tenant_id,
            start=time_of(query, "from"),
            end=time_of(query, "to"),
            metric=text_of(usage.METRIC, query.text(usage.METRIC.name)),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        shown = [usage.UsageHour(one.hour, one.metric, one.value) for one in page.items]
        await respond_listing(send, usage.UsagePage(shown, page.next_token))
