"""HTTP/2 within bounds, spoken to by a client that means no good."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import chain, count, repeat
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes
from hypercorn.asyncio import task_group
from hypercorn.events import RawData
from hypercorn.protocol.h2 import H2Protocol
from hypothesis import given, strategies
from prometheus_client import REGISTRY

from edge import slices
from edge.asgi import ClientGone, Handler, Receive, Scope, Send, respond
from gateway.http import over_hypercorn
from gateway.http.over_hypercorn import (
    CALM_AT_ONCE,
    CALM_PER_SECOND,
    PREFACE,
    FrameCutter,
    HypercornConnection,
)
from gateway.http.server import HttpServer
from gateway.http.unsent import UnsentLimits
from gateway.server import MAX_STREAMS, hypercorn_config
from tests.abuse.connections import HEADERS, PING, SETTINGS, frame
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.edge.test_slices import Clock, Passes

MIB = 1024 * 1024
PATIENCE_S = 10.0
DATA, RESET, WINDOW_UPDATE = 0, 3, 8
Started = Callable[..., Awaitable[HttpServer]]


class Client:
    """One connection of HTTP/2, by the frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        config = H2Configuration(
            client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.h2 = H2Connection(config)
        self.events: list[Event] = []

    @classmethod
    async def open(cls, server: HttpServer, *, window: int | None = None) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port_of(server)))
        client.h2.initiate_connection()
        if window is not None:
            client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        client.flush()
        return client

    def flush(self) -> None:
        self._writer.write(self.h2.data_to_send())

    def get(self, path: bytes = b"/", method: bytes = b"GET") -> int:
        stream = self.h2.get_next_available_stream_id()
        pseudo = [(b":method", method), (b":path", path), (b":scheme", b"http")]
        self.h2.send_headers(stream, [*pseudo, (b":authority", b"x")], end_stream=True)
        self.flush()
        return stream

    async def until(self, seen: Callable[[Event], bool]) -> Event | None:
        """Reads until such an event comes; None: the connection was closed."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event in self.events:
                    if seen(event):
                        return event
                try:
                    data = await self._reader.read(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self.events += self.h2.receive_data(data)
                for event in self.events:
                    if isinstance(event, DataReceived) and event.flow_controlled_length:
                        with suppress(Exception):
                            self.h2.acknowledge_received_data(
                                event.flow_controlled_length, event.stream_id
                            )
                self.flush()

    async def ends(self, stream: int) -> Event | None:
        def of(event: Event) -> bool:
            ended = isinstance(event, StreamEnded | StreamReset)
            return ended and getattr(event, "stream_id", None) == stream

        return await self.until(of)

    def close(self) -> None:
        self._writer.transport.abort()


def port_of(server: HttpServer) -> int:
    assert server._listener is not None
    return int(server._listener.sockets[0].getsockname()[1])


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, b"hello")


@pytest.fixture
async def started() -> AsyncIterator[Started]:
    opened: list[HttpServer] = []

    async def start(app: Handler = hello, **given: Any) -> HttpServer:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        server = HttpServer(app, hypercorn_config(), **{"http2": True, **given})
        opened.append(server)
        await server.start(listener)
        return server

    yield start
    for server in opened:
        await server.close(0.5)


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)


async def test_http2_is_off_unless_asked_for(started: Started) -> None:
    server = await started(http2=False)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), PATIENCE_S)).startswith(b"HTTP/1.1 400")
    writer.close()


@pytest.mark.parametrize("own", [True, False])
async def test_each_connection_is_served_by_what_its_first_bytes_say(
    started: Started, own: bool
) -> None:
    server = await started(own=own)
    client = await Client.open(server)
    assert isinstance(await client.ends(client.get()), StreamEnded)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    for byte in b"POST / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n":
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    writer.write(b"Content-Length: 0\r\n\r\n")
    assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    writer.close()
    client.close()


async def test_answers_wait_where_the_window_is_0(started: Started) -> None:
    """A stream of messages goes no further than its buffer."""
    sent = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while sent < 64 * MIB:
            await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            sent += 65536

    server = await started(endless)
    client = await Client.open(server, window=0)
    client.get()
    await client.until(lambda event: isinstance(event, ResponseReceived))
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)
    assert sent <= MIB
    client.close()
    await eventually(lambda: not server.unsent.total_bytes)


async def test_a_connection_has_only_so_many_bytes_of_answers_unsent(started: Started) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, bytes(MIB))

    limits = UnsentLimits(4 * MIB, 64 * MIB, 64 * MIB)
    server = await started(large, unsent=limits)
    client = await Client.open(server, window=0)
    most = 0
    for _ in range(40):
        client.get()
        await asyncio.sleep(0.001)
        most = max(most, server.unsent.total_bytes)
    assert await client.until(lambda _: False) is None
    assert most <= 4 * MIB
    await eventually(lambda: not server._open_count and not server.tasks)


async def test_who_takes_nothing_is_cut_off(started: Started) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, bytes(MIB))

    server = await started(large)
    client = await Client.open(server, window=0)
    client.get()
    await eventually(lambda: server.unsent.total_bytes >= MIB)
    for connection in list(server.connections):
        connection.sweep(server.loop.time() + 29, 75.0)
    assert server._open_count == 1
    for connection in list(server.connections):
        connection.sweep(server.loop.time() + 31, 75.0)
    assert await client.until(lambda _: False) is None
    await eventually(lambda: not server._open_count and not server.tasks)
    assert not server.unsent.total_bytes


async def test_who_takes_slowly_gets_all_of_a_large_answer(started: Started) -> None:
    body = bytes(range(256)) * 4096

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, body)

    server = await started(large)
    client = await Client.open(server, window=0)
    stream = client.get()
    await client.until(lambda event: isinstance(event, ResponseReceived))
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535})
    client.flush()
    assert isinstance(await client.ends(stream), StreamEnded)
    got = b"".join(event.data for event in client.events if isinstance(event, DataReceived))
    assert got == body
    client.close()


async def test_who_gives_up_streams_without_end_is_told_to_calm_down(started: Started) -> None:
    begun = 0

    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal begun
        begun += 1
        await respond(send, 200, b"late")

    server = await started(answers)
    client = await Client.open(server)
    began_s = asyncio.get_running_loop().time()
    for _ in range(30):
        for _ in range(50):
            stream = client.get()
            client.h2.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
        await asyncio.sleep(0.01)
    took_s = asyncio.get_running_loop().time() - began_s
    assert begun <= CALM_AT_ONCE + CALM_PER_SECOND * took_s
    told = await client.until(lambda event: isinstance(event, ConnectionTerminated))
    assert told is None or getattr(told, "error_code", 0) == ErrorCodes.ENHANCE_YOUR_CALM
    await eventually(lambda: not server._open_count)


async def test_no_more_handlers_run_than_streams_may_be_open(started: Started) -> None:
    running = most = 0
    go_on = asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        await respond(send, 200, b"late")

    server = await started(waits)
    client = await Client.open(server)
    for _ in range(MAX_STREAMS):
        stream = client.get()
        await asyncio.sleep(0.001)
        client.h2.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
    await eventually(lambda: running == MAX_STREAMS)
    refused = await client.ends(client.get())
    assert isinstance(refused, StreamReset)
    assert refused.error_code == ErrorCodes.REFUSED_STREAM
    go_on.set()
    await eventually(lambda: not running)
    assert most == MAX_STREAMS
    assert isinstance(await client.ends(client.get()), StreamEnded)
    client.close()


async def test_a_handler_that_answers_nobody_is_told(started: Started) -> None:
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        try:
            await respond(send, 200, b"messages")
        except ClientGone:
            told.set_result(True)

    server = await started(late)
    client = await Client.open(server)
    stream = client.get()
    await begun.wait()
    client.h2.reset_stream(stream, ErrorCodes.CANCEL)
    client.flush()
    assert await asyncio.wait_for(told, PATIENCE_S)
    client.close()


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (b"/\xff", b"GET"),
        (b"/", b"G\xff"),
        (b"x", b"GET"),
        (b"/", b"get it"),
        (b"/", b"CONNECT"),
        (b"/a b", b"GET"),
        (b"/a#b", b"GET"),
    ],
)
async def test_what_is_no_request_is_reset_and_leaves_no_traceback(
    started: Started, caplog: pytest.LogCaptureFixture, path: bytes, method: bytes
) -> None:
    server = await started()
    client = await Client.open(server)
    assert not isinstance(await client.ends(client.get(path, method)), StreamEnded)
    client.close()
    await eventually(lambda: not server._open_count)
    assert "Traceback" not in caplog.text
    assert not caplog.records


async def test_a_body_that_goes_on_after_its_answer_ends_no_other_stream(started: Started) -> None:
    async def refuses(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 413, b"no")

    server = await started(refuses)
    client = await Client.open(server)
    stream = client.h2.get_next_available_stream_id()
    pseudo = [(b":method", b"POST"), (b":path", b"/"), (b":scheme", b"http")]
    client.h2.send_headers(stream, [*pseudo, (b":authority", b"x")])
    client.flush()
    await client.ends(stream)
    client._writer.write(b"\x00\x00\x01\x00\x00" + stream.to_bytes(4, "big") + b"x")
    assert isinstance(await client.ends(client.get()), StreamEnded)
    client.close()


@pytest.mark.parametrize(
    "first",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"GET / HT",
    ],
)
@pytest.mark.parametrize("own", [True, False])
async def test_a_closed_connection_is_not_counted(
    started: Started, first: bytes, own: bool
) -> None:
    server = await started(own=own)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(first)
    if not first.endswith(b"HT"):
        await reader.read(10)
    assert server._open_count == 1
    writer.close()
    await eventually(lambda: not server._open_count)
    await eventually(lambda: not server.tasks)


async def test_a_handler_that_a_stop_cuts_off_is_no_failure_of_its_connection(
    started: Started,
) -> None:
    begun = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    def failures() -> float | None:
        name = "packetboat_gateway_connections_refused_total"
        return REGISTRY.get_sample_value(name, {"why": "failed"})

    before = failures()
    server = await started(endless)
    client = await Client.open(server)
    client.get()
    await begun.wait()
    await asyncio.wait_for(server.close(0.0), PATIENCE_S)
    assert not server.tasks
    assert failures() == before
    client.close()


async def test_the_handlers_of_a_connection_that_ends_end_in_passes_of_their_own(
    started: Started,
) -> None:
    """A pass of the event loop in which 500 handlers ended took 30 ms."""
    begun = 0
    ended: Counter[int] = Counter()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal begun
        begun += 1
        while (await receive())["type"] != "http.disconnect":
            pass
        ended[passes.number] += 1

    server = await started(wait)
    client = await Client.open(server)
    for _ in range(MAX_STREAMS):
        client.get()
    await eventually(lambda: begun == MAX_STREAMS)
    passes = Passes()
    client.close()
    await eventually(lambda: not server.tasks)
    passes.end()
    assert ended.total() == MAX_STREAMS
    assert max(ended.values()) <= 2


async def test_a_stop_does_not_wait_for_a_handler_that_it_cuts_off_within_its_answer(
    started: Started,
) -> None:
    """The server hung: Hypercorn answers 500 in its place, and nobody sends that any more."""
    begun = asyncio.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await respond(send, 200, b"cut off")

    server = await started(answer)
    client = await Client.open(server)
    (connection,) = await connections_of(server)
    async with connection.send_lock:
        client.get()
        await begun.wait()
        await asyncio.sleep(0.05)
        (serving,) = (task for task in server.tasks if is_of(task, HypercornConnection.run))
        serving.cancel()
        await asyncio.sleep(0.05)
    done, _ = await asyncio.wait({serving}, timeout=PATIENCE_S)
    for task in asyncio.all_tasks():
        if is_of(task, task_group._handle):
            task.cancel()  # Else the fixture would wait for it, too.
    assert done
    client.close()


async def connections_of(server: HttpServer) -> list[HypercornConnection]:
    """Return the connections of HTTP/2 once there is one."""
    found: list[HypercornConnection] = []

    def look() -> bool:
        found[:] = [each for each in server.connections if isinstance(each, HypercornConnection)]
        return bool(found)

    await eventually(look)
    return found


def is_of(task: asyncio.Task[Any], function: Callable[..., Any]) -> bool:
    return getattr(task.get_coro(), "cr_code", None) is function.__code__


async def test_no_idle_time_begins_once_a_connection_is_over(started: Started) -> None:
    """A handler that ended as its connection did began one, and kept the connection for 75 s."""
    server = await started()
    connection = HypercornConnection(server, Mock(), Mock(), http2=True)
    connection._read = True
    async with asyncio.timeout(PATIENCE_S):
        await connection._idle_timeout()


SHORT_HEAD = b"\x82\x84\x86\x01\x01a"
"""GET / of `a`, as HPACK has it."""
POST_HEAD = b"\x83" + SHORT_HEAD[1:]
NO_WINDOW = bytes((0, 4, 0, 0, 0, 0))
BLOCKED = frame(SETTINGS, 0, NO_WINDOW) + b"".join(
    frame(HEADERS, 1 + 2 * n, SHORT_HEAD, flags=5) for n in range(MAX_STREAMS)
)
"""Streams whose answers wait for a window."""
READ_BYTES = 64 * 1024
HOSTILE = {
    "requests": (b"", (frame(HEADERS, 1 + 2 * n, SHORT_HEAD, flags=5) for n in count())),
    "fields": (
        b"",
        (frame(HEADERS, 1 + 2 * n, SHORT_HEAD + b"\x8f" * 1390, flags=5) for n in count()),
    ),
    "resets": (
        b"",
        (
            frame(HEADERS, 1 + 2 * n, SHORT_HEAD, flags=5) + frame(RESET, 1 + 2 * n, bytes(4))
            for n in count()
        ),
    ),
    "windows of a connection": (BLOCKED, repeat(frame(WINDOW_UPDATE, 0, bytes((0, 0, 0, 1))))),
    "windows of streams": (
        BLOCKED,
        (frame(WINDOW_UPDATE, 1 + 2 * (n % MAX_STREAMS), bytes((0, 0, 0, 1))) for n in count()),
    ),
    "settings": (BLOCKED, repeat(frame(SETTINGS, 0, NO_WINDOW))),
    "pings": (b"", repeat(frame(PING, 0, bytes(8)))),
    "empty parts of a body": (frame(HEADERS, 1, POST_HEAD, flags=4), repeat(frame(DATA, 1))),
    "parts of a body that was answered": (
        frame(HEADERS, 1, SHORT_HEAD, flags=5),
        repeat(frame(DATA, 1, b"a")),
    ),
    "frames of an unknown kind": (b"", repeat(frame(0x77, 1))),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
async def test_what_is_read_at_once_takes_the_loop_for_a_moment(
    started: Started, kind: str
) -> None:
    """By the processor time of the thread, in whichever callback it is."""
    first, rest = HOSTILE[kind]
    flood = b""
    while len(flood) < READ_BYTES:
        flood += next(rest)
    server = await started()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(PREFACE + frame(SETTINGS, 0) + first)
    await reader.read(1)
    async with measured() as callbacks:
        writer.write(flood)
        writer.write_eof()
        with suppress(ConnectionError):
            while await reader.read(READ_BYTES):
                pass
        await eventually(lambda: not server.tasks)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    writer.close()


LENGTHS = strategies.lists(strategies.integers(0, 40) | strategies.integers(200, 600), max_size=30)
READS = strategies.lists(
    strategies.integers(1, 60) | strategies.integers(200, 5_000), min_size=1, max_size=30
)


@given(LENGTHS, READS)
def test_input_is_cut_where_frames_end(lengths: list[int], reads: list[int]) -> None:
    """The network may cut it anywhere."""
    whole, ends = PREFACE, [len(PREFACE)]
    for length in lengths:
        whole += frame(DATA, 1, bytes(length))
        ends.append(len(whole))
    cutter, at = FrameCutter(), 0
    for size in chain(reads, repeat(max(reads))):
        if at >= len(whole):
            break
        pieces = list(cutter.cut(whole[at : at + size]))
        assert b"".join(pieces) == whole[at : at + size]
        for number, piece in enumerate(pieces, 1):
            begin, at = at, at + len(piece)
            within = [end for end in ends if begin < end <= at]
            assert len(within) <= 4, "a piece has a few frames"
            assert all(end < begin + 256 for end in within[:-1]), "or few bytes"
            if number < len(pieces):
                assert within[-1] == at, "and ends with one"
                assert len(within) == 4 or len(piece) >= 256, "and has no fewer"


def test_a_large_frame_is_not_cut() -> None:
    cutter, large, ping = FrameCutter(), frame(DATA, 1, bytes(16_384)), frame(PING, 0, bytes(8))
    first, second = PREFACE + frame(SETTINGS, 0) + large, large
    assert list(cutter.cut(first + second + ping)) == [first, second, ping]


async def test_h2_is_given_a_few_frames_at_once(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces had 1 KiB: one with a hundred requests and resets took 3 to 5 ms."""
    original, pieces = H2Protocol.handle, list[int]()

    async def handle(self: H2Protocol, event: Any) -> None:
        if isinstance(event, RawData):
            pieces.append(len(event.data))
        await original(self, event)

    monkeypatch.setattr(H2Protocol, "handle", handle)
    server = await started()
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    ping = frame(PING, 0, bytes(8))
    flood = PREFACE + frame(SETTINGS, 0) + ping * 100
    writer.write(flood)
    await eventually(lambda: sum(pieces) == len(flood))
    assert max(pieces[1:]) == 4 * len(ping)
    writer.close()


