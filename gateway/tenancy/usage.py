"""What a tenant used, per hour: its own for the tenant, anybody's for operators."""

from __future__ import annotations

import re

from edge.asgi import Receive, Route, Scope, Send, tenant_of
from edge.problem import FieldError, invalid
from gateway.http.decoding import Query
from gateway.tenancy.answers import page_size_of, respond_listing, time_of
from gateway.tenancy.tenants import tenant_name
from metadata.tenancy.tenants import TenantRepository
from metadata.tenancy.usage_hours import UsageHours
from openapi import tenants, usage

_METRIC = re.compile(r"[a-z][a-z0-9_]{0,63}")


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
        metric = query.text("metric")
        if metric is not None and not _METRIC.fullmatch(metric):
            errors = [FieldError("metric", "1 to 64 lower-case letters, digits and '_'")]
            raise invalid("The query parameter metric does not fit.", errors, status=400)
        page = await self._usage.page(
            tenant_id,
            start=time_of(query, "from"),
            end=time_of(query, "to"),
            metric=metric,
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        shown = [usage.UsageHour(one.hour, one.metric, one.value) for one in page.items]
        await respond_listing(send, usage.UsagePage(shown, page.next_token))
