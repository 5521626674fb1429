"""An HTTP/1.1 proxy between clients and the server, which makes faults.

Every client sees the faults as those of a network: a connection breaks without a reason. Each
connection of a client has one to the server. The proxy reads requests whole before it forwards
them; it forwards answers as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import NamedTuple

from packetboat.testing.faults import Fate, Fault, Faults

START_S = 10.0
_LAST_CHUNK = b"0\r\n"
FateOf = Callable[[str], Fate]

MAX_HEAD_BYTES = 256 * 1024
_END = b"\r\n\r\n"
_PART_BYTES = 64 * 1024
Broken: tuple[type[EOFError], type[Exception], type[OSError], type[ValueError]] = (
    IncompleteReadError,
    LimitOverrunError,
    OSError,
    ValueError,
)
"""The exceptions that a connection raises when it ends or does not speak HTTP."""


class Head(NamedTuple):
    """The start line and the headers, as they came, and how the body goes on."""

    raw: bytes
    line: str
    length: int | None
    """The length of the body in bytes; None for a body in chunks, or to the end of the
    connection.
    """
    chunked: bool

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.line.split(" ", 2)[1])


async def read_head(reader: StreamReader, before: bytes = b"") -> Head:
    """`before` was read already."""
    raw = before + await reader.readuntil(_END)
    first, *rest = raw.decode("latin-1").split("\r\n")
    headers = {}
    for text in rest:
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length")
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    return Head(raw, first, None if length is None else int(length), chunked)


async def read_request(reader: StreamReader, before: bytes = b"") -> tuple[Head, bytes]:
    """Return the head of a whole request, and its bytes."""
    head = await read_head(reader, before)
    parts = [head.raw]
    if head.chunked:
        parts += [part async for part in _chunks(reader)]
    elif head.length:
        parts.append(await reader.readexactly(head.length))
    return head, b"".join(parts)


def has_body(method: str, head: Head) -> bool:
    """Return whether an answer to such a request has a body."""
    return method != "HEAD" and head.status >= 200 and head.status not in (204, 304)


async def body(reader: StreamReader, head: Head) -> AsyncIterator[bytes]:
    """Yield the body of an answer, as it comes."""
    if head.chunked:
        async for part in _chunks(reader):
            yield part
        return
    left = head.length
    while left is None or left > 0:
        part = await reader.read(_PART_BYTES if left is None else min(left, _PART_BYTES))
        if not part:
            if left:
                raise IncompleteReadError(b"", left)
            return
        left = None if left is None else left - len(part)
        yield part


async def _chunks(reader: StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks with their sizes, and the trailers."""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        yield line
        if size == 0:
            break
        yield await reader.readexactly(size + 2)
    while line != b"\r\n":
        line = await reader.readuntil(b"\r\n")
        yield line


class Cut(Exception):
    """The connection ends here."""


class FaultyProxy:
    """A proxy in a thread of its own."""

    def __init__(self, port: int) -> None:
        """`port` of 127.0.0.1 is the server's."""
        self._upstream = port
        self._faults = Faults()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port: int = 0
        self._thread = threading.Thread(target=self._run, name="packetboat-proxy", daemon=True)
        self._thread.start()
        assert self._started.wait(START_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> Faults:
        """Return the faults of the next test: none so far."""
        self._faults = Faults()
        return self._faults

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _fate_of(self, line: str) -> Fate:
        return self._faults.fate(line)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        listening = asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        server = loop.run_until_complete(listening)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        loop.run_forever()
        server.close()
        for task in self._tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        loop.close()

    async def _accepted(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        passage = _Passage(reader, writer, self._upstream, self._spawn)
        try:
            while True:
                await passage.one(self._fate_of)
        except (Cut, asyncio.CancelledError, *Broken):
            pass  # also of our own end: the streams of asyncio would complain of it
        finally:
            self._tasks.discard(task)
            passage.abort()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Passage:
    """One connection of a client, and the one to the server."""

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        port: int,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._port = port
        self._spawn = spawn
        self._server: tuple[StreamReader, StreamWriter] | None = None
        self._before = b""
        """The bytes of the next request that were read already."""

    async def one(self, fate_of: FateOf) -> None:
        """Serve one request and its answer. Raises Cut, or an exception of `Broken`."""
        head, raw = await read_request(self._reader, self._before)
        self._before = b""
        fate = fate_of(head.line.rpartition(" ")[0])
        await asyncio.sleep(fate.delay_s)
        if Fault.DROP_REQUEST in fate.faults:
            raise Cut
        method = head.line.partition(" ")[0]
        if Fault.LATE in fate.faults:
            self._spawn(_later(self._port, raw, fate.late_s))
            raise Cut
        if Fault.DUPLICATE in fate.faults:
            await self._swallow(raw, method)
        answer = asyncio.ensure_future(self._answer(raw, method, fate))
        more = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({answer, more}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and not more.result():
                raise Cut  # the client has gone: the server is to see that
            await answer
            if more.done():
                self._before = more.result()
        finally:
            for task in (answer, more):
                task.cancel()
            await asyncio.gather(answer, more, return_exceptions=True)

    def abort(self) -> None:
        for one in (self._writer, self._server and self._server[1]):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.transport.abort()

    async def _connection(self) -> tuple[StreamReader, StreamWriter]:
        """Return the connection to the server; a new one where the last is over."""
        if self._server is None or self._server[0].at_eof():
            self._hang_up()
            self._server = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=MAX_HEAD_BYTES
            )
        return self._server

    def _hang_up(self) -> None:
        if self._server is not None:
            self._server[1].transport.abort()
            self._server = None

    async def _send(self, raw: bytes) -> tuple[StreamReader, Head]:
        reader, writer = await self._connection()
        writer.write(raw)
        await writer.drain()
        head = await read_head(reader)
        return reader, head

    async def _swallow(self, raw: bytes, method: str) -> None:
        """Send a request whose answer nobody gets."""
        reader, head = await self._send(raw)
        if has_body(method, head):
            if head.length is None:
                self._hang_up()
                return
            await reader.readexactly(head.length)

    async def _answer(self, raw: bytes, method: str, fate: Fate) -> None:
        reader, head = await self._send(raw)
        if Fault.DROP_REPLY in fate.faults:
            raise Cut
        self._writer.write(head.raw)
        if has_body(method, head):
            await self._body(reader, head, fate)
        elif Fault.CUT_REPLY in fate.faults:
            raise Cut
        await self._writer.drain()

    async def _body(self, reader: StreamReader, head: Head, fate: Fate) -> None:
        left = None
        if Fault.CUT_REPLY in fate.faults:
            left = fate.cut_after_bytes % (head.length or fate.cut_after_bytes + 1)
        async for part in body(reader, head):
            if left is not None and (len(part) > left or part.startswith(_LAST_CHUNK)):
                self._writer.write(part[:left])
                await self._writer.drain()
                raise Cut
            self._writer.write(part)
            await self._writer.drain()
            left = None if left is None else left - len(part)
        if head.length is None and not head.chunked:
            raise Cut  # the end of the connection is the end of the answer


async def _later(port: int, raw: bytes, after_s: float) -> None:
    """Send a request whose client has gone; the server serves it to its end."""
    await asyncio.sleep(after_s)
    with contextlib.suppress(*Broken):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MAX_HEAD_BYTES)
        try:
            writer.write(raw)
            await read_head(reader)
        finally:
            writer.transport.abort()
