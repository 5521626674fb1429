"""A transport whose requests say who we are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from time import monotonic
from typing import Protocol

from packetboat.transport.seam import (
    AsyncStreamResponse,
    AsyncTransport,
    Request,
    Response,
    StreamResponse,
    Transport,
)

HEADER = "Authorization"
"""The header with credentials. A request that already has it is sent unchanged."""
REFUSED = 401
"""The status of a refused token, which had no effect. Another token, if any, is tried once."""


class Tokens(Protocol):
    """The source of a blocking client's tokens."""

    def current(self, timeout_s: float) -> str: ...
    def refused(self, token: str) -> bool: ...
    def close(self) -> None: ...


class AsyncTokens(Protocol):
    """The source of an asyncio client's tokens."""

    async def current(self, timeout_s: float) -> str: ...
    def refused(self, token: str) -> bool: ...
    async def close(self) -> None: ...


class Authorized:
    """A transport that adds a token to each request, for a blocking client."""

    def __init__(self, transport: Transport, tokens: Tokens) -> None:
        self._transport = transport
        self._tokens = tokens

    def send(self, request: Request) -> Response:
        if HEADER in request.headers:
            return self._transport.send(request)
        timed = Timed(request)
        token = self._tokens.current(timed.left_s)
        response = self._transport.send(timed.request(token))
        if response.status != REFUSED or not self._tokens.refused(token):
            return response
        token = self._tokens.current(timed.left_s)
        return self._transport.send(timed.request(token))

    @contextmanager
    def stream(self, request: Request) -> Iterator[StreamResponse]:
        with ExitStack() as stack:
            timed = Timed(request)
            token = self._tokens.current(timed.left_s)
            response = stack.enter_context(self._transport.stream(timed.request(token)))
            if response.status == REFUSED and self._tokens.refused(token):
                stack.close()
                token = self._tokens.current(timed.left_s)
                response = stack.enter_context(self._transport.stream(timed.request(token)))
            yield response

    def close(self) -> None:
        self._tokens.close()
        self._transport.close()


class AsyncAuthorized:
    """A transport that adds a token to each request, for asyncio."""

    def __init__(self, transport: AsyncTransport, tokens: AsyncTokens) -> None:
        self._transport = transport
        self._tokens = tokens

    async def send(self, request: Request) -> Response:
        if HEADER in request.headers:
            return await self._transport.send(request)
        timed = Timed(request)
        token = await self._tokens.current(timed.left_s)
        response = await self._transport.send(timed.request(token))
        if response.status != REFUSED or not self._tokens.refused(token):
            return response
        token = await self._tokens.current(timed.left_s)
        return await self._transport.send(timed.request(token))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncStreamResponse]:
        async with AsyncExitStack() as stack:
            timed = Timed(request)
            token = await self._tokens.current(timed.left_s)
            opening = self._transport.stream(timed.request(token))
            response = await stack.enter_async_context(opening)
            if response.status == REFUSED and self._tokens.refused(token):
                await stack.aclose()
                token = await self._tokens.current(timed.left_s)
                opening = self._transport.stream(timed.request(token))
                response = await stack.enter_async_context(opening)
            yield response

    async def close(self) -> None:
        await self._tokens.close()
        await self._transport.close()


class Timed:
    """A request and the time for all that it takes: the token, and perhaps another try."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._ends_s = monotonic() + request.timeout_s

    @property
    def left_s(self) -> float:
        return max(self._ends_s - monotonic(), 0.001)

    def request(self, token: str) -> Request:
        headers = {**self._request.headers, HEADER: f"Bearer {token}"}
        return self._request.within(self.left_s)._replace(headers=headers)