async def test_what_came_from_a_connection_that_is_lost_is_not_read(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning was logged for each answer to it."""
    original, pieces = H2Protocol.handle, list[bytes]()
    server = await started()
    client = await Client.open(server)
    (connection,) = await connections_of(server)

    async def handle(self: H2Protocol, event: Any) -> None:
        if isinstance(event, RawData):
            pieces.append(event.data)
            connection.abort()
        await original(self, event)

    await asyncio.sleep(0.05)
    monkeypatch.setattr(H2Protocol, "handle", handle)
    client._writer.write(frame(PING, 0, bytes(8)) * 100)
    await eventually(lambda: not server.tasks)
    assert len(pieces) == 1
    client.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stand in for the processor time of the thread: only the test adds to it."""
    clock = Clock()
    monkeypatch.setattr(slices, "time", SimpleNamespace(thread_time=clock.thread_time))
    return clock


class LongPieces:
    """Counts long pieces of work in each pass of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._passes = Passes()
        self._seen = Counter[int]()

    def work(self) -> None:
        """Take twice the time that all connections have of a pass."""
        self._seen[self._passes.number] += 1
        self._clock.now_s += 2 * over_hypercorn._PASS_S

    async def most_of(self, count: int) -> int:
        """Wait until there were `count` pieces; return the most in one pass."""
        await eventually(lambda: self._seen.total() == count)
        self._passes.end()
        return max(self._seen.values())


async def test_all_connections_share_the_part_of_a_pass_that_their_input_takes(
    started: Started, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection had 5 ms of each pass: with twenty of them, others waited for 100 ms."""
    heads, create = LongPieces(clock), over_hypercorn.BoundedH2._create_stream

    async def long(self: over_hypercorn.BoundedH2, request: Any) -> None:
        heads.work()
        await create(self, request)

    monkeypatch.setattr(over_hypercorn.BoundedH2, "_create_stream", long)
    server = await started()
    clients = [await Client.open(server) for _ in range(20)]
    await asyncio.sleep(0.1)
    for client in clients:
        client.get()
    assert await heads.most_of(len(clients)) <= 2
    for client in clients:
        client.close()


async def test_handlers_begin_in_the_part_of_a_pass_that_connections_share(
    started: Started, clock: Clock
) -> None:
    """The handlers of all streams that one pass had opened ran in the next one."""
    handlers = LongPieces(clock)

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        handlers.work()
        await respond(send, 200, b"")

    client = await Client.open(await started(long))
    for _ in range(MAX_STREAMS):
        client.get()
    assert await handlers.most_of(MAX_STREAMS) <= 2
    client.close()


async def test_answers_are_sent_in_the_part_of_a_pass_that_connections_share(
    started: Started, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One callback sent the answers of a hundred streams."""
    parts, pop = LongPieces(clock), over_hypercorn.BoundedBuffer.pop

    async def long(self: over_hypercorn.BoundedBuffer, max_length: int) -> bytes:
        if self.buffer and max_length:
            parts.work()
        return await pop(self, max_length)

    monkeypatch.setattr(over_hypercorn.BoundedBuffer, "pop", long)
    server = await started()
    client = await Client.open(server, window=0)
    (connection,) = await connections_of(server)
    for _ in range(MAX_STREAMS):
        client.get()
    await eventually(lambda: connection.buffered_bytes == MAX_STREAMS * len(b"hello"))
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
    client.flush()
    assert await parts.most_of(MAX_STREAMS) <= 2
    client.close()


async def test_one_client_that_asks_for_a_little_waits_for_no_pass(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings_s = count(0.0, over_hypercorn._PASS_S / 20)
    monkeypatch.setattr(slices, "time", SimpleNamespace(thread_time=lambda: next(readings_s)))
    turn, began = slices.PassBudget.turn, Counter[bool]()

    async def noted(self: slices.PassBudget) -> None:
        before = passes.number
        await turn(self)
        began[passes.number == before] += 1

    client = await Client.open(await started())
    await asyncio.sleep(0.05)
    monkeypatch.setattr(slices.PassBudget, "turn", noted)
    passes = Passes()
    for _ in range(30):
        assert isinstance(await client.ends(client.get()), StreamEnded)
    passes.end()
    assert began[True] >= 3 * 30, "input, a handler and an answer of each"
    assert not began[False]
    client.close()
