"""Sends calls: again where that is safe, until one is answered or the time is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from packetboat.calls import Call, StreamCall, failure
from packetboat.errors import ClientClosed, PacketboatError
from packetboat.options import Options
from packetboat.transport.seam import AsyncStreamResponse, AsyncTransport, Response
from packetboat.tries import RetryWarning, Tries

T = TypeVar("T")


class AsyncSender:
    """The sender of the calls of all resources of a client."""

    def __init__(self, options: Options, transport: AsyncTransport) -> None:
        self.options = options
        self._transport = transport
        self._warning = RetryWarning(options.server)
        self._closed = False
        self._pauses: set[asyncio.Event] = set()

    async def send(self, call: Call[T], timeout_s: float | None = None) -> T:
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
                response = await self._transport.send(tries.request(time.monotonic()))
                result = call.result(response)
                self._warning.succeeded()
                return result
            except PacketboatError as error:
                await self._pause(tries, error)

    async def send_once(self, call: Call[T], timeout_s: float) -> T:
        """Send the call in one try, for a caller that decides itself when to try again."""
        self._check_open()
        timeout_s = min(timeout_s, self.options.timeout_s)
        request = call.request._replace(timeout_s=timeout_s)
        try:
            return call.result(await self._transport.send(request))
        except PacketboatError as error:
            error.server = self.options.server
            raise

    @asynccontextmanager
    async def stream(
        self, call: StreamCall, timeout_s: float | None = None
    ) -> AsyncIterator[AsyncStreamResponse]:
        """Return the answer once it has begun; raise the typed error of a refusal.

        `timeout_s` bounds the time to the answer's begin, tries and pauses included.
        """
        now_s = time.monotonic()
        tries = Tries(call.request, self.options, now_s, safe=True, deadline_s=timeout_s)
        while True:
            self._check_open()
            opened = False
            try:
                async with self._transport.stream(tries.request(time.monotonic())) as response:
                    if response.status >= 300:
                        body = await response.read()
                        raise failure(Response(response.status, response.headers, body))
                    opened = True
                    self._warning.succeeded()
                    yield response
                    return
            except PacketboatError as error:
                if opened:
                    raise
                await self._pause(tries, error)

    async def close(self) -> None:
        """End pauses between tries, and all calls in progress: their outcome is unknown."""
        if not self._closed:
            self._closed = True
            for pause in self._pauses:
                pause.set()
            await self._transport.close()

    async def _pause(self, tries: Tries, error: PacketboatError) -> None:
        pause_s = tries.pause_s(error, time.monotonic())
        if pause_s is not None:
            self._warning.sent_again(error, tries.total_s)
        if pause_s is None or await self._closed_within(pause_s):
            raise tries.outcome(error, time.monotonic(), self.options.server)

    async def _closed_within(self, pause_s: float) -> bool:
        """An event for each pause: one for all would tie the client to its first event loop."""
        pause = asyncio.Event()
        self._pauses.add(pause)
        try:
            async with asyncio.timeout(pause_s):
                await pause.wait()
        except TimeoutError:
            return False
        finally:
            self._pauses.discard(pause)
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")
