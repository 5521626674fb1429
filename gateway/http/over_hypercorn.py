"""Connections that Hypercorn serves from their first byte: HTTP/2, or all of HTTP by a setting.

Its classes are used as they are but for what a client could do with them to others, which
subclasses here bound (docs/decisions/http-listener.md says which and why):

- answers wait in buffers that count (unsent.py), and wait also where the client's window is 0;
- streams that run are as many as HTTP/2 allows at once, also where the client gives them up;
- streams that are given up, pings and changes of settings have a rate, beyond which the connection
  is ended (ENHANCE_YOUR_CALM);
- a request that is not ours is refused by a reset of its stream, and no error of the protocol is
  an exception in the log;
- a connection ends, and is no longer counted, when its client has closed it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import structlog
from h2 import events as h2_events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h2 import BufferCompleteError, H2Protocol, StreamBuffer
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app

from edge.asgi import TENANT, ClientGone, Handler, Receive, Scope, Send
from edge.slices import PassBudget
from gateway.http.connection import (
    CLOSED,
    FIRST_SECONDS,
    HEAD_SECONDS,
    Connection,
)
from gateway.http.reference_cycles import break_cycles
from gateway.http.unsent import Account, unsent_of

if TYPE_CHECKING:
    from gateway.http.server import HttpServer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALM_AT_ONCE = 200
CALM_PER_SECOND = 20.0
"""Streams given up, pings and changed settings that a connection may send a second, in the
long run.
"""
_BUFFER_BYTES = 64 * 1024
"""Bytes of one stream's answers; beyond them, the writer waits."""
_PART_BYTES = 32 * 1024
_FRAMES_AT_ONCE = 4
_READ_BYTES = 256
"""Frames that h2 is given at once, or bytes after which it is given no further frame.

A request takes h2 a tenth of a millisecond, and each byte of a head up to 3 µs.
"""
_FRAME_HEAD_BYTES = 9
_PASS_S = 0.001
"""Seconds of processor time that all connections of HTTP/2 may take of one pass of the event loop:
for input, handlers that begin, output, and streams that end.
"""
_METHOD = re.compile(rb"(?!CONNECT\Z)[A-Z]{1,32}")
_PATH = re.compile(rb"/[!-\"$-~]*|\*")
_ODD = re.compile(rb"[\x00\r\n]")
_ANSWERED = (
    h2_events.PingReceived,
    h2_events.SettingsAcknowledged,
    h2_events.UnknownFrameReceived,
    h2_events.PriorityUpdated,
)
"""Events that need nothing more: h2's own answers leave with the next write.

RFC 9113 has no priorities any more, and a tree of them costs.
"""
_CALM = (h2_events.StreamReset, h2_events.PingReceived, h2_events.RemoteSettingsChanged)
_log = structlog.get_logger("packetboat.http")


