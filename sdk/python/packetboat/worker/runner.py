"""Runs workers of one client together, until they are told to stop or one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from packetboat.aio.client import AsyncClient
from packetboat.sync.client import Client
from packetboat.worker.calls import SenderCalls
from packetboat.worker.engine import Engine
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handler, Handling, Middleware
from packetboat.worker.running import Running, Stopping
from packetboat.worker.settings import WorkerSettings

CONNECTIONS = 8
"""The connections of a worker: for a waiting pull, acks and extensions, and at times nacks
and outputs.
"""


class Assignment(NamedTuple):
    """The handler of a subscription's messages, with its settings."""

    subscription: str
    handler: Handler
    body: Any
    settings: WorkerSettings
    middleware: Sequence[Middleware]
    events: WorkerEvents

    def handling(self) -> Handling:
        """Raises TypeError where handler and middleware do not go together."""
        return Handling(
            self.handler,
            batches=self.settings.batch_size > 1,
            body=self.body,
            middleware=self.middleware,
            threads=self.settings.concurrency,
        )


class Runner:
    """One run at a time. `stop` may come from any thread, also before the run has begun."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self._client = client
        self._running = Running()

    def run(self, assignments: Sequence[Assignment]) -> None:
        """Blocks. In the main thread SIGTERM and SIGINT stop it; the second time at once."""
        asyncio.run(self.arun(assignments, signals=True))

    async def arun(self, assignments: Sequence[Assignment], *, signals: bool | None) -> None:
        handlings = [assignment.handling() for assignment in assignments]
        await self._running.run(
            lambda stopping: self._run(assignments, handlings, stopping), signals=signals
        )

    def stop(self) -> None:
        self._running.stop()

    async def _run(
        self, assignments: Sequence[Assignment], handlings: Sequence[Handling], stopping: Stopping
    ) -> None:
        """Run all workers; the first error of one stops the others gently, and is raised at
        the end.
        """
        given = self._client
        client = given if isinstance(given, AsyncClient) else _client(given, len(assignments))
        try:
            engines = [
                Engine(
                    SenderCalls(client._sender, each.subscription, each.settings.consumer),
                    each.subscription,
                    each.settings,
                    handling,
                    each.events,
                    stopping,
                ).run()
                for each, handling in zip(assignments, handlings, strict=True)
            ]
            await together(engines, stopping.ask_once)
        finally:
            if client is not given:
                await client.close()


def _client(given: Client, workers: int) -> AsyncClient:
    """Return a client with enough connections for the concurrent requests of all workers;
    it leaves retries to them.
    """
    options = given.options
    most = max(options.max_connections, workers * CONNECTIONS)
    return AsyncClient.from_options(options.replace(max_connections=most, retry_for_s=0.0))


async def together(runs: Sequence[Any], stop: Callable[[], None]) -> None:
    """Wait for the end of all; call `stop` when one fails, and raise the first failure."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    failure: BaseException | None = None
    try:
        for task in asyncio.as_completed(tasks):
            try:
                await task
            except Exception as error:
                failure = failure or error
                stop()
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    if failure is not None:
        raise failure
