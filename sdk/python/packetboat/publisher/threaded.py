"""The publisher of a blocking client: an event loop in one daemon thread, shared by all threads."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from random import Random
from time import monotonic
from typing import Any

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Producer
from packetboat.errors import BufferFull, ClientClosed, UnknownOutcome
from packetboat.publisher import at_exit
from packetboat.publisher.core import Core
from packetboat.publisher.ledger import Settled
from packetboat.publisher.pending import Pending
from packetboat.publisher.pending_receipt import PendingReceipt
from packetboat.publisher.pump import Pump
from packetboat.publisher.settings import PublisherSettings
from packetboat.transport import forking

_log = logging.getLogger("packetboat")


class ThreadedPublisher:
    """The thread begins with the first publish. `open_sender` makes what it sends by, of which each
    process has its own."""

    def __init__(
        self,
        open_sender: Callable[[], AsyncSender],
        settings: PublisherSettings,
        producer: Producer,
    ) -> None:
        self._open_sender = open_sender
        self._settings = settings
        self._producer = producer
        self.lock: threading.RLock = threading.RLock()
        self._room = threading.Condition(self.lock)
        self._pump: Pump | None = None
        self._thread: threading.Thread | None = None
        self._forgotten: weakref.finalize[..., ThreadedPublisher] | None = None
        self._closed = False
        forking.watch(self)
        at_exit.watch(self)

    def publish(self, topic: str, message: Pending) -> PendingReceipt:
        """With the overflow "block" it waits for room. Raises BufferFull, ClientClosed,
        or PrecedingFailed where its key is paused."""
        receipt = PendingReceipt(self)
        message.receipt = receipt
        with self.lock:
            pump = self._open_pump()
            try:
                pump.core.accept(topic, message, monotonic())
            except BufferFull:
                if self._settings.overflow != "block":
                    raise
                pump = self._accept_later(topic, message)
            pump.kick()
        return receipt

    def flush(self, timeout_s: float | None = None) -> None:
        """Returns when all that was published before has a receipt or an error. Raises
        TimeoutError."""
        with self.lock:
            pump = self._pump
            if pump is None or not pump.core.ledger.messages:
                return
            self.check_may_wait()
        flushed = asyncio.run_coroutine_threadsafe(pump.flush(), pump.loop)
        try:
            flushed.result(timeout_s)
        except TimeoutError:
            flushed.cancel()
            raise TimeoutError(f"not all is published after {timeout_s} s") from None

    def resume_key(self, topic: str, key: str) -> None:
        with self.lock:
            if self._pump is not None:
                self._pump.core.resume_key(topic, key)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush and close.

        Messages without a receipt at the timeout end with ClientClosed if they are not stored, else
        with UnknownOutcome; their number is logged.
        """
        with self.lock:
            self._closed = True
            pump, thread = self._pump, self._thread
            self._room.notify_all()
            self.check_may_wait()
        if pump is None or thread is None or not thread.is_alive():
            return
        try:
            self.flush(self._settings.close_timeout_s if timeout_s is None else timeout_s)
        except TimeoutError:
            pass
        finally:
            self._stop(pump, thread)

    def finish(self) -> None:
        """The interpreter ends."""
        with self.lock:
            pump = self._pump
        if pump is None or not pump.core.ledger.messages:
            return
        try:
            self.flush(self._settings.close_timeout_s)
        except TimeoutError:
            pass
        finally:
            if pump.core.ledger.messages:
                _log.error(
                    "the interpreter ends with %d messages not published", pump.core.ledger.messages
                )

    def _forked(self) -> None:
        """This is the child, without the thread: what waits is the parent's, and it sends it."""
        old = self._pump
        self.lock = threading.RLock()
        self._room = threading.Condition(self.lock)
        self._pump = self._thread = None
        if self._forgotten is not None:
            self._forgotten.detach()
        for message in list(old.core.unsettled()) if old is not None else ():
            message.receipt.settle(UnknownOutcome("the parent process publishes it"))
            message.receipt.disregard()

    def check_may_wait(self) -> None:
        """The thread that publishes would wait for itself."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback of a published message may not wait for another")

    def _accept_later(self, topic: str, message: Pending) -> Pump:
        """Wait for room and accept a message; the caller holds the lock, which is released
        meanwhile.
        """
        self.check_may_wait()
        for_s = self._settings.deadline_s if message.timeout_s is None else message.timeout_s
        ends_s = monotonic() + for_s
        while True:
            left_s = ends_s - monotonic()
            if not self._room.wait(max(left_s, 0.0)) and left_s <= 0:
                raise BufferFull(f"no room within {for_s:g} s")
            pump = self._open_pump()
            try:
                pump.core.accept(topic, message, monotonic())
            except BufferFull:
                continue
            return pump

    def _open_pump(self) -> Pump:
        if self._closed:
            raise ClientClosed("the client is closed")
        return self._pump or self._start()

    def _start(self) -> Pump:
        """Start the loop and its thread, under the lock, once in each process."""
        loop = asyncio.new_event_loop()
        loop.set_default_executor(_Executor())
        core = Core(self._settings, self._producer.next_headers, Random())
        sender = self._open_sender()
        # Pending messages hold this, and else only who publishes: forgotten, its thread ends.
        me = weakref.ref(self)
        tell = partial(_tell, me)
        pump = Pump(core, sender, loop, self.lock, loop.call_soon_threadsafe, tell)
        self._thread = threading.Thread(
            target=_run, args=[loop], name="packetboat-publisher", daemon=True
        )
        self._thread.start()
        self._pump = pump
        self._forgotten = weakref.finalize(self, _end, pump)
        self._forgotten.atexit = False
        at_exit.watch_child()
        return pump

    def _stop(self, pump: Pump, thread: threading.Thread) -> None:
        if self._forgotten is not None:
            self._forgotten.detach()
        left = _end(pump).result()
        thread.join()
        if left:
            _log.error("the client was closed with %d messages not published", left)

    def tell(self, settled: Sequence[Settled]) -> None:
        """Wake the callers that wait for these outcomes or for room."""
        with self.lock:
            for message, outcome in settled:
                message.receipt.settle(outcome)
            self._room.notify_all()
        for message, _ in settled:
            message.receipt.announce()


class _Executor(ThreadPoolExecutor):
    """Looks up host names. Executors end before what runs at the end of the interpreter; then the
    loop waits for the answer itself."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            done: Future[Any] = Future()
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as error:
                done.set_exception(error)
            return done


def _tell(publisher: weakref.ref[ThreadedPublisher], settled: Sequence[Settled]) -> None:
    alive = publisher()
    assert alive is not None, "messages hold their publisher"
    alive.tell(settled)


def _end(pump: Pump) -> Future[int]:
    """Stop a pump with its loop and thread; the future has the number of unpublished messages."""

    async def end() -> int:
        left = await pump.stop(ClientClosed("the client was closed before it was stored"))
        await pump.sender.close()
        pump.loop.call_soon(pump.loop.stop)
        return left

    return asyncio.run_coroutine_threadsafe(end(), pump.loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