class Hypercorn:
    """The parts that connections share. There is one per listener."""

    def __init__(self, app: Handler, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self.app = wrap_app(cast(Any, app), config.wsgi_max_body_size, "asgi")
        self.config = config
        self.loop = loop
        self.context = WorkerContext(None)
        self.turns = PassBudget(_PASS_S)


class Opening(asyncio.Protocol):
    """A connection of which too little is here to say whether it begins with HTTP/2."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._received = b""
        self._since_s = server.loop.time()
        self._address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._address = self._server.opened(self.transport)
        if self._address is not None:
            self._server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._address is not None:
            self._server.ended(self._address)

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        self._received += data
        is_http2 = self._server.http2 and self._received.startswith(PREFACE)
        if self._server.http2 and not is_http2 and PREFACE.startswith(self._received):
            return
        self._server.connections.discard(self)
        next_one: asyncio.Protocol
        if self._server.own_http1 and not is_http2:
            next_one = Connection(self._server, self._address)
        else:
            next_one = _Reading(self._server, self._address, http2=is_http2)
        self.transport.set_protocol(next_one)
        next_one.connection_made(self.transport)
        next_one.data_received(self._received)

    def sweep(self, now_s: float, idle_s: float) -> None:
        if now_s - self._since_s > (HEAD_SECONDS if self._received else FIRST_SECONDS):
            CLOSED.labels("slow" if self._received else "silent").inc()
            self.transport.close()

    def close_if_idle(self) -> None:
        """Do nothing: the connection has only just come, and its request is on its way."""

    def abort(self) -> None:
        self.transport.abort()


class _Reading(asyncio.StreamReaderProtocol):
    """The input of a connection of Hypercorn's; it counts until its socket is closed."""

    def __init__(self, server: HttpServer, address: str, *, http2: bool) -> None:
        self._server = server
        self._address = address
        self._http2 = http2
        self._reader = asyncio.StreamReader(loop=server.loop)
        super().__init__(self._reader, loop=server.loop)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        writer = asyncio.StreamWriter(
            cast(asyncio.Transport, transport), self, self._reader, self._server.loop
        )
        connection = self._connection = HypercornConnection(
            self._server, self._reader, writer, http2=self._http2
        )
        self._server.connections.add(connection)
        self._server.own(self._server.loop.create_task(connection.run()))

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._server.ended(self._address)
        self._server.connections.discard(self._connection)
        self._connection.lost()
        del self._connection


class HypercornConnection(TCPServer):
    """One connection, in a task of its own."""

    def __init__(
        self,
        server: HttpServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        http2: bool,
    ) -> None:
        shared = server.hypercorn
        super().__init__(
            shared.app, server.loop, shared.config, shared.context, cast(Any, {}), reader, writer
        )
        self._server = server
        self._http2 = http2
        self._given_bytes = 0
        self._read = False
        """Whether all input is read that will ever come."""
        self.tenant_id = b""
        """The tenant of the last answers here."""
        self.buffered_bytes = 0
        """Bytes of answers in the buffers of streams."""
        self.account = Account(self._end)
        self.turns = shared.turns

    async def run(self) -> None:
        client = self.writer.get_extra_info("peername")
        local = self.writer.get_extra_info("sockname")
        kind = BoundedH2 if self._http2 else _OnlyHttp1
        protocol: BoundedH2 | _OnlyHttp1 | None = None
        try:
            async with TaskGroup(self.loop) as self._task_group:
                protocol = kind(
                    self.app,
                    self.config,
                    self.context,
                    self._task_group,
                    ConnectionState(self.state),
                    False,
                    tuple(client[:2]) if isinstance(client, tuple) else None,
                    tuple(local[:2]) if isinstance(local, tuple) else None,
                    self.protocol_send,
                )
                self.protocol = cast(Any, protocol)
                if isinstance(protocol, BoundedH2):
                    protocol.ledger = self
                await protocol.initiate()
                await self.idle_task.restart(self._task_group, self._idle_timeout)
                try:
                    await self._read_data()
                finally:
                    # Also where the process stops: a handler that is cut off ends its stream.
                    self._read = True
                    if isinstance(protocol, BoundedH2):
                        await protocol.release()
                await self.idle_task.stop()
                self.writer.close()
        except* OSError:
            pass
        except* Exception as errors:
            CLOSED.labels("failed").inc()
            _log.warning("a connection failed", errors=[repr(each) for each in errors.exceptions])
        finally:
            self.writer.close()
            if protocol is not None:
                break_cycles(protocol, self.reader)
            vars(self).pop("protocol", None)

    async def _idle_timeout(self) -> None:
        if not self._read:  # a handler that ends restarts it, also once the connection is over
            await super()._idle_timeout()

    async def protocol_send(self, event: Event) -> None:
        if self._read and isinstance(event, Updated):
            return  # a connection that is over need not be idle to end
        self._given_bytes += len(getattr(event, "data", b""))
        await super().protocol_send(event)

    def buffered(self, count: int, tenant_id: bytes) -> None:
        """Note that `count` bytes more, or less, are in the buffers of streams."""
        self.buffered_bytes += count
        self.tenant_id = tenant_id
        self._account_for_unsent()

    def _account_for_unsent(self) -> None:
        unsent_bytes = self.buffered_bytes + unsent_of(self.writer.transport)
        # Bytes that left the buffers of streams were given to the socket, and count there.
        given_bytes = self._given_bytes + self.buffered_bytes
        self._server.unsent.note(self.account, self.tenant_id, unsent_bytes, given_bytes)

    def sweep(self, now_s: float, idle_s: float) -> None:
        self._account_for_unsent()
        self._server.unsent.sweep(self.account, now_s)

    def lost(self) -> None:
        self._server.unsent.forget(self.account)

    def close_if_idle(self) -> None:
        """Hypercorn does, once it is told that the process stops."""

    def abort(self) -> None:
        self.writer.transport.abort()

    def _end(self, why: str) -> None:
        CLOSED.labels(why).inc()
        self.abort()


class _OnlyHttp1(H11Protocol):
    """HTTP/1.1 to its end: an upgrade to HTTP/2 is not accepted."""

    async def _check_protocol(self, event: Any) -> None:
        pass


class BoundedH2(H2Protocol):
    """HTTP/2 within bounds."""

    ledger: HypercornConnection

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.connection.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
            },
        )
        self._handler = self.app
        self.app = cast(Any, self._run)
        self._running = 0
        """Handlers, also those of streams that their client gave up."""
        self._calm = float(CALM_AT_ONCE)
        self._calm_s = self._now_s()
        self._cutter = FrameCutter()

    async def _run(
        self,
        scope: dict[str, Any],
        receive: Receive,
        send: Send,
        *others: Any,
    ) -> None:
        try:
            await self.ledger.turns.run(self._answer(scope, receive, send, *others))
        finally:
            self._running -= 1

    async def _answer(
        self, scope: dict[str, Any], receive: Receive, send: Send, *others: Any
    ) -> None:
        ours = (each for each in self.streams.values() if _scope(each) is scope)
        stream = next(ours, None)
        if stream is None:
            return  # its client gave it up before it began

        async def send_to_somebody(message: Any) -> None:
            if stream.closed:
                raise ClientGone
            await send(message)

        await cast(Any, self._handler)(scope, receive, send_to_somebody, *others)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def handle(self, event: Event) -> None:
        if isinstance(event, RawData):
            # Reading 64 KiB of heads, or of frames without a body, takes long enough to be noticed.
            for piece in self._cutter.cut(event.data):
                if self.ledger.writer.is_closing():
                    return
                await self.ledger.turns.run(super().handle(RawData(piece)))
            return
        if not isinstance(event, Closed):
            await super().handle(event)
            return
        self.closed = True
        for stream_id in list(self.streams):
            await self.ledger.turns.run(self._end(stream_id))
            # Its handler ends in the next pass, and takes longer than this.
            await asyncio.sleep(0)
        await super().handle(event)
        await self.release()

    async def release(self) -> None:
        """Let no writer wait any more, also of streams that were reset: nobody sends from now on.

        A handler that is cut off within its answer makes Hypercorn answer 500, and wait for that.
        """
        self.closed = True
        for buffer in list(self.stream_buffers.values()):
            await buffer.close()

    async def _end(self, stream_id: int) -> None:
        """End a stream whose connection is over, and tell its handler."""
        await self._close_stream(stream_id)
        if (buffer := self.stream_buffers.get(stream_id)) is not None:
            await buffer.close()

    async def _handle_events(self, events: list[h2_events.Event]) -> None:
        for event in events:
            if isinstance(event, _CALM) and not self._is_calm():
                CLOSED.labels("resets").inc()
                self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
                await self._flush()
                await self.send(Closed())
                return
            if isinstance(event, _ANSWERED):
                continue
            if isinstance(event, h2_events.DataReceived) and event.stream_id not in self.streams:
                # Its answer is out already, or it was refused.
                with suppress(ProtocolError):
                    self.connection.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                continue
            try:
                await super()._handle_events([event])
            except (ProtocolError, KeyError):
                # The stream ended while this waited for its handler.
                continue
        await self._flush()

    def _is_calm(self) -> bool:
        now_s = self._now_s()
        self._calm += (now_s - self._calm_s) * CALM_PER_SECOND
        self._calm, self._calm_s = min(self._calm, CALM_AT_ONCE) - 1, now_s
        return self._calm >= 0

    async def _create_stream(self, request: h2_events.RequestReceived) -> None:
        stream_id = request.stream_id
        if not _is_ours(request.headers):
            self._refuse(stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        if self._running >= self.config.h2_max_concurrent_streams:
            self._refuse(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._running += 1
        await super()._create_stream(request)
        # The handler has not begun to run.
        self.stream_buffers[stream_id] = BoundedBuffer(self, stream_id)

    def _refuse(self, stream_id: int, code: ErrorCodes) -> None:
        self._calm -= 1
        with suppress(ProtocolError):
            self.connection.reset_stream(stream_id, code)

    async def _send_data(self, stream_id: int) -> None:
        await self.ledger.turns.run(self._send_part(stream_id))

    async def _send_part(self, stream_id: int) -> None:
        if stream_id in self.stream_buffers:
            with suppress(KeyError):  # it was closed while this waited for the socket
                await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers:
            with suppress(KeyError):
                self.priority.remove_stream(stream_id)

    async def ready(self, stream_id: int) -> None:
        """Note that the buffer of a stream has something."""
        with suppress(KeyError):
            self.priority.unblock(stream_id)
        await self.has_data.set()

    def tenant_of(self, stream_id: int) -> bytes:
        scope = _scope(self.streams.get(stream_id))
        return cast(bytes, scope.get(TENANT, b"")) if scope else b""


class FrameCutter:
    """Cuts the input of a connection of HTTP/2 where frames end."""

    def __init__(self) -> None:
        self._left_bytes = len(PREFACE)
        """Bytes of the current frame that have not come. The preface counts as a frame."""
        self._head = b""
        """The part of the next frame's head that has come (RFC 9113, 4.1)."""

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield all of the data, in pieces that a few frames end in."""
        begin = at = frames = 0
        while at < len(data):
            if self._left_bytes:
                taken = min(self._left_bytes, len(data) - at)
                self._left_bytes -= taken
            else:
                taken = min(_FRAME_HEAD_BYTES - len(self._head), len(data) - at)
                self._head += data[at : at + taken]
                if len(self._head) == _FRAME_HEAD_BYTES:
                    self._left_bytes = int.from_bytes(self._head[:3])
                    self._head = b""
            at += taken
            if self._left_bytes or self._head:
                continue  # The frame goes on.
            frames += 1
            if frames == _FRAMES_AT_ONCE or at - begin >= _READ_BYTES:
                yield data[begin:at]
                begin, frames = at, 0
        if begin < len(data):
            yield data[begin:]


class BoundedBuffer(StreamBuffer):
    """The bytes that a stream has to send. A writer waits until the client has taken enough."""

    def __init__(self, protocol: BoundedH2, stream_id: int) -> None:
        super().__init__(protocol.context.event_class)
        self._protocol = protocol
        self._stream_id = stream_id
        self._tenant_id = b""
        self._counted_bytes = 0
        """Bytes that are here or wait to be put here."""

    def _count(self, count: int) -> None:
        self._counted_bytes += count
        self._protocol.ledger.buffered(count, self._tenant_id)

    async def push(self, data: bytes) -> None:
        if self._complete:
            raise BufferCompleteError
        self._tenant_id = self._protocol.tenant_of(self._stream_id)
        self._count(len(data))
        for at in range(0, len(data), _PART_BYTES):
            await self._put(data[at : at + _PART_BYTES])

    async def _put(self, part: bytes) -> None:
        if self._complete:
            return
        self.buffer += part
        await self._is_empty.clear()
        await self._protocol.ready(self._stream_id)
        while len(self.buffer) >= _BUFFER_BYTES and not self._complete:
            await self._paused.clear()
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if data:
            self._count(-len(data))
        if len(self.buffer) < _BUFFER_BYTES:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data

    async def close(self) -> None:
        self._count(-self._counted_bytes)
        await super().close()


def _scope(stream: Any) -> Scope | None:
    """Return the scope of a stream's request; None before there is one."""
    return cast("Scope | None", getattr(stream, "scope", None))


def _is_ours(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a server of HTTP/1.1 would take the method and path."""
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    return (
        _METHOD.fullmatch(pseudo.get(b":method", b"")) is not None
        and _PATH.fullmatch(pseudo.get(b":path", b"")) is not None
        and not any(_ODD.search(name) or _ODD.search(value) for name, value in headers)
    )
