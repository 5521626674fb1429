"""Pools: callers list them, and give them a limit or take it away."""

from __future__ import annotations

from edge.asgi import Route
from edge.problem import invalid
from gateway.jobs.refusals import refusals
from gateway.jobs.views import pool_view
from gateway.names import name_errors
from gateway.resources import Call, Resource, Shown, precondition_failed
from metadata.errors import Conflict, NotFound
from metadata.jobs.pools import JobPoolRepository
from metadata.jobs.types import Pool
from openapi import jobs as contract


class PoolRoutes:
    """Each pool that a job names is there, without a limit; a row gives it one."""

    def __init__(self, pools: JobPoolRepository) -> None:
        self._pools = pools

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        pools = Resource("pool", table["getPool"], _shown)
        return [
            pools.lists(table["listPools"], self._pools.page),
            pools.gets(table["getPool"], self._pools.get),
            pools.upserts(table["putPool"], contract.PoolPut, self._put),
            pools.deletes(table["deletePool"], self._delete),
        ]

    async def _put(self, call: Call, body: contract.PoolPut) -> tuple[Pool, bool]:
        """Return the pool with that limit, and whether it had none."""
        if errors := name_errors(call.name):
            raise invalid("The name does not fit.", errors)
        try:
            async with refusals():
                return await self._pools.put(
                    call.tenant_id, call.name, body.max_running, call.if_version
                )
        except (Conflict, NotFound) as error:
            raise precondition_failed("pool") from error

    async def _delete(self, call: Call) -> None:
        """Delete the limit of a pool; its tasks stay."""
        await self._pools.delete(call.tenant_id, call.name, if_version=call.if_version)


def _shown(pool: Pool) -> Shown:
    return Shown(pool_view(pool), pool.name, pool.version)
