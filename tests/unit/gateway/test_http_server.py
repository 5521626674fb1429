from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest

from edge.asgi import WAITED, ClientGone, Receive, Scope, Send, respond
from edge.departure import departure
from gateway.admission.request_admission import PreparedResponse
from gateway.http import connection as connections
from gateway.http.connection import Connection
from gateway.http.dispatch import TurnedAway
from gateway.http.request import Malformed, parse_head
from gateway.http.round_robin import TakeTurn
from gateway.http.server import HttpServer
from gateway.server import hypercorn_config

HOST = b"Host: test\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what it saw; some paths do special things."""
    path = scope["path"]
    if path == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        application.gone += 1  # type: ignore[attr-defined]
        return
    if path == "/wait-for-departure":
        await receive()
        await departure(scope, receive)
        application.gone += 1  # type: ignore[attr-defined]
        return
    if path == "/defect":
        raise RuntimeError("a defect")
    if path == "/half":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("a defect")
    if path == "/inject":
        headers = [(b"x", b"a\r\nSet-Cookie: b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})
        return
    if path == "/unread":
        await respond(send, 413, b"no")
        return
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    if path == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
        return
    if path == "/empty":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})
        return
    seen = f"{scope['method']} {path} {scope['query_string'].decode()} {len(body)}|"
    await respond(send, 200, seen.encode() + body[:64])


async def test_hypercorn_alone_serves_when_it_is_asked_to() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    served = HttpServer(application, hypercorn_config(), own=False)
    await served.start(listener)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"POST /here HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert not any(isinstance(each, Connection) for each in served.connections)
    writer.close()
    await served.close(0.5)


@pytest.fixture
async def server() -> AsyncIterator[tuple[HttpServer, int]]:
    application.gone = 0  # type: ignore[attr-defined]
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    served = HttpServer(application, hypercorn_config())
    await served.start(listener)
    yield served, listener.getsockname()[1]
    await served.close(0.5)


Exchange = Callable[..., Awaitable[bytes]]
Server = tuple[HttpServer, int]


@pytest.fixture
def exchange(server: tuple[HttpServer, int]) -> Exchange:
    """Sends the parts one by one and reads until the server closes (or a moment of silence)."""

    async def run(*parts: bytes, until_close: bool = True, quiet_s: float = 0.3) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server[1])
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        received = b""
        try:
            while data := await asyncio.wait_for(reader.read(65536), 5 if until_close else quiet_s):
                received += data
        except TimeoutError:
            assert not until_close, received
        writer.close()
        return received

    return run


CLOSE = b"Connection: close\r\n"


CHUNKED = (
    b"POST /chunked HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
)


async def test_a_request_and_its_answer(exchange: Exchange) -> None:
    raw = b"POST /a%20b?x=1 HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: 5\r\n\r\nhello"
    answer = await exchange(raw)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ndate: " in head
    assert b"\r\nconnection: close" in head
    assert body == b"POST /a b x=1 5|hello"


@pytest.mark.parametrize("size", [1, 7, 40, 100_000])
async def test_however_it_is_cut(exchange: Exchange, size: int) -> None:
    body = bytes(range(256)) * 4
    raw = b"POST /x HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: 1024\r\n\r\n" + body
    parts = [raw[at : at + size] for at in range(0, len(raw), size)]
    if len(parts) > 200:
        parts = [*parts[:150], raw[150:]]
    answer = await exchange(*parts)
    assert answer.endswith(b"POST /x  1024|" + body[:64])


