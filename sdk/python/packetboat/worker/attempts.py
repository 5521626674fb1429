"""One call of the handler: what it was given, how it ended, and what its messages come to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from packetboat.worker.context import Context
from packetboat.worker.emit import check_outputs
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handling
from packetboat.worker.held import Held, State
from packetboat.worker.outcomes import (
    RELEASE,
    Reject,
    Release,
    RetryLater,
    Settlement,
    Verb,
    exhausted,
    of_batch,
    of_error,
    of_value,
)
from packetboat.worker.pace import Latency
from packetboat.worker.running import Stopping
from packetboat.worker.settings import WorkerSettings

_log = logging.getLogger("packetboat.worker")
Outcome = Settlement | BaseException


class Attempts:
    """`end` is told how each message that was given to `make` is to be settled, once."""

    def __init__(
        self,
        handling: Handling,
        settings: WorkerSettings,
        subscription: str,
        stopping: Stopping,
        events: WorkerEvents,
        latency: Latency,
        end: Callable[[Held, Settlement], None],
    ) -> None:
        self._handling = handling
        self._settings = settings
        self._subscription = subscription
        self._stopping = stopping
        self._events = events
        self._latency = latency
        self._end = end

    async def make(self, batch: Sequence[Held]) -> None:
        given: list[tuple[Held, Context]] = []
        for held in batch:
            if held.state is not State.QUEUED:
                self._end(held, RELEASE)  # It was lost while its rate was waited for.
                continue
            context = Context(held, self._subscription, self._stopping)
            refused = self._refused(context)
            if refused is None:
                given.append((held, context))
            else:
                self._end(held, refused)
        if given:
            await self._call(given)

    def _refused(self, context: Context) -> Settlement | None:
        """Return the settlement of a message that no handler should see; None for others."""
        most = self._settings.max_attempts
        if most is not None and context.attempt > most:
            return exhausted(context.attempt, most)
        try:
            self._handling.decode(context)
        except Reject as error:
            return of_error(error, context.attempt, most)
        return None

    async def _call(self, given: list[tuple[Held, Context]]) -> None:
        loop = asyncio.get_running_loop()
        for held, context in given:
            held.state = State.RUNNING
            self._events.started(context)
        began_s = loop.time()
        try:
            outcomes = await self._outcomes(given)
        except asyncio.CancelledError:
            seconds = loop.time() - began_s
            for held, context in given:
                self._finish(held, context, RELEASE, seconds)
            raise
        seconds = loop.time() - began_s
        self._latency.add(seconds)
        for (held, context), outcome in zip(given, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._tell(context, outcome)
                outcome = of_error(outcome, context.attempt, self._settings.max_attempts)
            self._finish(held, context, outcome, seconds)

    async def _outcomes(self, given: list[tuple[Held, Context]]) -> Sequence[Outcome]:
        """Return one outcome for each message; raises CancelledError only when the worker
        is cancelled.
        """
        contexts = [context for _, context in given]
        scope = asyncio.timeout(self._settings.handler_timeout_s)
        try:
            async with scope:
                for held, _ in given:
                    held.scope = scope
                value = await self._handling(contexts if self._handling.batches else contexts[0])
            if not self._handling.batches:
                return [self._outcome(value, contexts[0])]
            values = of_batch(value, len(given))
            return [self._outcome(*each) for each in zip(values, contexts, strict=True)]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error: Exception = RuntimeError("the handler was cancelled from within")
        except Exception as raised:
            error = raised
            if isinstance(raised, TimeoutError) and scope.expired():
                error = TimeoutError(f"no end after {self._settings.handler_timeout_s} s")
        return [error] * len(given)

    def _outcome(self, value: Any, context: Context) -> Outcome:
        if isinstance(value, BaseException):
            return value
        if isinstance(value, type) and issubclass(value, Exception):
            return value()
        if self._handling.stream_task is not None:
            outputs = self._handling.stream_task.outputs(value, context.message)
            return Settlement(Verb.ACK, outputs=check_outputs(outputs))
        return of_value(value)

    def _finish(self, held: Held, context: Context, settlement: Settlement, seconds: float) -> None:
        held.scope = None
        self._events.handled(context, settlement.verb, seconds)
        self._end(held, settlement)

    def _tell(self, context: Context, error: BaseException) -> None:
        """Exceptions that were not raised to say what to do are a surprise to somebody."""
        if isinstance(error, RetryLater | Reject | Release):
            return
        _log.warning(
            "%s: attempt %d at message %s failed",
            self._subscription,
            context.attempt,
            context.message.message_id,
            exc_info=error,
        )
