"""A worker: runs the tasks of jobs, each pool apart."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Mapping

from packetboat.aio.client import AsyncClient
from packetboat.sync.client import Client
from packetboat.tasks.definitions import Definition
from packetboat.tasks.held import HeldTasks, TaskLeases
from packetboat.tasks.pool_worker import PoolWorker, Shared
from packetboat.tasks.processes import check_importable
from packetboat.tasks.registry import Tasks
from packetboat.tasks.reporting import ResultReporter
from packetboat.worker.runner import together
from packetboat.worker.running import Running, Stopping

DEFAULT_CONCURRENCY = 4
MAX_KINDS = 100
FLUSH_S = 10.0
FLUSH_AT_ONCE_S = 1.0
_log = logging.getLogger("packetboat.tasks")


class TaskWorker:
    """Claims and runs the tasks of jobs, but only of the kinds in `tasks`.

    `pools` limits the tasks of each pool that run here at once; the default is four for each pool
    that the tasks name. When a worker dies, other workers get its tasks as soon as their leases
    end, after at most `lease_s`.

    `client` may be a Client or an AsyncClient; for a Client the worker makes its own connections.
    """

    def __init__(
        self,
        client: Client | AsyncClient,
        tasks: Tasks | Iterable[Tasks],
        *,
        pools: Mapping[str, int] | None = None,
        lease_s: float = 30.0,
        drain_s: float = 30.0,
        name: str | None = None,
    ) -> None:
        self._client = client
        self._definitions = _all(tasks)
        named = {each.pool for each in self._definitions.values()}
        self._pools = dict.fromkeys(named, DEFAULT_CONCURRENCY) if pools is None else dict(pools)
        if not self._pools or min(self._pools.values()) < 1:
            raise ValueError("a worker has a pool, and runs at least one task of each")
        self._lease_s = lease_s
        self._drain_s = drain_s
        self.name: str = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._running = Running()

    def run(self) -> None:
        """Run until stopped. In the main thread SIGTERM and SIGINT stop it.

        After the first signal handlers that have begun may end, for `drain_s`, and the other tasks
        are released; a second signal stops it at once. Raises errors that a retry will not heal,
        such as NotAuthorized.
        """
        asyncio.run(self.arun(signals=True))

    async def arun(self, *, signals: bool | None = None) -> None:
        """Run like `run`, in the caller's event loop; `signals` is as in `Worker.arun`."""
        await self._running.run(self._run, signals=signals)

    def stop(self) -> None:
        """Stop the run as SIGTERM does, from any thread. A second call stops it at once."""
        self._running.stop()

    async def _run(self, stopping: Stopping) -> None:
        given = self._client
        client = (
            given if isinstance(given, AsyncClient) else AsyncClient.from_options(given.options)
        )
        failure: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                held = HeldTasks()
                reporter = ResultReporter(client.jobs, held, group)
                keeper = group.create_task(TaskLeases(client.jobs, held, self._lease_s).keep())
                shared = Shared(
                    client.jobs,
                    self._definitions,
                    held,
                    reporter,
                    stopping,
                    self.name,
                    self._lease_s,
                    self._drain_s,
                )
                try:
                    await together(
                        [PoolWorker(*pool, shared).run() for pool in self._pools.items()],
                        stopping.ask_once,
                    )
                except Exception as error:
                    failure = error
                await self._flush(reporter, held, stopping)
                keeper.cancel()
        finally:
            if client is not given:
                await client.close()
        if failure is not None:
            raise failure

    async def _flush(self, reporter: ResultReporter, held: HeldTasks, stopping: Stopping) -> None:
        if not await reporter.flush(FLUSH_AT_ONCE_S if stopping.at_once else FLUSH_S):
            _log.warning("%d tasks are not settled; they will be done again", len(held))


def _all(tasks: Tasks | Iterable[Tasks]) -> dict[str, Definition]:
    """Return all definitions, checked, so that a mistake ends the worker at its start."""
    found: dict[str, Definition] = {}
    for registry in [tasks] if isinstance(tasks, Tasks) else tasks:
        for kind, definition in registry.definitions.items():
            if kind in found:
                raise ValueError(f"two tasks are called {kind}")
            found[kind] = definition
    if len(found) > MAX_KINDS:
        raise ValueError(f"{len(found)} kinds of tasks: a worker asks for {MAX_KINDS} at most")
    for definition in found.values():
        _ = definition.decode  # Annotations that cannot be read are said now.
        if definition.isolation == "process":
            check_importable(definition)
    return found
