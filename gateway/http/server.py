"""The HTTP listener: plain HTTP/1.1 requests are served here, all else by Hypercorn.

A publish is a small POST on a kept-alive connection, thousands a second. For those this module
reads the head with two regular expressions and writes each response with one call, at about a
quarter of the processor time. A connection whose next request is not plain (HTTP/2, chunked
bodies, Expect, upgrades, malformed ones) is given to Hypercorn with the bytes read so far, and
stays there.

Both run the same ASGI application. Limits: connections, in all and from one address; heads of 64
KiB and 256 fields, bodies read ahead by 256 KiB, reading paused while a pipelined request waits.
Swept away: connections that send nothing at first, or nothing for long, and unfinished heads.

Who is to be refused because there is too much is refused here (`turn_away`), without a task or a
request being made of it. From a connection of its own (no proxy's) nothing more is read for most
of the time that its Retry-After says: who heeds that notices nothing, and who does not waits in its
own socket, where it costs nothing, so that a flood is as slow as it has connections. What has come
at once is looked at by turns (request_turns.py).
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import structlog
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.utils import wrap_app
from prometheus_client import Counter, Gauge

from edge.asgi import PROBLEM_JSON, TENANT, WAITED, ClientGone, Handler
from edge.problem import Problem
from gateway.http.dispatch import TurnedAway
from gateway.http.request import MAX_FIELDS, Head, parse_head
from gateway.http.turns import RequestTurns

MAX_HEAD_BYTES = 64 * 1024
READ_AHEAD_BYTES = 256 * 1024
HEAD_SECONDS = 10.0
FIRST_SECONDS = 20.0
"""For the first byte of a connection."""
HELD_AT_LEAST = 0.5
"""Of the time that a Retry-After says; by chance, so that those who came together don't again."""
HOLD_STEP_SECONDS = 0.05
MAX_CONNECTIONS = 20_000
MAX_CONNECTIONS_OF_ADDRESS = 10_000
SWEEP_SECONDS = 1.0
LISTEN_BACKLOG = 2048
_BODYLESS = frozenset({204, 304})
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_HEAD_TOO_LARGE = Problem(
    431,
    "headers-too-large",
    "Headers too large",
    f"The head of a request is at most {MAX_HEAD_BYTES} bytes in {MAX_FIELDS} fields.",
)
_TOO_MANY = Problem(
    503,
    "too-many-connections",
    "Too many connections",
    "There are as many connections as may be, in all or from this address; close some.",
    retry_after_s=5.0,
)
TurnAway = Callable[[bytes, int], TurnedAway | None]
CONNECTIONS = Gauge(
    "packetboat_gateway_connections", "Open connections.", multiprocess_mode="livesum"
)
CLOSED = Counter(
    "packetboat_gateway_connections_refused_total",
    "Connections ended by the server, by why: many (refused), silent (nothing sent), slow (a head "
    "that was not whole in time), head (a head that was too large).",
    ["why"],
)
HELD = Counter(
    "packetboat_gateway_connections_held_total",
    "Refusals after which nothing was read from the connection for a while.",
)
_log = structlog.get_logger("packetboat.http")


