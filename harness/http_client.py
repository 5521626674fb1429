"""An HTTP/1.1 client that is as lean as possible, so that the cores are left to the server.

It has keep-alive connections, one request at a time on each, and reads answers with a
Content-Length only.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One keep-alive connection; `send` again only after the last answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._received = bytearray()
        self._needed = 0
        """Bytes of the whole answer once its head is known."""
        self._head_bytes = 0
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Resolves with the answer; fails with ConnectionError when the connection is lost."""
        assert self._waiting is None
        assert self._transport is not None
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.closed:
            waiting.set_exception(ConnectionError("closed"))
        else:
            self._waiting = waiting
            self._transport.write(request)
        return waiting

    @property
    def closed(self) -> bool:
        """Nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed and not self._read_head():
            return
        if len(self._received) >= self._needed:
            body = bytes(self._received[self._head_bytes : self._needed])
            del self._received[: self._needed]
            self._needed = 0
            waiting, self._waiting = self._waiting, None
            if waiting is not None and not waiting.done():
                waiting.set_result(Answer(self._status, body))

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._received[:end]).lower()
        self._status = int(head[9:12])
        at = head.find(b"\r\ncontent-length:")
        if at < 0 and self._status != 204:
            raise ValueError(f"an answer without a length: {head!r}")
        line_end = head.find(b"\r\n", at + 2)
        length = int(head[at + 17 : line_end if line_end >= 0 else len(head)]) if at >= 0 else 0
        self._head_bytes = end + 4
        self._needed = self._head_bytes + length
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(ConnectionError(str(exc or "closed")))

    def close(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(host: str, port: int) -> Connection:
    """Open a new connection."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, host, port)
    return connection


def request(
    method: str,
    path: str,
    token: str,
    body: bytes = b"",
    content_type: str = "application/json",
    accept: str = "",
) -> bytes:
    """Return the bytes of a whole request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
    if accept:
        head += f"Accept: {accept}\r\n"
    if body or method != "GET":
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body
