"""A server of raw bytes in a thread of its own, and a way to call it that is the same for both
kinds of client."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Call, StreamCall
from packetboat.options import Options
from packetboat.sync.sender import Sender
from packetboat.transport import Request, open_async_transport, open_transport

T = TypeVar("T")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PATIENCE_S = 60.0


def answer(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Peer:
    """One connection, from the server's side."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.head = ""
        self.body = b""

    async def request(self) -> bool:
        """Reads one, whole; False: there are no more."""
        try:
            self.head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        for line in self.head.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                self.body = await self.reader.readexactly(int(value))
        return True

    def header(self, wanted: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.lower() == wanted.lower():
                return value.strip()
        return None

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Serve = Callable[[Peer], Awaitable[None]]


async def answering(peer: Peer) -> None:
    """Answer every request with 200, until the client stops."""
    while await peer.request():
        await peer.write(OK)


class RawServer:
    """`serve` has each connection; it ends when that returns."""

    def __init__(self, serve: Serve = answering, context: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._serve = serve
        self._context = context
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RawServer:
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)

    @property
    def url(self) -> str:
        scheme = "https" if self._context else "http"
        return f"{scheme}://localhost:{self.port}"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    def stop_listening(self) -> None:
        """Stop listening; call this in the server's own thread."""
        self._server.close()

    async def _main(self) -> None:
        self._ended = asyncio.Event()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        self._started.set()
        await self._ended.wait()
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # they are closed by then

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            await self._serve(Peer(self.connections, reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass  # gone, or the test is over
        finally:
            writer.close()


class Caller(Protocol):
    """A client's sender, blocking whichever it is."""

    def send(self, call: Call[T], timeout_s: float | None = None) -> T: ...
    def stream(self, call: StreamCall, timeout_s: float | None = None) -> list[bytes]: ...
    def close(self) -> None: ...
    def end(self) -> None: ...


class SyncCaller:
    def __init__(self, options: Options, transport: Any = None) -> None:
        self.sender = Sender(options, open_transport(options, transport))

    def send(self, call: Call[T], timeout_s: float | None = None) -> T:
        return self.sender.send(call, timeout_s)

    def stream(self, call: StreamCall, timeout_s: float | None = None) -> list[bytes]:
        with self.sender.stream(call, timeout_s) as response:
            return list(response.chunks())

    def close(self) -> None:
        self.sender.close()

    def end(self) -> None:
        self.close()


class AsyncCaller:
    def __init__(self, options: Options, transport: Any = None) -> None:
        self.runner = asyncio.Runner()
        self.sender = AsyncSender(options, open_async_transport(options, transport))

    def send(self, call: Call[T], timeout_s: float | None = None) -> T:
        return self.runner.run(self.sender.send(call, timeout_s))

    def stream(self, call: StreamCall, timeout_s: float | None = None) -> list[bytes]:
        async def chunks() -> list[bytes]:
            async with self.sender.stream(call, timeout_s) as response:
                return [chunk async for chunk in response.chunks()]

        return self.runner.run(chunks())

    def close(self) -> None:
        self.runner.run(self.sender.close())

    def end(self) -> None:
        self.close()
        self.runner.close()


def post(body: bytes = b"x", safe: bool = False, timeout_s: float = 30.0) -> Call[bytes]:
    request = Request("POST", "/topics/orders/messages", {}, body, timeout_s)
    return Call(request, bytes, safe, "the-key" if safe else None)


def get(timeout_s: float = 30.0) -> Call[bytes]:
    return Call(Request("GET", "/topics/orders", timeout_s=timeout_s), bytes, safe=True)
