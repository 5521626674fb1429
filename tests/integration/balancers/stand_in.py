"""A server of one role that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from typing import NamedTuple


class Conduct(enum.Enum):
    """The way in which a stand-in treats a request; it answers health checks in any case."""

    ANSWER = "200, its own name as the body"
    CUT = "reads all of it, and closes the connection"
    HANG = "reads all of it, and says nothing until the client goes away"
    STREAM = "a line at once, another when `go_on` is set"


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class StandIn:
    """Listens from `start` to `stop`, on one port all its life."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.conduct = Conduct.ANSWER
        self.ready = True
        self.asked: list[Asked] = []
        self.gone = asyncio.Event()
        """A client left while a request of it hung."""
        self.go_on = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """As a killed process: nobody listens, connections are cut."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (asked := await _read(reader)) is not None:
                if asked.path == "/readyz" and asked.headers["host"] == "balancer":
                    status = b"200 OK" if self.ready else b"503 Service Unavailable"
                    writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
                    continue
                self.asked.append(asked)
                if not await self._answer(reader, writer):
                    break
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Return whether the connection goes on."""
        if self.conduct is Conduct.CUT:
            return False
        if self.conduct is Conduct.HANG:
            with contextlib.suppress(ConnectionResetError):
                await reader.read(1)
            self.gone.set()
            return False
        if self.conduct is Conduct.STREAM:
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
            await self.go_on.wait()
            writer.write(b"7\r\nsecond\n\r\n0\r\n\r\n")
            return True
        body = self.name.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        return True


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    """Return the next request; None when the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body)
