"""Sends calls: again where that is safe, until one is answered or the time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from packetboat.calls import Call, StreamCall, failure
from packetboat.errors import ClientClosed, PacketboatError
from packetboat.options import Options
from packetboat.transport import forking
from packetboat.transport.seam import Response, StreamResponse, Transport
from packetboat.tries import RetryWarning, Tries

T = TypeVar("T")


class Sender:
    """The sender of the calls of all resources of a client; threads share it."""

    def __init__(self, options: Options, transport: Transport) -> None:
        self.options = options
        self._transport = transport
        self._warning = RetryWarning(options.server)
        self._closed = threading.Event()
        forking.watch(self)

    def _forked(self) -> None:
        """A thread of the parent may have held the lock of its event."""
        closed, self._closed = self._closed.is_set(), threading.Event()
        if closed:
            self._closed.set()

    def send(self, call: Call[T], timeout_s: float | None = None) -> T:
        """Return the result of the call, or raise its typed error.

        `timeout_s` bounds the whole call, tries and pauses; without it, no try begins after
        `retry_for_s`.
        """
        tries = Tries(
            call.request,
            self.options,
            time.monotonic(),
            safe=call.safe,
            idempotency_key=call.idempotency_key,
            deadline_s=timeout_s,
        )
        while True:
            self._check_open()
            try:
                response = self._transport.send(tries.request(time.monotonic()))
                result = call.result(response)
                self._warning.succeeded()
                return result
            except PacketboatError as error:
                self._pause(tries, error)

    @contextmanager
    def stream(self, call: StreamCall, timeout_s: float | None = None) -> Iterator[StreamResponse]:
        """Return the answer once it has begun; raise the typed error of a refusal.

        `timeout_s` bounds the time to the answer's begin, tries and pauses included.
        """
        now_s = time.monotonic()
        tries = Tries(call.request, self.options, now_s, safe=True, deadline_s=timeout_s)
        while True:
            self._check_open()
            opened = False
            try:
                with self._transport.stream(tries.request(time.monotonic())) as response:
                    if response.status >= 300:
                        body = response.read()
                        raise failure(Response(response.status, response.headers, body))
                    opened = True
                    self._warning.succeeded()
                    yield response
                    return
            except PacketboatError as error:
                if opened:
                    raise
                self._pause(tries, error)

    def close(self) -> None:
        """End pauses between tries, and all calls in progress: their outcome is unknown."""
        if not self._closed.is_set():
            self._closed.set()
            self._transport.close()

    def _pause(self, tries: Tries, error: PacketboatError) -> None:
        pause_s = tries.pause_s(error, time.monotonic())
        if pause_s is not None:
            self._warning.sent_again(error, tries.total_s)
        if pause_s is None or self._closed.wait(pause_s):
            raise tries.outcome(error, time.monotonic(), self.options.server)

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ClientClosed("the client is closed")
