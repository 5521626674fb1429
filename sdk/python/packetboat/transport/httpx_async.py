"""Requests of an event loop to one server, by httpx."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from packetboat.options import Options
from packetboat.transport.library import failure_of, headers_of, httpx
from packetboat.transport.seam import Request, Response


class AsyncHttpxTransport:
    """`inner` is for tests, such as httpx.ASGITransport."""

    def __init__(
        self,
        url: str,
        options: Options | None = None,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._options = options or Options()
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers_of(self._options),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=100),
            transport=inner,
        )

    async def send(self, request: Request) -> Response:
        try:
            response = await self._client.send(self._made(request))
        except httpx.HTTPError as error:
            raise failure_of(error) from error
        return Response(response.status_code, response.headers, response.content)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncHttpxStreamResponse]:
        try:
            response = await self._client.send(self._made(request), stream=True)
        except httpx.HTTPError as error:
            raise failure_of(error) from error
        try:
            yield AsyncHttpxStreamResponse(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.aclose()

    def _made(self, request: Request) -> httpx.Request:
        connect_s = min(self._options.connect_timeout_s, request.timeout_s)
        return self._client.build_request(
            request.method,
            request.path,
            headers=request.headers,
            content=request.body,
            timeout=httpx.Timeout(request.timeout_s, connect=connect_s),
        )


class AsyncHttpxStreamResponse:
    """An answer whose body is read as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except httpx.HTTPError as error:
            raise failure_of(error) from error

    async def read(self) -> bytes:
        try:
            return await self._response.aread()
        except httpx.HTTPError as error:
            raise failure_of(error) from error
