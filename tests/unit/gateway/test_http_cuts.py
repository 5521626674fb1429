"""One stream of bytes with pipelined requests, cut at every position: what is executed, and what
is answered, is what a model says, however the bytes come.

The model knows requests, not bytes: it is made with the stream. The connection is the product's,
on a transport that keeps what is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from edge.asgi import ClientGone, Receive, Scope, Send
from gateway.http.connection import Connection
from gateway.http.server import HttpServer
from gateway.server import hypercorn_config


class Sent(NamedTuple):
    """A request as a client means it, and its bytes."""

    method: str
    path: str
    body: bytes
    raw: bytes


def with_length(path: str, body: bytes, *fields: bytes) -> Sent:
    head = [b"POST %b HTTP/1.1" % path.encode(), b"Host: x", *fields]
    head.append(b"Content-Length: %d" % len(body))
    return Sent("POST", path, body, b"\r\n".join(head) + b"\r\n\r\n" + body)


def in_chunks(path: str, *chunks: bytes, size: bytes = b"%x", trailers: bytes = b"") -> Sent:
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode()
    parts = [size % len(chunk) + b"\r\n" + chunk + b"\r\n" for chunk in chunks]
    raw = head + b"".join(parts) + b"0\r\n" + trailers + b"\r\n"
    return Sent("POST", path, b"".join(chunks), raw)


def plain(path: str, method: str = "GET") -> Sent:
    return Sent(method, path, b"", f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


STREAM = [
    plain("/first"),
    with_length("/length", b"a\r\n\r\nb"),
    in_chunks("/chunks", b"x", b"\r\n\r\n", b"0\r\n\r\n"),
    plain("/between", "DELETE"),
    in_chunks("/trailers", b"GET / HTTP/1.1\r\n\r\n", trailers=b"A: b\r\nC:\r\n"),
    in_chunks("/extension", b"yy", size=b'%04X;a=b;c="d"'),
    in_chunks("/empty"),
    with_length("/upgrade", b"zz", b"Connection: Upgrade", b"Upgrade: h2c"),
    Sent("GET", "/lines", b"", b"\r\n\r\nGET /lines HTTP/1.1\r\nHost: x\r\n\r\n"),
    plain("/last"),
]


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if name == "socket" else ("127.0.0.1", 1)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Place:
    """A server without sockets, whose application notes what it executes."""

    def __init__(self, random: Random | None = None) -> None:
        self.server = HttpServer(self.app, hypercorn_config())
        self.executed: list[tuple[str, str, bytes]] = []
        self._random = random

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body, more = body + message["body"], message["more_body"]
        for _ in range(self._random.randrange(4) if self._random else 0):
            await asyncio.sleep(0)
        self.executed.append((scope["method"], scope["path"], body))
        answer = scope["path"].encode() + b"|"
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def play(self, parts: list[bytes], passes: int = 1) -> Wire:
        wire = Wire()
        connection = Connection(self.server)
        connection.connection_made(wire)
        for part in parts:
            if not wire.closed:
                connection.data_received(part)
            for _ in range(passes):
                await asyncio.sleep(0)
        quiet = 0
        for _ in range(400):
            await asyncio.sleep(0)
            quiet = 0 if self.server.tasks else quiet + 1
            if quiet == 3:
                break
        connection.connection_lost(None)
        return wire


def answered(wire: Wire) -> list[str]:
    """The paths that whole answers are to."""
    heads = wire.written.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert all(head.endswith(b"|") for head in heads)
    return [head.partition(b"\r\n\r\n")[2][:-1].decode() for head in heads]


def cuts(raw: bytes) -> Iterator[list[bytes]]:
    for at in range(1, len(raw)):
        yield [raw[:at], raw[at:]]


@pytest.mark.parametrize("passes", [0, 60])
async def test_cut_in_two_at_every_position(passes: int) -> None:
    """The second part comes at once, or after the server has looked at all of the first."""
    raw = b"".join(sent.raw for sent in STREAM)
    executed = [(sent.method, sent.path, sent.body) for sent in STREAM]
    place = Place()
    for parts in cuts(raw):
        place.executed.clear()
        wire = await place.play(parts, passes)
        assert place.executed == executed, parts[0][-40:]
        assert answered(wire) == [sent.path for sent in STREAM]
        assert not wire.closed


@pytest.mark.parametrize("seed", range(12))
async def test_cut_in_many_while_answers_are_made(seed: int) -> None:
    random = Random(seed)
    stream = [random.choice(STREAM) for _ in range(30)]
    raw = b"".join(sent.raw for sent in stream)
    at = sorted(random.sample(range(1, len(raw)), random.choice([3, 40, len(raw) // 2])))
    parts = [raw[one:two] for one, two in zip([0, *at], [*at, len(raw)], strict=True)]
    place = Place(random)
    wire = await place.play(parts, passes=random.randrange(3))
    assert place.executed == [(sent.method, sent.path, sent.body) for sent in stream]
    assert answered(wire) == [sent.path for sent in stream]


REFUSED = {
    "length-and-coding": (
        b"POST /bad HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\na\r\n0\r\n\r\n"
    ),
    "coding-twice": (
        b"POST /bad HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "other-coding": (
        b"POST /bad HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
    ),
    "bad-chunk": b"POST /bad HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
    "bare-line-feed": b"GET /bad HTTP/1.1\nHost: x\n\n\r\n\r\n",
    "two-hosts": b"GET /bad HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("bad", list(REFUSED))
async def test_nothing_behind_a_malformed_request_is_executed(bad: str) -> None:
    """One answer reports the error, and the connection ends; earlier requests were answered."""
    raw = STREAM[0].raw + REFUSED[bad] + STREAM[-1].raw
    place = Place()
    for parts in cuts(raw):
        place.executed.clear()
        wire = await place.play(parts)
        assert place.executed == [("GET", "/first", b"")], parts
        assert wire.written.count(b"HTTP/1.1 ") == 2
        assert b"HTTP/1.1 400 " in wire.written
        assert b"malformed-request" in wire.written
        assert wire.closed


MOST_AT_ONCE_S = 0.05
READ_BYTES = 256 * 1024
CHUNKED = b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
HOSTILE = {
    "empty lines in a chunk": CHUNKED + b"100000\r\n" + b"\r\n\r\n" * (READ_BYTES // 4),
    "chunks of a byte": CHUNKED + b"1\r\na\r\n" * (READ_BYTES // 6),
    "trailers": CHUNKED + b"0\r\n" + b"A:\r\n" * (READ_BYTES // 4),
    "fields": b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"A:\r\n" * (READ_BYTES // 4),
    "empty lines": b"\r\n" * (READ_BYTES // 2),
    "a head that does not end": b"GET /" + b"a" * READ_BYTES,
    "requests": b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * (READ_BYTES // 25),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
async def test_what_is_read_at_once_takes_the_loop_for_a_moment(kind: str) -> None:
    """By the processor time of the thread, in whichever callback it is."""
    raw, place = HOSTILE[kind], Place()
    wire = Wire()
    connection = Connection(place.server)
    connection.connection_made(wire)
    took: list[float] = []

    def measured(callback: Callable[..., object], *given: object) -> None:
        began_s = time.thread_time()
        callback(*given)
        took.append(time.thread_time() - began_s)

    loop = place.server.loop
    call_soon = loop.call_soon
    loop.call_soon = lambda callback, *given, **more: call_soon(  # type: ignore[method-assign]
        measured, callback, *given, **more
    )
    measured(connection.data_received, raw[:READ_BYTES])
    for _ in range(200):
        await asyncio.sleep(0)
    assert max(took) < MOST_AT_ONCE_S
    connection.connection_lost(None)
