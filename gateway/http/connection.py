"""Serves one client connection of HTTP/1.1, from its first byte to its last.

At most one request of it runs; later ones wait in its buffer, and reading pauses while much waits.
A publish is a small POST on a kept-alive connection, thousands a second: its head is found with one
search, read by llhttp (request.py), and its answer is written with one call.

Under overload, requests are refused here (`turn_away`), without a task or a request object. A
connection that comes through no proxy is then not read for most of the time that its Retry-After
says: a client that heeds it notices nothing, and the requests of one that does not wait in its own
socket, where they cost nothing, so that a flood is as slow as its connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import structlog
from prometheus_client import Counter

from edge.asgi import EXPECTS, PROBLEM_JSON, TENANT, WAITED, ClientGone, Header
from edge.departure import DEPARTURE
from edge.problem import Problem
from gateway.http.direct import DirectRequest, Known
from gateway.http.request import (
    END,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    ChunkedBody,
    Head,
    Malformed,
)
from gateway.http.round_robin import DIRECT
from gateway.http.unsent import Account, unsent_of
from peering.addresses import of_address

if TYPE_CHECKING:
    from gateway.http.dispatch import TurnedAway
    from gateway.http.server import HttpServer

READ_AHEAD_BYTES = 256 * 1024
MOST_CHUNKED_BYTES = 64 * 1024
"""Bytes of a chunked body that are looked at before others have their turn."""
JOIN_BELOW_BYTES = 64 * 1024
"""Larger bodies are given to the transport apart from their heads."""
HEAD_SECONDS = 10.0
FIRST_SECONDS = 20.0
"""Seconds that a connection has until its first byte."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODYLESS = frozenset({204, 304})
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_HEAD_TOO_LARGE = Problem.of(
    "headers-too-large",
    f"The head of a request is at most {MAX_HEAD_BYTES} bytes in {MAX_FIELDS} fields.",
)
_NO_METHOD = Malformed("it begins with no method").problem()
TOO_MANY = Problem.of(
    "too-many-connections",
    "There are as many connections as may be, in all or from this address; close some.",
    retry_after_s=5.0,
)
CLOSED = Counter(
    "packetboat_gateway_connections_refused_total",
    "Connections ended by the server, by why: many (refused), silent (nothing sent), slow (a head "
    "that was not whole in time), head (a head that was too large), malformed (no HTTP/1.1), "
    "stalled (answers were not taken), unsent (too many bytes of answers were not taken), resets "
    "(too many streams of HTTP/2 were given up), failed (an error of the server).",
    ["why"],
)
HELD = Counter(
    "packetboat_gateway_connections_held_total",
    "Refusals after which nothing was read from the connection for a while.",
)
_log = structlog.get_logger("packetboat.http")


def address_of(transport: asyncio.BaseTransport) -> str:
    """Return the key by which connections are counted: the address, or its /64 for IPv6."""
    client = transport.get_extra_info("peername")
    return of_address(str(client[0])) if isinstance(client, tuple) else ""


def refusal(problem: Problem, date_line: bytes) -> bytes:
    """Return a response that is the last of its connection."""
    body = problem.to_json()
    head = b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b%bconnection: close\r\n\r\n"
    retry = problem.retry_after_s
    after = b"" if retry is None else b"retry-after: %d\r\n" % retry
    status = _STATUS_LINES[problem.status]
    return head % (status, PROBLEM_JSON, len(body), after, date_line) + body


