"""The result of `publish` in the blocking client: a receipt that is still to come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from packetboat.errors import PacketboatError
from packetboat.models import Receipt

_log = logging.getLogger("packetboat")
Callback = Callable[["PendingReceipt"], object]


class Home(Protocol):
    """The place that settles receipts: under its lock, by its thread."""

    lock: threading.RLock

    def check_may_wait(self) -> None: ...


class PendingReceipt:
    """The receipt of one message, or its error, once that is known; shared by threads.

    An error that no caller reads is logged when this object is deleted.
    """

    __slots__ = ("_callbacks", "_home", "_outcome", "_seen", "_waiters")

    def __init__(self, home: Home) -> None:
        self._home = home
        self._outcome: Receipt | PacketboatError | None = None
        self._seen = False
        self._waiters: list[threading.Lock] | None = None
        self._callbacks: list[Callback] | None = None

    def result(self, timeout_s: float | None = None) -> Receipt:
        """Waits. Raises NotDone or UnknownOutcome, or TimeoutError while nothing is known yet."""
        outcome = self._outcome
        if outcome is None:
            outcome = self._wait(timeout_s)
        if isinstance(outcome, PacketboatError):
            self._seen = True
            raise outcome
        return outcome

    def exception(self, timeout_s: float | None = None) -> PacketboatError | None:
        """Return the error that `result` would raise, or None if there is a receipt."""
        outcome = self._outcome
        if outcome is None:
            outcome = self._wait(timeout_s)
        self._seen = True
        return outcome if isinstance(outcome, PacketboatError) else None

    def done(self) -> bool:
        """Return whether the outcome is known, so that `result` does not wait."""
        return self._outcome is not None

    def add_done_callback(self, callback: Callback) -> None:
        """Called with this once it is done, at once if it is already, else by the thread that
        publishes: keep it short, and do not wait for another receipt in it."""
        with self._home.lock:
            if self._outcome is None:
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        self._call(callback)

    def settle(self, outcome: Receipt | PacketboatError) -> None:
        """Store the outcome, once, under the lock of its home; `announce` follows without
        the lock.
        """
        self._outcome = outcome

    def disregard(self) -> None:
        """An error of it is not logged."""
        self._seen = True

    def announce(self) -> None:
        """Wake the waiting callers, and call the callbacks."""
        for waiter in self._waiters or ():
            waiter.release()
        for callback in self._callbacks or ():
            self._call(callback)
        self._waiters = self._callbacks = None

    def _wait(self, timeout_s: float | None) -> Receipt | PacketboatError:
        waiter = threading.Lock()
        waiter.acquire()
        with self._home.lock:
            if self._outcome is None:
                self._home.check_may_wait()
                self._waiters = [*(self._waiters or ()), waiter]
            else:
                waiter.release()
        waiter.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
        with self._home.lock:
            if self._outcome is not None:
                return self._outcome
            self._waiters = [each for each in self._waiters or () if each is not waiter]
        raise TimeoutError(f"not known after {timeout_s} s; it is still being published")

    def _call(self, callback: Callback) -> None:
        try:
            callback(self)
        except Exception:
            _log.exception("a callback of a published message failed")

    def __del__(self) -> None:
        if not self._seen and isinstance(self._outcome, PacketboatError):
            _log.error("a message was not published, and nobody asked: %s", self._outcome)
