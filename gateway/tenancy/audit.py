"""The audit, to be read: a page at a time, or all that is asked for as lines of JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, tenant_of
from edge.parameters import Query, text_of
from edge.problem import not_found
from gateway.names import name_errors
from gateway.tenancy.answers import page_size_of, respond_listing, time_of
from metadata.tenancy.audit import AuditEntry, AuditFilter, AuditLog
from metadata.tenancy.tenants import TenantRepository
from openapi import tenants, usage

NDJSON = b"application/x-ndjson"
LINES_AT_ONCE = 500


class AuditRoutes:
    """Operators read the audit of any tenant, the platform's own among them."""

    def __init__(self, audit: AuditLog, tenants: TenantRepository) -> None:
        self._audit = audit
        self._tenants = tenants

    def routes(self) -> list[Route]:
        return [
            Route(usage.OPERATIONS["getOwnAudit"], self.own),
            Route(usage.OPERATIONS["exportOwnAudit"], self.export_own),
            Route(tenants.OPERATIONS["getAudit"], self.of_tenant),
            Route(tenants.OPERATIONS["exportAudit"], self.export_of_tenant),
        ]

    async def own(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page(scope, send, tenant_of(scope))

    async def of_tenant(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page(scope, send, await self._tenant(scope))

    async def export_own(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._export(scope, send, tenant_of(scope))

    async def export_of_tenant(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._export(scope, send, await self._tenant(scope))

    async def _tenant(self, scope: Scope) -> bytes:
        name = path_param(scope, "tenant")
        if name_errors(name):
            raise not_found("tenant", name)
        return (await self._tenants.get(name)).tenant_id

    async def _page(self, scope: Scope, send: Send, tenant_id: bytes) -> None:
        query = Query(scope)
        page = await self._audit.page(
            tenant_id,
            filter_of(query),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = usage.AuditPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def _export(self, scope: Scope, send: Send, tenant_id: bytes) -> None:
        """Write each entry that fits as a line; a broken connection says that some are missing."""
        wanted = filter_of(Query(scope))
        page = await self._audit.page(tenant_id, wanted, page_size=LINES_AT_ONCE)
        headers = [(b"content-type", NDJSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            lines = b"".join(msgspec.json.encode(view(one)) + b"\n" for one in page.items)
            more = page.next_token is not None
            await send({"type": "http.response.body", "body": lines, "more_body": more})
            if not more:
                return
            page = await self._audit.page(
                tenant_id, wanted, page_size=LINES_AT_ONCE, page_token=page.next_token
            )


def filter_of(query: Query) -> AuditFilter:
    """Return the filter of a query; raise a 400 Problem that names the parameter."""
    texts: dict[str, Any] = {
        each.name: text_of(each, query.text(each.name) or None)
        for each in (usage.ACTOR, usage.ACTION, usage.RESOURCE)
    }
    return AuditFilter(
        **texts,
        start=time_of(query, "from"),
        end=time_of(query, "to"),
        oldest_first=query.choice(usage.ORDER) == "oldest",
    )


def view(entry: AuditEntry) -> usage.AuditEntry:
    assert entry.at is not None, "an entry that was read has its time"
    return usage.AuditEntry(
        id=entry.id.hex(),
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        resource=entry.resource,
        status=entry.status,
        request_id=entry.request_id,
        source=msgspec.convert(entry.detail.get("source", {}), usage.AuditSource),
        members=entry.detail.get("members", {}),
        query=entry.detail.get("query", {}),
        reason=entry.detail.get("reason"),
    )
