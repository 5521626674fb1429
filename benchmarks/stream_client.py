"""A reader of one stream as lean as can be: chunks of HTTP/1.1 to whole lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class StreamConnection(asyncio.Protocol):
    """`on_lines` gets whole lines together, as they were written; `ended` is when there are no
    more."""

    def __init__(self, on_lines: Callable[[list[bytes]], None]) -> None:
        self._on_lines = on_lines
        self._received = bytearray()
        self._body = bytearray()
        self._in_body = False
        self.status = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._in_body:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self.status = int(self._received[9:12])
            del self._received[: end + 4]
            self._in_body = True
        self._take_chunks()
        end = self._body.rfind(b"\n")
        if end >= 0:
            lines = bytes(self._body[:end]).split(b"\n")
            del self._body[: end + 1]
            self._on_lines(lines)

    def _take_chunks(self) -> None:
        at = 0
        while (line_end := self._received.find(b"\r\n", at)) >= 0:
            size = int(self._received[at:line_end], 16)
            after = line_end + 2 + size
            if len(self._received) < after + 2:
                break
            self._body += self._received[line_end + 2 : after]
            at = after + 2
        del self._received[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        self.transport.close()


async def open_stream(
    host: str, port: int, request: bytes, on_lines: Callable[[list[bytes]], None]
) -> StreamConnection:
    """Open a connection, and send the request on it."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: StreamConnection(on_lines), host, port)
    connection.transport.write(request)
    return connection