class HttpServer:
    """Owns the listening socket and every connection."""

    def __init__(
        self,
        app: Handler,
        config: Config,
        *,
        plain: bool = True,
        turn_away: TurnAway = lambda _, __: None,
        max_connections: int = MAX_CONNECTIONS,
        max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS,
    ) -> None:
        """`turn_away` is asked of a head, and how much of its body is here, before all else."""
        self.app = app
        self.plain = plain
        """False: every connection is Hypercorn's from its first byte."""
        self.turn_away = turn_away
        self._max_connections = max_connections
        self._max_of_address = max_connections_of_address
        self._open: Tally[str] = Tally()
        """By address."""
        self._open_count = 0
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.leaving = False
        """Each response is its connection's last."""
        self.closing = False
        self._nobody = asyncio.Event()
        """Set when nobody is connected; looked at by `leave` alone."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._context = WorkerContext(None)
        self._wrapped = wrap_app(cast(Any, app), config.wsgi_max_body_size, "asgi")
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.turns = RequestTurns(self.loop)
        self._date = (0, b"")
        self._held: defaultdict[int, list[Connection]] = defaultdict(list)
        """By the step of time at which they are released."""
        self._released_step = 0
        self._releasing: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket) -> None:
        self._listener = await self.loop.create_server(
            lambda: Connection(self), sock=listener, backlog=LISTEN_BACKLOG
        )
        self._sweeper = self.loop.create_task(self._sweep())

    async def leave(self, linger_s: float) -> None:
        """Returns when nobody is connected any more, or after that long. Connections are taken
        meanwhile: who is in front sends more until it has seen that this process is not ready. A
        client that is told to close meets no connection that ends just as it asks again."""
        self.leaving = True
        deadline_s = self.loop.time() + linger_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                while self._open_count:
                    self._nobody.clear()
                    await self._nobody.wait()

    async def close(self, grace_s: float) -> None:
        """No new connections; idle ones end now, the others with their response or `grace_s`. One
        that has only just come is not idle: its request is on its way."""
        self.leaving = self.closing = True
        if self._releasing is not None:
            self._releasing.cancel()
        if self._listener is not None:
            self._listener.close()
        await self._context.terminated.set()
        for connection in list(self.connections):
            connection.close_if_idle()
        await self.leave(grace_s)
        for connection in list(self.connections):
            connection.abort()
        for task in [*self.tasks, *([self._sweeper] if self._sweeper else [])]:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def opened(self, address: str) -> bool:
        """Whether one more may be; then `ended` follows."""
        crowded = self._open_count >= self._max_connections
        if crowded or self._open[address] >= self._max_of_address:
            return False
        self._open[address] += 1
        self._open_count += 1
        CONNECTIONS.inc()
        return True

    def ended(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]
        self._open_count -= 1
        if not self._open_count:
            self._nobody.set()
        CONNECTIONS.dec()

    def hold(self, connection: Connection, most_s: float) -> None:
        """It is told to go on, by `release`, when it has been held for long enough."""
        hold_s = most_s * random.uniform(HELD_AT_LEAST, 1.0)
        step = int((self.loop.time() + hold_s) / HOLD_STEP_SECONDS)
        self._held[max(step, self._released_step + 1)].append(connection)
        if self._releasing is None and not self.closing:
            self._releasing = self.loop.call_later(HOLD_STEP_SECONDS, self._release)

    def _release(self) -> None:
        self._released_step = int(self.loop.time() / HOLD_STEP_SECONDS)
        for step in [step for step in self._held if step <= self._released_step]:
            for connection in self._held.pop(step):
                connection.release()
        more = bool(self._held) and not self.closing
        self._releasing = self.loop.call_later(HOLD_STEP_SECONDS, self._release) if more else None

    def own(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def date_line(self) -> bytes:
        """`date: …`, made once a second."""
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, b"date: %s\r\n" % formatdate(now, usegmt=True).encode("ascii"))
        return self._date[1]

    def hand_over(self, transport: asyncio.Transport, received: bytes, address: str) -> None:
        """From here on the connection is Hypercorn's, beginning with what was received."""
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        # Before the first bytes: the reader pauses the transport where they are too many.
        transport.resume_reading()
        if received:
            reader.feed_data(received)
        writer = asyncio.StreamWriter(transport, protocol, reader, self.loop)
        task = self.loop.create_task(self._run_hypercorn(reader, writer))
        task.add_done_callback(lambda _: self.ended(address))
        self.own(task)

    async def _run_hypercorn(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await TCPServer(self._wrapped, self.loop, self.config, self._context, {}, reader, writer)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now_s = self.loop.time()
            for connection in list(self.connections):
                connection.sweep(now_s, self.config.keep_alive_timeout)


class Connection(asyncio.Protocol):
    """One client connection: at most one request runs, what follows it waits in the buffer.

    Once it is handed over, nothing that was scheduled here before may act on it any more: its
    bytes, its socket and its place in the count of connections are Hypercorn's.
    """

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._request: Request | None = None
        self._since_s = server.loop.time()
        self._silent = True
        self._handed_over = False
        self._address: str | None = None
        self._paused = self._held = self._in_line = False
        self._waited_s = 0.0
        """How long what is looked at next has waited for its turn."""
        self.tenant_id = b""
        """Whose request was the last here."""
        self._writable: asyncio.Future[None] | None = None
        self._client: tuple[str, int] | None = None
        self._local: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        client, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = tuple(client[:2]) if isinstance(client, tuple) else None
        address = str(client[0]) if isinstance(client, tuple) else ""
        if not self._server.opened(address):
            CLOSED.labels("many").inc()
            self._refuse(_TOO_MANY)
            return
        self._address = address
        if not self._server.plain:
            self._hand_over()
            return
        self._local = tuple(local[:2]) if isinstance(local, tuple) else None
        self._server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._handed_over:
            return
        self._server.connections.discard(self)
        if self._address is not None:
            self._server.ended(self._address)
            self._address = None
        if self._request is not None:
            self._request.disconnected()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._handed_over:
            return
        request = self._request
        if request is None:
            if not self._buffer:
                self._since_s = self._server.loop.time()
                self._silent = False
            self._buffer += data
            if not self._in_line:
                if self._server.turns.admits(self, self.tenant_id):
                    self._next_request()
                else:
                    self._in_line = True
            if len(self._buffer) > READ_AHEAD_BYTES:
                self._pause()
            return
        if request.missing_bytes:
            taken = request.feed(data)
            data = data[taken:] if taken < len(data) else b""
        self._buffer += data
        if len(self._buffer) > READ_AHEAD_BYTES or request.buffered_bytes > READ_AHEAD_BYTES:
            self._pause()

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._server.loop.create_future()

    def resume_writing(self) -> None:
        if self._handed_over:
            return
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        if self._request is None and not self.transport.is_closing():
            self.read_on()
            self._server.loop.call_soon(self._next_request)

    async def write(self, data: bytes) -> None:
        self.transport.write(data)
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def read_on(self) -> None:
        """Unless enough is here already: what has come is looked at first."""
        if self._paused and not self._held and len(self._buffer) <= READ_AHEAD_BYTES:
            self._paused = False
            self.transport.resume_reading()

    def take_turn(self) -> None:
        self._in_line = False
        self._waited_s = self._server.loop.time() - self._since_s
        self._next_request()
        self._waited_s = 0.0

    def release(self) -> None:
        """It was held, and need be no more."""
        self._held = False
        if self._handed_over or self.transport.is_closing():
            return
        self.read_on()
        self._next_request()

    def response_ended(self, close: bool) -> None:
        request, self._request = self._request, None
        self._since_s = self._server.loop.time()
        if close or self._server.closing or (request is not None and request.missing_bytes):
            self.transport.close()
            return
        if self._writable is not None:
            self._pause()  # who does not read what is answered is not asked for more
            return
        self.read_on()
        if self._buffer:
            self._server.loop.call_soon(self._next_request)

    def close_if_idle(self) -> None:
        if self._handed_over:
            return
        if self._request is None and not self._silent and not self._buffer:
            self.transport.close()

    def abort(self) -> None:
        if not self._handed_over:
            self.transport.abort()

    def sweep(self, now_s: float, idle_s: float) -> None:
        """Ends a connection that has waited too long for a request, or for the rest of its head."""
        if self._handed_over or self._request is not None:
            return
        limit_s = HEAD_SECONDS if self._buffer else FIRST_SECONDS if self._silent else idle_s
        if now_s - self._since_s > limit_s:
            if self._buffer or self._silent:
                CLOSED.labels("slow" if self._buffer else "silent").inc()
            self.transport.close()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _next_request(self) -> None:
        if self._handed_over or self._request is not None or self._held or not self._buffer:
            return
        if self.transport.is_closing():
            return
        if self._writable is not None:
            self._pause()
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
            CLOSED.labels("head").inc()
            self._refuse(_HEAD_TOO_LARGE)
            return
        # What begins like no method (TLS, say) need not be waited for.
        if end < 0 and 65 <= self._buffer[0] <= 90:
            self.read_on()
            return
        if end >= 0 and self._buffer.count(b"\r\n", 0, end) > MAX_FIELDS:
            CLOSED.labels("head").inc()
            self._refuse(_HEAD_TOO_LARGE)
            return
        body_at = end + 4
        raw = bytes(self._buffer[:end]) if end >= 0 else b""
        turned_away = self._server.turn_away(raw, len(self._buffer) - body_at) if raw else None
        if turned_away is not None:
            del self._buffer[: body_at + turned_away.length]
            self._turn_away(turned_away)
            return
        head = parse_head(raw) if raw else None
        if head is None:
            self._hand_over()
            return
        body = bytes(self._buffer[body_at : body_at + head.content_length])
        del self._buffer[: body_at + len(body)]
        self._start(head, body)

    def _hand_over(self) -> None:
        """Gives the connection to Hypercorn with the bytes that no request was made of."""
        self._handed_over = True
        received, self._buffer = bytes(self._buffer), bytearray()
        address, self._address = self._address, None
        assert address is not None, "a connection is counted until it is handed over"
        self._server.connections.discard(self)
        self._server.hand_over(self.transport, received, address)

    def _turn_away(self, turned_away: TurnedAway) -> None:
        """The whole response; what follows in the buffer has its turn after others."""
        self.tenant_id, refusal = turned_away.tenant_id, turned_away.refusal
        close = turned_away.close or self._server.leaving
        last = b"connection: close\r\n\r\n" if close else b"\r\n"
        head = b"%bx-request-id: %b\r\n%b%b" % (
            refusal.head, turned_away.request_id, self._server.date_line(), last,
        )  # fmt: skip
        self.transport.write(head + refusal.body)
        self._since_s = self._server.loop.time()
        if close:
            self.transport.close()
            return
        if turned_away.own:
            self._held = True
            self._pause()
            self._server.hold(self, turned_away.refusal.retry_after_s)
            HELD.inc()
            return
        self.read_on()
        if self._buffer:
            self._server.loop.call_soon(self._next_request)

    def _refuse(self, problem: Problem) -> None:
        """The problem and the end of the connection: where its request ends is not known."""
        body = problem.to_json()
        head = b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b%bconnection: close\r\n\r\n"
        retry = problem.retry_after_s
        after = b"" if retry is None else b"retry-after: %d\r\n" % retry
        status, date = _STATUS_LINES[problem.status], self._server.date_line()
        head = head % (status, PROBLEM_JSON, len(body), after, date)
        self.transport.write(head + body)
        self.transport.close()

    def _start(self, head: Head, body: bytes) -> None:
        request = self._request = Request(self, self._server, head, body)
        path = head.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "http_version": "1.1",
            "method": head.method,
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": head.path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": self._client,
            "server": self._local,
            "state": {},
            "extensions": {},
            WAITED: self._waited_s,
        }
        task = self._server.loop.create_task(request.run(scope))
        self._server.own(task)


