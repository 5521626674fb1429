"""The seam between the client and the network: one request in, one response out.

A transport says of each failure whether the request may have reached the server:
`ConnectionFailed` (it did not) or `UnknownOutcome` (it may have).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol

TIMEOUT_S = 30.0
"""Seconds for an answer, beside the time that the request asks the server to wait."""


class Request(NamedTuple):
    """`path` starts with a slash and is already encoded. `timeout_s` bounds all of one try; of a
    stream, the time to its head. `silence_s` bounds each silence after that; None: `timeout_s`."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_s: float = TIMEOUT_S
    silence_s: float | None = None

    def within(self, timeout_s: float) -> Request:
        """Return the same request with other time for its try; a stream may still be silent
        for the same time.
        """
        silence_s = self.timeout_s if self.silence_s is None else self.silence_s
        return self._replace(timeout_s=max(timeout_s, 0.001), silence_s=silence_s)


class Response(NamedTuple):
    """Header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamResponse(Protocol):
    """An answer whose body is read as it comes. Header names in lower case."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self) -> Iterator[bytes]: ...
    def read(self) -> bytes: ...


class Transport(Protocol):
    """Sends requests to one server; safe to share between threads."""

    def send(self, request: Request) -> Response: ...
    def stream(self, request: Request) -> AbstractContextManager[StreamResponse]: ...
    def close(self) -> None: ...


class AsyncStreamResponse(Protocol):
    """The head and body of a streamed answer for asyncio."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self) -> AsyncIterator[bytes]: ...
    async def read(self) -> bytes: ...


class AsyncTransport(Protocol):
    """The transport for asyncio."""

    async def send(self, request: Request) -> Response: ...
    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncStreamResponse]: ...
    async def close(self) -> None: ...
