"""A worker on the twin of the jobs API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from packetboat import AsyncClient, Client, Options
from packetboat.tasks import Tasks, TaskWorker

from tests.unit.sdk.jobs_twin import AsyncTwinTransport, JobsTwin, TwinTransport

PATIENCE_S = 60.0


def async_client(twin: JobsTwin, retry_for_s: float = 0.2) -> AsyncClient:
    return AsyncClient(options=Options(retry_for_s=retry_for_s), transport=AsyncTwinTransport(twin))


def sync_client(twin: JobsTwin) -> Client:
    return Client(options=Options(retry_for_s=0.2), transport=TwinTransport(twin))


@asynccontextmanager
async def working(client: AsyncClient, tasks: Tasks, **options: Any) -> AsyncIterator[TaskWorker]:
    """Ends gently with the test."""
    worker = TaskWorker(client, tasks, **options)
    running = asyncio.ensure_future(worker.arun())
    try:
        yield worker
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
