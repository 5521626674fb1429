"""Blocking requests to one server, by httpx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from packetboat.options import Options
from packetboat.transport.library import failure_of, headers_of, httpx
from packetboat.transport.seam import Request, Response


class HttpxTransport:
    """`inner` is for tests: an httpx transport that reaches the server without a socket."""

    def __init__(
        self, url: str, options: Options | None = None, inner: httpx.BaseTransport | None = None
    ) -> None:
        self._options = options or Options()
        self._client = httpx.Client(
            base_url=url,
            headers=headers_of(self._options),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=100),
            transport=inner,
        )

    def send(self, request: Request) -> Response:
        try:
            response = self._client.send(self._made(request))
        except httpx.HTTPError as error:
            raise failure_of(error) from error
        return Response(response.status_code, response.headers, response.content)

    @contextmanager
    def stream(self, request: Request) -> Iterator[HttpxStreamResponse]:
        try:
            response = self._client.send(self._made(request), stream=True)
        except httpx.HTTPError as error:
            raise failure_of(error) from error
        try:
            yield HttpxStreamResponse(response)
        finally:
            response.close()

    def close(self) -> None:
        self._client.close()

    def _made(self, request: Request) -> httpx.Request:
        connect_s = min(self._options.connect_timeout_s, request.timeout_s)
        return self._client.build_request(
            request.method,
            request.path,
            headers=request.headers,
            content=request.body,
            timeout=httpx.Timeout(request.timeout_s, connect=connect_s),
        )


class HttpxStreamResponse:
    """An answer whose body is read as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_bytes()
        except httpx.HTTPError as error:
            raise failure_of(error) from error

    def read(self) -> bytes:
        try:
            return self._response.read()
        except httpx.HTTPError as error:
            raise failure_of(error) from error
