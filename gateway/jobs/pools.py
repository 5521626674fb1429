"""Pools: looked at and limited."""

from __future__ import annotations

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.problem import invalid
from gateway.http.decoding import etag, if_match, read_json
from gateway.jobs.refusals import refusals
from gateway.jobs.views import pool_view
from gateway.names import name_errors
from gateway.resources import precondition_failed, respond_no_content
from gateway.tenancy.answers import respond_listing
from gateway.visible import visible_page
from metadata.errors import NotFound
from metadata.jobs.pools import JobPoolRepository
from metadata.jobs.types import Pool
from openapi import jobs as contract


class PoolRoutes:
    """A pool that jobs name is there; a row gives it a limit."""

    def __init__(self, pools: JobPoolRepository) -> None:
        self._pools = pools

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listPools"], self.page),
            Route(contract.OPERATIONS["getPool"], self.get),
            Route(contract.OPERATIONS["putPool"], self.put),
            Route(contract.OPERATIONS["deletePool"], self.delete),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        page = await visible_page(
            scope,
            "pool",
            lambda size, token: self._pools.page(tenant_id, page_size=size, page_token=token),
        )
        listing = contract.PoolPage([pool_view(each) for each in page.items], page.next_token)
        await respond_listing(send, listing)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _respond(
            send, 200, await self._pools.get(tenant_of(scope), path_param(scope, "pool"))
        )

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        version, name = if_match(header(scope, b"if-match")), path_param(scope, "pool")
        body = await read_json(scope, receive, contract.PoolPut)
        errors = name_errors(name)
        if errors:
            raise invalid("The name does not fit.", errors)
        try:
            async with refusals("pool"):
                pool, made = await self._pools.put(
                    tenant_of(scope), name, body.max_running, version
                )
        except NotFound as error:
            raise precondition_failed("pool") from error
        await _respond(send, 201 if made else 200, pool)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        version, name = if_match(header(scope, b"if-match")), path_param(scope, "pool")
        async with refusals("pool"):
            await self._pools.delete(tenant_of(scope), name, if_version=version)
        await respond_no_content(send)


async def _respond(send: Send, status: int, pool: Pool) -> None:
    headers = [] if pool.version is None else [etag(pool.version)]
    if status == 201:
        headers.append((b"location", b"/pools/" + pool.name.encode("ascii")))
    await respond(send, status, msgspec.json.encode(pool_view(pool)), headers=headers)
