"""A worker: calls a handler for each message of a subscription, and acks what it has done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from packetboat.aio.client import AsyncClient
from packetboat.sync.client import Client
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handler, Middleware
from packetboat.worker.runner import Assignment, Runner
from packetboat.worker.settings import WorkerOptions, WorkerSettings


class Worker:
    """Handles the messages of one subscription. `options` are the fields of `WorkerSettings`.

    When a handler returns, its message is acked; when it raises, the message is delivered again,
    after the subscription's back-off and with the exception's text as the reason. A handler raises
    `RetryLater`, `Reject` or `Release` for another outcome, and returns or yields `Emit` to publish
    with the ack.

    `client` may be a Client or an AsyncClient; for a Client the worker makes its own connections.
    """

    def __init__(
        self,
        client: Client | AsyncClient,
        subscription: str,
        *,
        middleware: Sequence[Middleware] = (),
        events: WorkerEvents | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self.subscription = subscription
        self.settings: WorkerSettings = WorkerSettings(**options)
        self._middleware = tuple(middleware)
        self._events = events or WorkerEvents()
        self._runner = Runner(client)

    def run(self, handler: Handler, *, body: Any = None) -> None:
        """Run until stopped. In the main thread SIGTERM and SIGINT stop it.

        After the first signal handlers that have begun may end, for `drain_s`, and the other
        messages are released; a second signal stops it at once. `handler` gets a Message, or a list
        of them where `batch_size` is over 1; with `body`, the message's data as that type. A second
        parameter gets the Context. Raises errors that a retry will not heal, such as NotFound and
        NotAuthorized.
        """
        self._runner.run([self._assignment(handler, body)])

    async def arun(
        self, handler: Handler, *, body: Any = None, signals: bool | None = None
    ) -> None:
        """Run like `run`, in the caller's event loop. SIGTERM and SIGINT stop it as they stop
        `run`, unless the program has a handler of its own for them; `signals` True takes them in
        any case, False never.

        Cancelling it abandons the messages in progress, which are then delivered again: prefer
        `stop`.
        """
        await self._runner.arun([self._assignment(handler, body)], signals=signals)

    def stop(self) -> None:
        """Stop the run as SIGTERM does, from any thread. A second call stops it at once."""
        self._runner.stop()

    def _assignment(self, handler: Handler, body: Any) -> Assignment:
        return Assignment(
            self.subscription, handler, body, self.settings, self._middleware, self._events
        )
