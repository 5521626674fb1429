"""Runs a core on an event loop: sends its batches, wakes it in time, passes on what is settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic

from packetboat.aio.sender import AsyncSender
from packetboat.errors import ClientClosed, NotDone, PacketboatError, UnknownOutcome
from packetboat.publisher.batch import Batch
from packetboat.publisher.core import EXPIRY_S, Core
from packetboat.publisher.ledger import Settled
from packetboat.publisher.pending import Pending
from packetboat.publisher.results import Result
from packetboat.transport.seam import TIMEOUT_S
from packetboat.tries import RetryWarning

_log = logging.getLogger("packetboat")


class Pump:
    """The task that sends the batches of a core.

    The caller holds `lock` whenever it uses the core, here and when it accepts messages; `tell` is
    called without the lock, on the loop. `soon` calls a function on the loop.
    """

    def __init__(
        self,
        core: Core,
        sender: AsyncSender,
        loop: asyncio.AbstractEventLoop,
        lock: AbstractContextManager[object],
        soon: Callable[[Callable[[], None]], object],
        tell: Callable[[Sequence[Settled]], None],
    ) -> None:
        self.core = core
        self.sender = sender
        self.loop = loop
        self._lock = lock
        self._soon = soon
        self._tell = tell
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._expiry_s = 0.0
        self._sending: set[asyncio.Task[None]] = set()
        self._waiters: list[tuple[list[Pending], asyncio.Future[None]]] = []
        self._stopped = False
        self._warning = RetryWarning(sender.options.server)

    def kick(self) -> None:
        """Note, under the lock, that a message was accepted.

        All messages accepted until the loop runs are sent together.
        """
        if not self._scheduled:
            self._scheduled = True
            self._soon(self._turn)

    async def flush(self) -> None:
        """Wait until all messages accepted before this call are settled."""
        with self._lock:
            waited_for = list(self.core.unsettled())
            if not waited_for:
                return
            self.core.hurry()
            self.kick()
        done = self.loop.create_future()
        self._waiters.append((waited_for, done))
        await done

    async def stop(self, error: NotDone) -> int:
        """Stop sending; unsettled messages end with `error`, or as unknown. Return their number."""
        self._stopped = True
        with self._lock:
            left = self.core.ledger.messages
            self.core.abandon(error)
        self._settle()
        if self._timer is not None:
            self._timer.cancel()
        sending = list(self._sending)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        return left

    def _turn(self) -> None:
        with self._lock:
            self._scheduled = False
            if self._stopped:
                return
            now_s = monotonic()
            if now_s >= self._expiry_s:
                more = self.core.expire(now_s)
                self._expiry_s = now_s if more else now_s + EXPIRY_S
            batches = self.core.next_batches(now_s)
            wake_s = self.core.wake_s(now_s)
            if wake_s is not None and self._expiry_s <= now_s:
                wake_s = now_s
        for batch in batches:
            task = self.loop.create_task(self._send(batch))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        self._settle()
        self._wake_at(wake_s, now_s)

    async def _send(self, batch: Batch) -> None:
        try:
            results = await self.sender.send_once(batch.call, TIMEOUT_S)
        except PacketboatError as error:
            self._ended(batch, error)
        except asyncio.CancelledError:
            self._loop_ended()
            raise
        except Exception as error:
            _log.exception("a batch could not be sent")
            self._ended(batch, UnknownOutcome(f"{type(error).__name__}: {error}"))
        else:
            self._ended(batch, results)

    def _ended(self, batch: Batch, end: PacketboatError | Sequence[Result]) -> None:
        """Report the end of a batch.

        Callers that wait for its receipts run before the next batch is made, so that the batch
        includes the messages that they publish next.
        """
        with self._lock:
            if isinstance(end, PacketboatError):
                self.core.failed(batch, end, monotonic())
                if batch.again_s is not None:
                    self._warning.sent_again(end, self.core.deadline_s)
            else:
                self.core.answered(batch, end, monotonic())
                self._warning.succeeded()
        self._settle()
        with self._lock:
            self.kick()

    def _settle(self) -> None:
        with self._lock:
            settled = self.core.ledger.take_settled()
        if settled:
            self._complete(settled)
            self._tell(settled)
            self._tell_waiters()

    def _complete(self, settled: Sequence[Settled]) -> None:
        """Errors say which server it was, and how often and how long each message was tried."""
        for message, outcome in settled:
            if isinstance(outcome, PacketboatError):
                outcome.server = self.sender.options.server
                outcome.tries = message.tries
                outcome.tried_s = monotonic() - message.accepted_s

    def _tell_waiters(self) -> None:
        for waited_for, done in self._waiters:
            while waited_for and waited_for[-1].settled:
                waited_for.pop()
            if not waited_for and not done.done():
                done.set_result(None)
        self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]

    def _wake_at(self, wake_s: float | None, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_s is not None:
            self._timer = self.loop.call_later(max(0.0, wake_s - now_s), self._turn)

    def _loop_ended(self) -> None:
        """Nobody else cancels what is sent. It is told loudly, since maybe nobody waits."""
        if self._stopped:
            return
        self._stopped = True
        with self._lock:
            left = self.core.ledger.messages
            self.core.abandon(ClientClosed("its event loop ended before it was stored"))
        self._settle()
        _log.error("an event loop ended with %d messages not published", left)