class Request:
    """One request and its response, as the application's `receive` and `send`."""

    __slots__ = (
        "_body",
        "_chunked",
        "_close",
        "_connection",
        "_ended",
        "_gone",
        "_head_bytes",
        "_is_head",
        "_server",
        "_told_end",
        "_wakeup",
        "buffered_bytes",
        "missing_bytes",
    )

    def __init__(self, connection: Connection, server: HttpServer, head: Head, body: bytes) -> None:
        self._connection = connection
        self._server = server
        self._body = [body] if body else []
        self.buffered_bytes = len(body)
        self.missing_bytes = head.content_length - len(body)
        self._is_head = head.method == "HEAD"
        self._close = head.close
        self._wakeup: asyncio.Future[None] | None = None
        self._head_bytes: bytes | None = None
        self._told_end = self._chunked = self._ended = self._gone = False

    async def run(self, scope: dict[str, Any]) -> None:
        try:
            await self._server.app(scope, self.receive, self.send)
            self._connection.tenant_id = scope.get(TENANT, b"")
        except Exception:
            if not self._gone:
                _log.exception("the application failed")
        if self._gone:
            return
        if self._head_bytes is None and not self._ended:
            self._close = True
            await self.send({"type": "http.response.start", "status": 500})
            await self.send({"type": "http.response.body"})
        elif not self._ended:
            # Half a response: only a broken connection says so.
            self._connection.abort()

    def feed(self, data: bytes) -> int:
        """The next part of the body; how much of `data` it takes."""
        part = data[: self.missing_bytes]
        self._body.append(part)
        self.buffered_bytes += len(part)
        self.missing_bytes -= len(part)
        self._wake()
        return len(part)

    def disconnected(self) -> None:
        self._gone = True
        self._wake()

    async def receive(self) -> MutableMapping[str, Any]:
        while True:
            if self._body or (not self.missing_bytes and not self._told_end):
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body.clear()
                self.buffered_bytes = 0
                self._told_end = not self.missing_bytes
                if not self._told_end:
                    self._connection.read_on()
                return {"type": "http.request", "body": body, "more_body": not self._told_end}
            if self._gone or self._ended:
                return {"type": "http.disconnect"}
            self._wakeup = self._server.loop.create_future()
            await self._wakeup

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._gone:
            # So that a pull can hand its messages to somebody who is there.
            raise ClientGone
        if message["type"] == "http.response.start":
            if self._head_bytes is not None or self._ended:
                raise RuntimeError("the response has begun already")
            self._head_bytes = self._encode_head(message["status"], message.get("headers", ()))
            return
        if self._head_bytes is None or self._ended:
            raise RuntimeError(f"{message['type']} is out of place")
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._is_head:
            body = b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        data, self._head_bytes = self._head_bytes + body, b""
        if more:
            await self._connection.write(data)
            return
        self._ended = True
        self._connection.transport.write(data)
        self._wake()
        self._connection.response_ended(self._close)

    def _encode_head(self, status: int, headers: Any) -> bytes:
        close = self._close or self._server.leaving
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        framed = status in _BODYLESS
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                framed = True
            elif name == b"connection":
                close = close or value == b"close"
        lines.append(self._server.date_line())
        if not framed:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if close:
            self._close = True
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header of the response holds a line break")
        return head + b"\r\n"

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
