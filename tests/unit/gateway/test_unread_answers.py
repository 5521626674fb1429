"""Answers that a client does not read end its connection, also where the kernel has them all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from edge.asgi import Receive, Scope, Send, respond
from gateway.http.connection import CLOSED, Connection
from gateway.http.server import KERNEL_UNSENT_BYTES, HttpServer
from gateway.http.unsent import UnsentLimits
from gateway.server import hypercorn_config
from tests.unit.gateway.test_http_cuts import Wire

ANSWER = bytes(200_000)
LARGE_ANSWER = bytes(4_000_000)
GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
CLIENTS = 20
TIMEOUT_S = 1.0


async def application(scope: Scope, __: Receive, send: Send) -> None:
    await respond(send, 200, LARGE_ANSWER if scope["path"] == "/large" else ANSWER)


@pytest.fixture(params=[True, False], ids=["own", "hypercorn"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[tuple[HttpServer, int]]:
    """Yield a server with a short send timeout, and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    limits = UnsentLimits(timeout_s=TIMEOUT_S)
    served = HttpServer(application, hypercorn_config(), own=request.param, unsent=limits)
    await served.start(listener)
    yield served, listener.getsockname()[1]
    await served.close(0.5)


def stalled() -> float:
    return CLOSED.labels("stalled")._value.get()


async def connected(port: int, buffer_bytes: int, request: bytes = GET) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, request)
    return client


async def test_a_client_that_reads_nothing_is_not_counted_for_longer_than_the_timeout(
    server: tuple[HttpServer, int],
) -> None:
    """60 such connections once counted for 94 s under a timeout of 30 s: the kernel had their
    answers, so the server took them for idle ones."""
    served, port = server
    before = stalled()
    clients = [await connected(port, 4096) for _ in range(CLIENTS)]
    try:
        async with asyncio.timeout(5):
            while len(served.connections) < CLIENTS:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(10 * TIMEOUT_S):
            while served.connections:
                await asyncio.sleep(0.05)
        assert not served._open
        assert stalled() - before >= CLIENTS or not served.own_http1
    finally:
        for client in clients:
            client.close()


async def test_a_client_that_reads_slowly_is_answered_whole(
    server: tuple[HttpServer, int],
) -> None:
    """The client takes longer than the timeout for all of it, but takes some of it all the time."""
    client = await connected(server[1], 65_536)
    loop, received = asyncio.get_running_loop(), 0
    with client:
        async with asyncio.timeout(20):
            while received < len(ANSWER):
                data = await loop.sock_recv(client, 20_000)
                assert data, f"cut off after {received} bytes"
                received += len(data)
                await asyncio.sleep(TIMEOUT_S / 4)


async def test_the_kernel_takes_little_of_an_answer_that_is_not_read() -> None:
    """The kernel once took 2.5 MB for each connection: 60 of them made others wait for 19 ms."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    served = HttpServer(application, hypercorn_config(), unsent=UnsentLimits(timeout_s=TIMEOUT_S))
    await served.start(listener)
    with await connected(listener.getsockname()[1], 4096, GET.replace(b" / ", b" /large ")):
        async with asyncio.timeout(5):
            while not [one for one in served.connections if one.given_bytes]:
                await asyncio.sleep(0.01)
        (connection,) = served.connections
        ours_bytes = connection.transport.get_write_buffer_size()
        assert len(LARGE_ANSWER) - ours_bytes < 2 * KERNEL_UNSENT_BYTES
    await served.close(0.5)


async def test_a_large_answer_is_written_without_a_copy() -> None:
    class Transport(Wire):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            given.append(data)

    given: list[bytes | bytearray | memoryview] = []
    connection = Connection(HttpServer(application, hypercorn_config()))
    connection.connection_made(Transport())
    connection.data_received(GET.replace(b" / ", b" /large "))
    async with asyncio.timeout(5):
        while len(given) < 2:
            await asyncio.sleep(0)
    assert bytes(given[0]).endswith(b"\r\n\r\n")
    assert given[1] is LARGE_ANSWER