async def test_what_an_application_does_to_headers_is_not_in_the_next_request(
    server: Server,
) -> None:
    """The head of the next request is the same, byte by byte."""
    counts: list[int] = []

    async def adds(scope: Scope, receive: Receive, send: Send) -> None:
        counts.append(len(scope["headers"]))
        scope["headers"].append((b"x-seen", b"yes"))
        await respond(send, 200, b"|")

    server[0].app = adds
    reader, writer = await asyncio.open_connection("127.0.0.1", server[1])
    for _ in range(3):
        writer.write(b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n")
        await reader.readuntil(b"|")
    assert counts == [1, 1, 1]
    writer.close()


async def test_keep_alive_and_pipelining(exchange: Exchange) -> None:
    one = b"POST /%d HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nhi"
    answers = await exchange(one % 1 + one % 2, one % 3, until_close=False)
    assert [answers.count(b"POST /%d  2|hi" % number) for number in (1, 2, 3)] == [1, 1, 1]
    assert answers.index(b"/1 ") < answers.index(b"/2 ") < answers.index(b"/3 ")


async def test_a_large_body_streams_through(exchange: Exchange) -> None:
    body = b"z" * 3_000_000
    raw = b"POST /x HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: %d\r\n\r\n" % len(body)
    assert b"POST /x  3000000|" in await exchange(raw, body)


async def test_streams_heads_and_bodyless_statuses(exchange: Exchange) -> None:
    chunked = await exchange(b"GET /stream HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert b"transfer-encoding: chunked" in chunked
    assert chunked.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    head = await exchange(b"HEAD /x HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert b"content-length: 9" in head or b"content-length" in head
    empty = await exchange(b"GET /empty HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert empty.startswith(b"HTTP/1.1 204")
    assert empty.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in empty


@pytest.mark.parametrize("path", [b"/wait", b"/wait-for-departure"])
async def test_a_client_that_leaves_is_noticed(server: tuple[HttpServer, int], path: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server[1])
    writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()
    for _ in range(100):
        if application.gone:  # type: ignore[attr-defined]
            break
        await asyncio.sleep(0.01)
    assert application.gone == 1  # type: ignore[attr-defined]


async def test_an_answer_to_nobody_is_refused(
    server: tuple[HttpServer, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what was leased for it goes to somebody else at once."""
    refused: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        try:
            await respond(send, 200, b"messages")
        except ClientGone:
            refused.set_result(True)
            raise

    monkeypatch.setattr(server[0], "app", late)
    _, writer = await asyncio.open_connection("127.0.0.1", server[1])
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    await asyncio.sleep(0.05)
    writer.close()
    assert await asyncio.wait_for(refused, 5)


async def test_a_defect_is_a_500_and_half_an_answer_breaks_off(exchange: Exchange) -> None:
    answer = await exchange(b"GET /defect HTTP/1.1\r\n" + HOST + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    try:
        half = await exchange(b"GET /half HTTP/1.1\r\n" + HOST + b"\r\n")
    except ConnectionResetError:
        half = b""
    assert not half.endswith(b"0\r\n\r\n")


async def test_no_header_can_be_injected(exchange: Exchange) -> None:
    answer = await exchange(b"GET /inject HTTP/1.1\r\n" + HOST + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"Set-Cookie" not in answer


async def test_an_unread_body_ends_the_connection_after_the_answer(exchange: Exchange) -> None:
    raw = b"POST /unread HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n"
    answer = await exchange(raw + b"GET /smuggled HTTP/1.1\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"smuggled" not in answer


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /x HTTP/1.0\r\n\r\n",
        b"GET http://test/x HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n",
        b"GET /x HTTP/1.1\r\n" + HOST + b"Connection: te, Close\r\n\r\n",
        b"POST /x HTTP/1.1\r\n" + HOST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /x HTTP/1.1\r\n" + HOST + CLOSE + b"Upgrade: h2c\r\n\r\n",
        b"POST /x HTTP/1.1\r\n"
        + HOST
        + CLOSE
        + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    ],
)
async def test_all_of_http_1_is_served(exchange: Exchange, raw: bytes) -> None:
    answer = await exchange(raw)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b" /x  " in answer


async def test_an_answer_without_length_to_http_1_0_ends_with_its_connection(
    exchange: Exchange,
) -> None:
    answer = await exchange(b"GET /stream HTTP/1.0\r\n\r\n")
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"\r\n\r\nonetwo")


async def test_who_expects_to_be_asked_for_the_body_is_asked(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server[1])
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    for _ in range(2):
        writer.write(head)
        asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert asked == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert await asyncio.wait_for(reader.readuntil(b"|ab"), 5)
    writer.close()


async def test_who_is_answered_without_the_body_is_not_asked_for_it(exchange: Exchange) -> None:
    head = (
        b"POST /unread HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    )
    answer = await exchange(head)
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_body_in_chunks_that_breaks_off_midway_reaches_no_answer(
    server: Server,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server[1])
    writer.write(b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
    await asyncio.sleep(0.05)
    writer.write(b"z\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"|" not in answer
    writer.close()


@pytest.mark.parametrize(
    "endless", [b"1;" + b"a" * 400_000, b"1\r\na\r\n0\r\n" + b"A: b\r\n" * 60_000]
)
async def test_what_frames_a_body_is_bounded(exchange: Exchange, endless: bytes) -> None:
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    with suppress(ConnectionError):
        answer = await exchange(
            head, *[endless[at : at + 40_000] for at in range(0, 400_000, 40_000)]
        )
        assert answer.startswith(b"HTTP/1.1 400")


async def test_a_length_beside_a_coding_ends_the_connection(exchange: Exchange) -> None:
    raw = (
        b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = await exchange(
        raw + b"1\r\na\r\n0\r\n\r\n" + b"GET /behind HTTP/1.1\r\n" + HOST + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"\r\nconnection: close" in answer
    assert b"behind" not in answer


async def test_pipelined_requests_run_once_though_more_comes_all_the_while(server: Server) -> None:
    """The second one is in chunks, and the third comes byte by byte as the first is answered."""
    served, port = server
    paths: list[str] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await asyncio.sleep(0.002)
        await application(scope, receive, send)

    served.app = noting
    for number in range(20):
        paths.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /plain HTTP/1.1\r\n" + HOST + b"\r\n" + CHUNKED)
        for byte in b"GET /after HTTP/1.1\r\n" + HOST + CLOSE + b"X: " + b"a" * (50 + number):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(b"\r\n\r\n")
        answers = await asyncio.wait_for(reader.read(), 5)
        assert paths == ["/plain", "/chunked", "/after"]
        assert answers.count(b"HTTP/1.1 200") == 3
        writer.close()


@pytest.mark.parametrize("first", [CHUNKED, b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n"])
async def test_a_connection_that_its_client_closed_is_not_counted(
    server: Server, first: bytes
) -> None:
    served, port = server
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    await reader.readuntil(b"|")
    writer.close()
    async with asyncio.timeout(5):
        while served._open_count:
            await asyncio.sleep(0.01)


async def test_who_takes_no_answer_is_cut_off(server: Server) -> None:
    """The answer waits as a whole, waits behind others, or goes on."""
    served, port = server
    large = bytes(8 * 1024 * 1024)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/whole":
            await respond(send, 200, large)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})

    served.app = answer

    def sizes() -> list[int]:
        connections = [each for each in served.connections if isinstance(each, Connection)]
        return [each.transport.get_write_buffer_size() for each in connections]

    peers = []
    for path in (b"/whole", b"/stream"):
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", port))
        peer.send(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        peers.append(peer)
    async with asyncio.timeout(5):
        while len(served.connections) < 2 or not all(sizes()):
            await asyncio.sleep(0.01)
    for ahead_s, left in ((1, 2), (29, 2), (70, 0)):
        for connection in list(served.connections):
            connection.sweep(served.loop.time() + ahead_s, 75.0)
        await asyncio.sleep(0.05)
        assert served._open_count == left
    assert not served.unsent.total_bytes
    for peer in peers:
        peer.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na",
        b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\na",
        b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length : 1\r\n\r\na",
        b"GET /x HTTP/1.1\r\n" + HOST + b"A\x00b: c\r\n\r\n",
        b"GET /x HTTP/1.1\r\n" + HOST + b"a: b\x00c\r\n\r\n",
        b"GET /x HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
        b"GET  /x HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /x\x7f HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\x16\x03\x01\x00\xff\x01\x00",
        b"GET /x HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_the_malformed_reaches_no_handler(exchange: Exchange, raw: bytes) -> None:
    try:
        answer = await exchange(raw, until_close=False)
    except ConnectionResetError:
        answer = b""
    assert b" 200 " not in answer
    assert b"|" not in answer


@pytest.mark.parametrize(
    "line",
    [
        b"transfer-encoding : identity",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 1",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        b"Content-Length: 1\r\nContent-Length: 1",
        b"Content-Length: 1,1",
        b"Content-Length: 0x1",
        b"Content-Length: 1_0",
        b"Content-Length: ",
        b"Content-Length: 1\xb2",
        b"Host: h",
        b" folded: x",
        b"a: b\n c: d",
        b"a: b\rc: d",
        b"no colon",
        b": empty",
    ],
)
def test_heads_that_are_malformed(line: bytes) -> None:
    plain = b"POST /x HTTP/1.1\r\nHost: h"
    assert parse_head(plain).path == b"/x"
    with pytest.raises(Malformed):
        parse_head(plain + b"\r\n" + line)


@pytest.mark.parametrize(
    "line",
    [
        b"GET  /x HTTP/1.1",
        b"GET /x",
        b"GET /x HTTP/1.2",
        b"GET /x HTTP/2.0",
        b"GET /x RTSP/1.0",
        b"get /x HTTP/1.1",
        b"GET x HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET /x#y HTTP/1.1",
        b"GET http://h?x HTTP/1.1",
        b"GET ftp://h/x HTTP/1.1",
        b"CONNECT h:1 HTTP/1.1",
        b"GET /\xff HTTP/1.1",
    ],
)
def test_first_lines_that_are_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        parse_head(line + b"\r\nHost: h")


def test_heads_of_their_own_kind() -> None:
    old = parse_head(b"GET /x HTTP/1.0\r\nA: b")
    assert (old.version, old.close) == ("1.0", True)
    far = parse_head(b"GET HTTP://h/a?b HTTP/1.1\r\nHost: h")
    assert (far.path, far.query) == (b"/a", b"b")
    assert parse_head(b"OPTIONS * HTTP/1.1\r\nHost: h").path == b"*"
    chunked = parse_head(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked")
    assert (chunked.chunked, chunked.content_length) == (True, 0)
    asking = parse_head(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nUpgrade: h2c")
    assert asking.expects


def test_a_plain_head() -> None:
    head = parse_head(
        b"GET /a?b=?c HTTP/1.1\r\nhost: h\r\nX-A:  v w\t\r\nEmpty:\r\nU: \xc3\xa9\r\n"
        b"Connection: Close\r\nContent-Length: 7"
    )
    assert (head.method, head.path, head.query) == ("GET", b"/a", b"b=?c")
    assert (b"x-a", b"v w") in head.headers
    assert (b"empty", b"") in head.headers
    assert (b"u", b"\xc3\xa9") in head.headers
    assert (head.close, head.content_length) == (True, 7)


async def test_idle_and_slow_connections_are_swept(
    server: tuple[HttpServer, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.0)
    served, port = server
    slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
    slow_writer.write(b"GET /x HT")
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.05)
    for connection in list(served.connections):
        connection.sweep(served.loop.time(), 75.0)
    assert await asyncio.wait_for(slow.read(), 2) == b""
    for connection in list(served.connections):
        connection.sweep(served.loop.time() + 76, 75.0)
    assert await asyncio.wait_for(idle.read(), 2) == b""
    slow_writer.close()
    idle_writer.close()


async def test_who_leaves_answers_what_still_comes_and_ends_each_connection(
    server: tuple[HttpServer, int],
) -> None:
    served, port = server
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not served.connections:
        await asyncio.sleep(0.01)
    leaving = asyncio.ensure_future(served.leave(60.0))
    late, late_writer = await asyncio.open_connection("127.0.0.1", port)
    for ends, way in ((reader, writer), (late, late_writer)):
        assert not leaving.done()
        way.write(b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n")
        answer = await asyncio.wait_for(ends.read(), 10)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        way.close()
    await asyncio.wait_for(leaving, 10)


async def test_nobody_is_waited_for_who_stays(server: tuple[HttpServer, int]) -> None:
    served, port = server
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not served.connections:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(served.leave(0.05), 10)
    assert served.connections
    await served.close(0.0)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_close_lets_running_requests_end() -> None:
    released = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await released.wait()
        await respond(send, 200, b"done")

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    served = HttpServer(slow, hypercorn_config())
    await served.start(listener)
    port = listener.getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    fresh, fresh_writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /slow HTTP/1.1\r\n" + HOST + b"\r\n")
    idle_writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert (await asyncio.wait_for(idle.readuntil(b"done"), 10)).startswith(b"HTTP/1.1 200")
    closing = asyncio.ensure_future(served.close(60.0))
    assert await asyncio.wait_for(idle.read(), 10) == b""
    fresh_writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert (await asyncio.wait_for(fresh.read(), 10)).endswith(b"done")
    fresh_writer.close()
    released.set()
    answer = await asyncio.wait_for(reader.read(), 2)
    assert b"connection: close" in answer
    assert answer.endswith(b"done")
    await closing
    writer.close()
    idle_writer.close()


async def test_a_reader_that_does_not_read_stops_the_writer(
    server: tuple[HttpServer, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent.append(1)
            await asyncio.sleep(0)

    monkeypatch.setattr(server[0], "app", endless)
    _, writer = await asyncio.open_connection("127.0.0.1", server[1], limit=1024)
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    await asyncio.sleep(0.5)
    before = len(sent)
    await asyncio.sleep(0.3)
    assert len(sent) == before
    assert before < 500
    writer.transport.abort()


async def test_who_reads_no_answers_is_not_read_either(server: tuple[HttpServer, int]) -> None:
    peer = socket.create_connection(("127.0.0.1", server[1]))
    peer.setblocking(False)
    one = b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    whole = one * 100
    sent = quiet = 0
    while quiet < 20 and sent < 64 * 1024 * 1024:
        try:
            sent += peer.send(whole[sent % len(whole) :])
            quiet = 0
        except BlockingIOError:
            quiet += 1
            await asyncio.sleep(0.02)
    assert sent < 32 * 1024 * 1024
    peer.settimeout(20)
    loop = asyncio.get_running_loop()
    answered = 0
    while answered < sent // len(one) - 1:  # one may be seen in two halves
        answered += (await loop.run_in_executor(None, peer.recv, 1 << 20)).count(b"HTTP/1.1 200")
    peer.close()


REFUSAL = PreparedResponse(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n", b"no", 1.0)


def turning_away(served: HttpServer, own: bool) -> list[bytes]:
    """From now on all are, whose heads are told."""
    seen: list[bytes] = []

    def turn_away(raw: bytes, _: int) -> TurnedAway:
        seen.append(raw)
        return TurnedAway(REFUSAL, b"1", b"t", 0, False, own)

    served.turn_away = turn_away
    return seen


@pytest.mark.parametrize("own", [True, False])
async def test_who_does_not_heed_a_retry_after_is_not_read_until_then(
    server: tuple[HttpServer, int], own: bool
) -> None:
    served, port = server
    seen = turning_away(served, own)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
    began_s = asyncio.get_running_loop().time()
    writer.write(2 * request)
    await reader.readuntil(b"no")
    writer.write(request)
    await asyncio.sleep(0.05)
    assert len(seen) == (1 if own else 3)
    await asyncio.wait_for(reader.readuntil(b"no"), 5)
    await asyncio.wait_for(reader.readuntil(b"no"), 5)
    assert (asyncio.get_running_loop().time() - began_s > 1.0) == own
    writer.close()


async def test_who_waits_as_told_is_served_at_once(
    server: tuple[HttpServer, int],
) -> None:
    served, port = server
    turning_away(served, True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
    writer.write(request)
    await reader.readuntil(b"no")
    served.turn_away = lambda _, __: None
    await asyncio.sleep(1.2)
    assert not served._held
    writer.write(request)
    assert await asyncio.wait_for(reader.readuntil(b"|"), 5)
    writer.close()


async def test_a_held_connection_that_ends_leaves_nothing(
    server: tuple[HttpServer, int],
) -> None:
    served, port = server
    turning_away(served, True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
    await reader.readuntil(b"no")
    writer.close()
    async with asyncio.timeout(5):
        while served.connections or served._held:
            await asyncio.sleep(0.02)


async def test_a_wait_of_a_request_that_was_refused_is_not_the_next_one_s(
    server: tuple[HttpServer, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, port = server
    waited: list[float] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        waited.append(scope[WAITED])
        await application(scope, receive, send)

    served.app = noting
    turning_away(served, False)

    def later(take_turn: TakeTurn, _: bytes) -> bool:
        served.loop.call_later(0.05, take_turn)
        return False

    monkeypatch.setattr(served.turns, "admits", later)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
    writer.write(request)
    await reader.readuntil(b"no")
    served.turn_away = lambda _, __: None
    monkeypatch.setattr(served.turns, "admits", lambda _, __: True)
    writer.write(request)
    await reader.readuntil(b"|")
    monkeypatch.setattr(served.turns, "admits", later)
    writer.write(request)
    await reader.readuntil(b"|")
    assert waited[0] == 0.0
    assert waited[1] >= 0.04
    writer.close()
