"""Workers of several subscriptions in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

from packetboat.aio.client import AsyncClient
from packetboat.sync.client import Client
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Middleware
from packetboat.worker.runner import Assignment, Runner
from packetboat.worker.settings import WorkerOptions, WorkerSettings

H = TypeVar("H", bound=Callable[..., Any])


class WorkerApp:
    """Workers of several subscriptions that run together.

    Write `@app.subscription("orders", concurrency=8)` above each handler, then call `app.run()`.
    `middleware` and `events` apply to all workers; each has its own threads, leases and limits, and
    they share the client's connections.
    """

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        middleware: Sequence[Middleware] = (),
        events: WorkerEvents | None = None,
    ) -> None:
        self._middleware = tuple(middleware)
        self._events = events or WorkerEvents()
        self._assignments: list[Assignment] = []
        self._runner = Runner(client)

    def subscription(
        self,
        name: str,
        *,
        body: Any = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[WorkerOptions],
    ) -> Callable[[H], H]:
        """Register a handler, and return it unchanged. `options` are fields of `WorkerSettings`."""
        settings = WorkerSettings(**options)
        if any(each.subscription == name for each in self._assignments):
            raise ValueError(f"{name} has a handler already")

        def add(handler: H) -> H:
            around = (*self._middleware, *middleware)
            assignment = Assignment(name, handler, body, settings, around, self._events)
            self._assignments.append(assignment)
            return handler

        return add

    def run(self) -> None:
        """Run all workers until they are stopped, as `Worker.run` does.

        When one of them fails, all are stopped, and its error is raised.
        """
        self._runner.run(self._handlers())

    async def arun(self, *, signals: bool | None = None) -> None:
        """Run the handlers like `run`, in the caller's event loop; `signals` is as in
        `Worker.arun`.
        """
        await self._runner.arun(self._handlers(), signals=signals)

    def stop(self) -> None:
        """Stop the run, from any thread. A second call stops it at once."""
        self._runner.stop()

    def _handlers(self) -> list[Assignment]:
        if not self._assignments:
            raise ValueError("no @app.subscription(…): there is nothing to do")
        return self._assignments
