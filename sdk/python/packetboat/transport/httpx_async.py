"""Requests of an event loop to one server, by httpx."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from packetboat.errors import ClientClosed
from packetboat.options import Options
from packetboat.transport import connecting, forking
from packetboat.transport.base import Origin
from packetboat.transport.library import FAILURES, Attempt, httpx
from packetboat.transport.seam import Request, Response


class AsyncHttpxTransport:
    """Connects when it is first used, and anew in another event loop or the child of a fork.
    `inner` is for tests, such as httpx.ASGITransport."""

    def __init__(
        self,
        url: str,
        options: Options | None = None,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._given = inner
        self._inner: httpx.AsyncBaseTransport | None = None
        self._origin = Origin(url, options or Options())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left_to_the_parent: list[object] = []
        self._sockets = forking.Sockets()
        self._closed = False
        forking.watch(self)

    async def send(self, request: Request) -> Response:
        attempt = self._origin.attempt(request)
        try:
            async with asyncio.timeout(request.timeout_s):
                async with aclosing(await self._head(request, attempt)) as response:
                    body = await response.aread()
        except FAILURES as error:
            raise attempt.failure(error) from error
        except TimeoutError as error:
            raise attempt.too_late() from error
        return Response(response.status_code, response.headers, body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncHttpxStreamResponse]:
        attempt = self._origin.attempt(request)
        try:
            async with asyncio.timeout(request.timeout_s):
                response = await self._head(request, attempt)
        except FAILURES as error:
            raise attempt.failure(error) from error
        except TimeoutError as error:
            raise attempt.too_late() from error
        attempt.each_silence_counts()
        async with aclosing(response):
            yield AsyncHttpxStreamResponse(response, attempt)

    async def close(self) -> None:
        self._closed = True
        inner, self._inner = self._inner, None
        if inner is None:
            return
        if self._loop is asyncio.get_running_loop():
            await inner.aclose()
        else:
            self._sockets.abandon()

    def _forked(self) -> None:
        """The pool is kept, so that nothing closes it: its loop is not of this process."""
        self._sockets.abandon()
        if self._inner is not None:
            self._left_to_the_parent.append(self._inner)
            self._inner = None

    def __del__(self) -> None:
        if self._inner is not None and self._given is None:
            text = f"a client of {self._origin.url} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    async def _head(self, request: Request, attempt: Attempt) -> httpx.Response:
        made = self._origin.request(request, attempt)
        response = await self._connected().handle_async_request(made)
        self._sockets.saw(response.extensions.get("network_stream"))
        return response

    def _connected(self) -> httpx.AsyncBaseTransport:
        if self._closed:
            raise ClientClosed("the client is closed")
        loop = asyncio.get_running_loop()
        if self._inner is None or self._loop is not loop:
            self._sockets.abandon()
            self._loop = loop
            settings = connecting.settings(self._origin.url, self._origin.options)
            self._inner = self._given or httpx.AsyncHTTPTransport(**settings)
        return self._inner


class AsyncHttpxStreamResponse:
    """An answer whose body is read as it comes."""

    def __init__(self, response: httpx.Response, attempt: Attempt) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._attempt = attempt

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except FAILURES as error:
            raise self._attempt.failure(error) from error

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])
