"""Blocking requests to one server, by httpx."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from packetboat.errors import ClientClosed
from packetboat.options import Options
from packetboat.transport import connecting, forking
from packetboat.transport.base import Origin
from packetboat.transport.library import FAILURES, Attempt, httpx
from packetboat.transport.seam import Request, Response


class HttpxTransport:
    """Connects when it is first used, and anew in the child of a fork. `inner` is for tests: an
    httpx transport that reaches the server without a socket."""

    def __init__(
        self, url: str, options: Options | None = None, inner: httpx.BaseTransport | None = None
    ) -> None:
        self._given = inner
        self._inner: httpx.BaseTransport | None = None
        self._origin = Origin(url, options or Options())
        self._left_to_the_parent: list[object] = []
        self._sockets = forking.Sockets()
        self._lock = threading.Lock()
        self._closed = False
        forking.watch(self)

    def send(self, request: Request) -> Response:
        attempt = self._origin.attempt(request)
        try:
            with closing(self._head(request, attempt)) as response:
                body = _in_time(response, attempt)
        except FAILURES as error:
            raise attempt.failure(error) from error
        return Response(response.status_code, response.headers, body)

    @contextmanager
    def stream(self, request: Request) -> Iterator[HttpxStreamResponse]:
        attempt = self._origin.attempt(request)
        try:
            response = self._head(request, attempt)
        except FAILURES as error:
            raise attempt.failure(error) from error
        attempt.each_silence_counts()
        with closing(response):
            yield HttpxStreamResponse(response, attempt)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            inner, self._inner = self._inner, None
        if inner is not None:
            self._sockets.shut()
            inner.close()

    def _forked(self) -> None:
        """The pool is not closed, its lock may be held; but kept, so that nothing closes it."""
        self._lock = threading.Lock()
        self._sockets.abandon()
        if self._inner is not None:
            self._left_to_the_parent.append(self._inner)
            self._inner = None

    def __del__(self) -> None:
        if self._inner is not None and self._given is None:
            text = f"a client of {self._origin.url} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def _head(self, request: Request, attempt: Attempt) -> httpx.Response:
        made = self._origin.request(request, attempt)
        made.extensions["trace"] = self._sockets.trace
        return self._connected().handle_request(made)

    def _connected(self) -> httpx.BaseTransport:
        inner = self._inner
        if inner is not None:
            return inner
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            if self._inner is None:
                settings = connecting.settings(self._origin.url, self._origin.options)
                self._inner = self._given or httpx.HTTPTransport(**settings)
            return self._inner


class HttpxStreamResponse:
    """An answer whose body is read as it comes."""

    def __init__(self, response: httpx.Response, attempt: Attempt) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._attempt = attempt

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_bytes()
        except FAILURES as error:
            raise self._attempt.failure(error) from error

    def read(self) -> bytes:
        return b"".join(self.chunks())


def _in_time(response: httpx.Response, attempt: Attempt) -> bytes:
    """Return the body; raises the timeout's error if it comes too slowly."""
    chunks = []
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        if attempt.left_s < 0:
            raise attempt.too_late()
    return b"".join(chunks)
