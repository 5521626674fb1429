"""Several servers as one transport.

A request goes to the next server only where the last one certainly did nothing with it: it was not
reached, or it answered 503. After any other failure the server rests, too, but the caller gets the
error, and knows whether sending again is safe; a retry goes to the next server.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from time import monotonic

from packetboat.errors import ConnectionFailed, PacketboatError, UnknownOutcome
from packetboat.transport.seam import (
    AsyncStreamResponse,
    AsyncTransport,
    Request,
    Response,
    StreamResponse,
    Transport,
)

REFUSED = 503

REST_S = 1.0
MAX_REST_S = 30.0


class Endpoints:
    """The order in which servers are tried.

    A server that fails rests, twice as long each time, and is tried meanwhile only when all rest.
    The client stays with a server that answers, and does not return to another only because that
    one is first.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._current = 0
        self._failures = [0] * count
        self._rests_until_s = [0.0] * count

    def order(self, now_s: float) -> list[int]:
        """Return the servers to try for one request, in turn; each at most once."""
        turn = [(self._current + step) % self._count for step in range(self._count)]
        awake = [index for index in turn if self._rests_until_s[index] <= now_s]
        return awake or [min(turn, key=self._rests_until_s.__getitem__)]

    def answered(self, index: int) -> None:
        self._current = index
        self._failures[index] = 0
        self._rests_until_s[index] = 0.0

    def failed(self, index: int, now_s: float) -> None:
        """Let a server rest. When many requests fail at once, only the first lengthens the rest."""
        if self._rests_until_s[index] > now_s:
            return
        rest_s = min(MAX_REST_S, REST_S * 2 ** self._failures[index])
        self._failures[index] = min(self._failures[index] + 1, 10)
        self._rests_until_s[index] = now_s + random.uniform(rest_s / 2, rest_s)


class Failover:
    """Blocking; shared by threads, whose news of a server may cross without harm."""

    def __init__(self, transports: Sequence[Transport]) -> None:
        self._transports = transports
        self._endpoints = Endpoints(len(transports))

    def send(self, request: Request) -> Response:
        turn = Turn(self._endpoints, request)
        while True:
            try:
                response = self._transports[turn.index].send(turn.request())
            except PacketboatError as error:
                if not turn.goes_on_after(error):
                    raise
            else:
                if not turn.goes_on_with(response.status):
                    return response

    @contextmanager
    def stream(self, request: Request) -> Iterator[StreamResponse]:
        with ExitStack() as stack:
            yield self._begun(request, stack)

    def _begun(self, request: Request, stack: ExitStack) -> StreamResponse:
        turn = Turn(self._endpoints, request)
        while True:
            try:
                opening = self._transports[turn.index].stream(turn.request())
                response = stack.enter_context(opening)
            except PacketboatError as error:
                if not turn.goes_on_after(error):
                    raise
            else:
                if not turn.goes_on_with(response.status):
                    return response
                stack.close()

    def close(self) -> None:
        for transport in self._transports:
            transport.close()


class AsyncFailover:
    """The failover between servers for asyncio."""

    def __init__(self, transports: Sequence[AsyncTransport]) -> None:
        self._transports = transports
        self._endpoints = Endpoints(len(transports))

    async def send(self, request: Request) -> Response:
        turn = Turn(self._endpoints, request)
        while True:
            try:
                response = await self._transports[turn.index].send(turn.request())
            except PacketboatError as error:
                if not turn.goes_on_after(error):
                    raise
            else:
                if not turn.goes_on_with(response.status):
                    return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncStreamResponse]:
        async with AsyncExitStack() as stack:
            yield await self._begun(request, stack)

    async def _begun(self, request: Request, stack: AsyncExitStack) -> AsyncStreamResponse:
        turn = Turn(self._endpoints, request)
        while True:
            try:
                opening = self._transports[turn.index].stream(turn.request())
                response = await stack.enter_async_context(opening)
            except PacketboatError as error:
                if not turn.goes_on_after(error):
                    raise
            else:
                if not turn.goes_on_with(response.status):
                    return response
                await stack.aclose()

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()


class Turn:
    """One request, which each server is asked at most once, all in the time that it has."""

    def __init__(self, endpoints: Endpoints, request: Request) -> None:
        now_s = monotonic()
        self._endpoints = endpoints
        self._request = request
        self._ends_s = now_s + request.timeout_s
        self._order = endpoints.order(now_s)
        self._at = 0

    @property
    def index(self) -> int:
        return self._order[self._at]

    def request(self) -> Request:
        if self._at == 0:
            return self._request
        return self._request.within(self._ends_s - monotonic())

    def goes_on_after(self, error: PacketboatError) -> bool:
        """Return whether to try another server; `index` then names it."""
        if isinstance(error, ConnectionFailed | UnknownOutcome):
            self._endpoints.failed(self.index, monotonic())
        return isinstance(error, ConnectionFailed) and self._step()

    def goes_on_with(self, status: int) -> bool:
        if status != REFUSED:
            self._endpoints.answered(self.index)
            return False
        self._endpoints.failed(self.index, monotonic())
        return self._step()

    def _step(self) -> bool:
        if self._at + 1 == len(self._order) or monotonic() >= self._ends_s:
            return False
        self._at += 1
        return True