class Connection(asyncio.Protocol):
    """Serves one client connection: at most one request runs, the next ones wait in its buffer."""

    def __init__(self, server: HttpServer, address: str | None = None) -> None:
        """Wrap a new connection; `address` is given if the server counts it already."""
        self._server = server
        self._address = address
        self._buffer = bytearray()
        self._request: Request | DirectRequest | None = None
        self._since_s = server.loop.time()
        self._silent = True
        self._paused = self._held = self._in_line = False
        self._waited_s = 0.0
        """Seconds that the next request has waited for its turn."""
        self.tenant_id = b""
        """The tenant of the last request here."""
        self.given_bytes = 0
        """All that was ever written."""
        self._taken_bytes = 0
        self.account = Account(self._end)
        self._writable: asyncio.Future[None] | None = None
        self._client: tuple[str, int] | None = None
        self._local: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        client, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = tuple(client[:2]) if isinstance(client, tuple) else None
        self._local = tuple(local[:2]) if isinstance(local, tuple) else None
        if self._address is None:
            self._address = self._server.opened(self.transport)
            if self._address is None:
                return
        self._server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._address is not None:
            self._server.ended(self._address)
            self._address = None
        request = self._request
        if isinstance(request, DirectRequest):
            self._request = request = None
        if request is not None:
            request.lost()
        self.resume_writing()
        self._server.unsent.forget(self.account)
        if request is None:
            return
        if self._server.turns.admits(self._end_request, request.tenant_id):
            self._end_request()

    def _end_request(self) -> None:
        """Tell the handler of the running request that its client is gone."""
        request, self._request = self._request, None
        if isinstance(request, Request):
            self._server.turns.handled()
            request.disconnected()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client into the buffer, or into the body of the running request."""
        request = self._request
        if request is None:
            if not self._buffer:
                self._since_s = self._server.loop.time()
                self._silent = False
            self._buffer += data
            self._ask_for_turn()
            if len(self._buffer) > READ_AHEAD_BYTES:
                self._pause()
            return
        if isinstance(request, DirectRequest) or request.whole or self._buffer:
            self._buffer += data
        else:
            taken = self._feed(request, data)
            self._buffer += data[taken:] if taken < len(data) else b""
        if len(self._buffer) > READ_AHEAD_BYTES or request.buffered_bytes > READ_AHEAD_BYTES:
            self._pause()

    def _feed(self, request: Request, data: bytes) -> int:
        """Gives the running request more of its body; how much of it that was."""
        try:
            taken = request.feed(data)
        except Malformed as error:
            self._broken_off(request, error)
            return len(data)
        if taken < len(data) and not request.whole:
            self._server.loop.call_soon(self._feed_on)
        return taken

    def _feed_on(self) -> None:
        request = self._request
        if isinstance(request, Request) and not request.whole and self._buffer:
            del self._buffer[: self._feed(request, bytes(self._buffer))]

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._server.loop.create_future()
        self._account_for_unsent()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._account_for_unsent()
        if self._request is None and not self.transport.is_closing():
            self.read_on()
            self._server.loop.call_soon(self._ask_for_turn)

    def write(self, data: bytes) -> None:
        """Write bytes of a response to the client."""
        self.given_bytes += len(data)
        self.transport.write(data)

    async def writable(self) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def read_on(self) -> None:
        """Resume reading from the socket, unless enough unread bytes are buffered."""
        if self._paused and not self._held and len(self._buffer) <= READ_AHEAD_BYTES:
            self._paused = False
            self.transport.resume_reading()

    def _ask_for_turn(self) -> None:
        """Look at the next request, now or once it is this connection's turn."""
        if self._in_line:
            return
        if self._server.turns.admits(self.take_turn, self.tenant_id):
            self._next_request()
        else:
            self._in_line = True

    def take_turn(self) -> None:
        self._in_line = False
        self._waited_s = self._server.loop.time() - self._since_s
        self._next_request()
        self._waited_s = 0.0

    def release(self) -> None:
        """Read on: the time for which the server held this connection is over."""
        self._held = False
        if self.transport.is_closing():
            return
        self.read_on()
        self._ask_for_turn()

    def response_ended(self, close: bool) -> None:
        """Close the connection, or go on to the next request."""
        request, self._request = self._request, None
        self._since_s = self._server.loop.time()
        if close or self._server.closing or (request is not None and not request.whole):
            self.transport.close()
            return
        if self._writable is not None:
            self._pause()  # a client that does not read its answers is not read either
            return
        self.read_on()
        if self._buffer:
            self._server.loop.call_soon(self._ask_for_turn)

    def close_if_idle(self) -> None:
        if self._request is None and not self._silent and not self._buffer:
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def sweep(self, now_s: float, idle_s: float) -> None:
        """Ends a connection that has waited too long for a request, for the rest of its head, or
        for its client to take what was answered."""
        if self.given_bytes != self._taken_bytes:
            self._account_for_unsent()
            self._server.unsent.sweep(self.account, now_s)
        if self._request is not None or self.transport.is_closing():
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

    def _account_for_unsent(self) -> None:
        request = self._request
        tenant_id = self.tenant_id if request is None else request.tenant_id
        unsent_bytes = unsent_of(self.transport)
        self._taken_bytes = self.given_bytes - unsent_bytes
        self._server.unsent.note(self.account, tenant_id, unsent_bytes, self.given_bytes)

    def _end(self, why: str) -> None:
        CLOSED.labels(why).inc()
        self.transport.abort()

    def _next_request(self) -> None:
        """Start the next request in the buffer once its head is complete, or refuse it."""
        buffer = self._buffer
        if self._request is not None or self._held or not buffer or self.transport.is_closing():
            return
        if self._writable is not None:
            self._pause()
            return
        if buffer[0] in END:
            del buffer[: len(buffer) - len(buffer.lstrip(END))]  # empty lines may come before it
            if not buffer:
                self.read_on()
                return
        end = buffer.find(END)
        if end > MAX_HEAD_BYTES or (end < 0 and len(buffer) > MAX_HEAD_BYTES):
            self._refuse_head(_HEAD_TOO_LARGE, "head")
            return
        if end < 0:
            if 65 <= buffer[0] <= 90:
                self.read_on()
            else:  # no method begins like this (TLS, say): the rest need not be waited for
                self._refuse_head(_NO_METHOD, "malformed")
            return
        if buffer.count(b"\r\n", 0, end) > MAX_FIELDS:
            self._refuse_head(_HEAD_TOO_LARGE, "head")
            return
        body_at = end + len(END)
        raw = bytes(buffer[:end])
        turned_away = self._server.turn_away(raw, len(buffer) - body_at)
        if turned_away is not None:
            del buffer[: body_at + turned_away.length]
            self._turn_away(turned_away)
            return
        known = self._server.heads.direct(raw)
        if known is not None and self._serve_directly(known, body_at):
            return
        try:
            head = self._server.heads.read(raw)
            body = bytes(buffer[body_at : body_at + head.content_length])
            del buffer[: body_at + len(body)]
            request = Request(self, self._server, head, body)
        except Malformed as error:
            self._refuse_head(error.problem(), "malformed")
            return
        self._start(request, head)
        if head.chunked:
            self._feed_on()

    def _refuse_head(self, problem: Problem, why: str) -> None:
        CLOSED.labels(why).inc()
        self._buffer.clear()
        self._refuse(problem)

    def _broken_off(self, request: Request, error: Malformed) -> None:
        """End the running request, because its body turns out to be malformed."""
        CLOSED.labels("malformed").inc()
        request.disconnected()
        if request.answering:
            self.transport.abort()
        else:
            self._refuse(error.problem())

    def _turn_away(self, turned_away: TurnedAway) -> None:
        """Write the whole refusal; later requests in the buffer have their turn after others."""
        self.tenant_id, refusal = turned_away.tenant_id, turned_away.refusal
        close = turned_away.close or self._server.leaving
        last = b"connection: close\r\n\r\n" if close else b"\r\n"
        head = b"%bx-request-id: %b\r\n%b%b" % (
            refusal.head, turned_away.request_id, self._server.date_line(), last,
        )  # fmt: skip
        self.write(head + refusal.body)
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
            self._server.loop.call_soon(self._ask_for_turn)

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and end the connection, because the end of its request is not
        known.
        """
        self.write(refusal(problem, self._server.date_line()))
        self.transport.close()

    def _serve_directly(self, known: Known, body_at: int) -> bool:
        """Serve a request with a known head now; return whether it is one that can be."""
        buffer, server, end = self._buffer, self._server, body_at + known.length
        direct = server.direct
        if len(buffer) < end or direct is None:
            return False
        request = direct.begin(known, self._waited_s, self._answer_directly, server.answers)
        if request is None:
            return False
        body = bytes(memoryview(buffer)[body_at:end])
        del buffer[:end]
        self._request = request
        server.turns.handled(DIRECT)
        request.serve(body)
        return True

    def _answer_directly(self, status: int, headers: Iterable[Header], body: bytes) -> bool:
        """Write the answer to the request that is served directly; return False if its client is
        gone.
        """
        request = self._request
        if not isinstance(request, DirectRequest):
            return False
        self.tenant_id = request.tenant_id
        lines, _, close = _head_lines(status, headers, self._server.date_line())
        close = close or self._server.leaving
        if close:
            lines.append(b"connection: close\r\n")
        self.write(_joined(lines) + body)
        self.response_ended(close)
        return True

    def _start(self, request: Request, head: Head) -> None:
        """Start a task that runs the application for a request."""
        self._request = request
        self._server.turns.handled()
        path = head.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "http_version": head.version,
            "method": head.method,
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": head.path,
            "query_string": head.query,
            "root_path": "",
            "headers": list(head.headers),
            "client": self._client,
            "server": self._local,
            "state": {},
            "extensions": {},
            WAITED: self._waited_s,
            EXPECTS: head.expects,
            DEPARTURE: request.departure,
        }
        task = self._server.loop.create_task(request.run(scope))
        self._server.own(task)


class Request:
    """Gives the application `receive` and `send` for one request and its response."""

    __slots__ = (
        "_body",
        "_chunked",
        "_chunks",
        "_close",
        "_connection",
        "_departure",
        "_ended",
        "_expects",
        "_gone",
        "_head_bytes",
        "_is_1_0",
        "_is_head",
        "_missing_bytes",
        "_scope",
        "_server",
        "_told_end",
        "_wakeup",
        "buffered_bytes",
        "whole",
    )

    def __init__(self, connection: Connection, server: HttpServer, head: Head, body: bytes) -> None:
        """Begin a request whose body, or the first part of it, is `body`."""
        self._connection = connection
        self._server = server
        self._body = [body] if body else []
        self.buffered_bytes = len(body)
        self._missing_bytes = head.content_length - len(body)
        self._chunks = ChunkedBody() if head.chunked else None
        self.whole = not self._missing_bytes and not head.chunked
        """Whether all of its body is here."""
        self._expects = head.expects and not body
        self._is_head = head.method == "HEAD"
        self._is_1_0 = head.version == "1.0"
        self._scope: dict[str, Any] = {}
        self._close = head.close
        self._wakeup: asyncio.Future[None] | None = None
        self._departure: asyncio.Future[None] | None = None
        self._head_bytes: bytes | None = None
        self._told_end = self._chunked = self._ended = self._gone = False

    @property
    def tenant_id(self) -> bytes:
        """The tenant of the request, as soon as it is known."""
        return cast(bytes, self._scope.get(TENANT, b""))

    @property
    def answering(self) -> bool:
        return self._head_bytes is not None

    async def run(self, scope: dict[str, Any]) -> None:
        """Run the application, and answer 500 if it fails before it has answered."""
        self._scope = scope
        try:
            await self._server.app(scope, self.receive, self.send)
            self._connection.tenant_id = scope.get(TENANT, b"")
        except Exception:
            if not self._gone:
                _log.exception("the application failed")
        finally:
            del scope[DEPARTURE]  # the scope must not keep the request
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
        """Take the next part of the body; return how much of `data` belongs to it.

        Raises Malformed.
        """
        self._expects = False
        if self._chunks is None:
            part = data[: self._missing_bytes]
            taken = len(part)
            self._missing_bytes -= taken
            self.whole = not self._missing_bytes
        else:
            part, taken = self._chunks.feed(data[:MOST_CHUNKED_BYTES])
            self.whole = self._chunks.ended
        if part:
            self._body.append(part)
            self.buffered_bytes += len(part)
        if part or self.whole:
            self._wake()
        return taken

    def lost(self) -> None:
        """Send nothing more: a pull hands its messages to somebody who is there."""
        self._gone = True

    def disconnected(self) -> None:
        """Tell the handler, too."""
        self._gone = True
        self._wake()
        if self._departure is not None and not self._departure.done():
            self._departure.set_result(None)

    def departure(self) -> asyncio.Future[None]:
        """Return the future that is done once the client has gone; the request was read before."""
        if self._departure is None:
            self._departure = self._server.loop.create_future()
            if self._gone or self._ended:
                self._departure.set_result(None)
        return self._departure

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the body, or wait for it; at the end, `http.disconnect`."""
        while True:
            if self._body or (self.whole and not self._told_end):
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body.clear()
                self.buffered_bytes = 0
                self._told_end = self.whole
                if not self._told_end:
                    self._connection.read_on()
                return {"type": "http.request", "body": body, "more_body": not self._told_end}
            if self._gone or self._ended:
                return {"type": "http.disconnect"}
            if self._expects and self._head_bytes is None:
                self._expects = False
                self._connection.write(_CONTINUE)
            self._wakeup = self._server.loop.create_future()
            await self._wakeup

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Write the head or a part of the body of the response; raise ClientGone if it left."""
        if self._gone:
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
        head, self._head_bytes = self._head_bytes, b""
        if more:
            self._write(head, body)
            await self._connection.writable()
            return
        self._ended = True
        self._write(head, body)
        self._wake()
        self._connection.response_ended(self._close)

    def _write(self, head: bytes, body: bytes) -> None:
        """Write a head and a part of a body: as one piece, unless the copy would be large."""
        if head and len(body) > JOIN_BELOW_BYTES:
            self._connection.write(head)
            self._connection.write(body)
        else:
            self._connection.write(head + body)

    def _encode_head(self, status: int, headers: Any) -> bytes:
        """Return the head of the response; raise ValueError for a header with a line break."""
        lines, framed, close = _head_lines(status, headers, self._server.date_line())
        close = close or self._close or self._server.leaving
        if not framed and self._is_1_0:
            close = True  # its end is the end of the connection
        elif not framed:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if close:
            self._close = True
            lines.append(b"connection: close\r\n")
        return _joined(lines)

    def _wake(self) -> None:
        """Wake the `receive` that waits for more of the body."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)


def _head_lines(
    status: int, headers: Iterable[Header], date_line: bytes
) -> tuple[list[bytes], bool, bool]:
    """Return the lines of a head; whether they say where the body ends; whether they close the
    connection.
    """
    lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
    framed, close = status in _BODYLESS, False
    for name, value in headers:
        lines.append(b"%b: %b\r\n" % (name, value))
        if name == b"content-length":
            framed = True
        elif name == b"connection":
            close = close or value == b"close"
    lines.append(date_line)
    return lines, framed, close


def _joined(lines: list[bytes]) -> bytes:
    """Return the head of a response; raise ValueError for a header with a line break."""
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise ValueError("a header of the response holds a line break")
    return head + b"\r\n"
