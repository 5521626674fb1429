"""The client of `make abuse`: whatever a server does, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.abuse.client import CUT, NO_ANSWER, send_all


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[tuple[str, int]]:
    """Answers each head with that; None: not at all."""
    ends = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if answer is None:
                    await ends.wait()
                writer.write(answer or b"")
                if not answer or b"close" in answer:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = listening.sockets[0].getsockname()
        yield host, port
    finally:
        ends.set()
        listening.close()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200),
        (b"HTTP/1.1 431 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 431),
        (b"nothing of the kind\r\n\r\n", CUT),
        (b"", CUT),
        (None, NO_ANSWER),
    ],
)
async def test_each_request_has_one_outcome(answer: bytes | None, status: int) -> None:
    requests = [b"GET / HTTP/1.1\r\n\r\n"] * 5
    slow: dict[int, float] = {}
    async with server(answer) as address:
        within_s = 0.05 if answer is None else 10.0
        statuses = await send_all(address, requests, connections=2, within_s=within_s, slow=slow)
    assert statuses == {status: 5}
    assert sorted(slow) == [0, 1, 2, 3, 4]


async def test_no_more_begin_in_a_second_than_are_asked_for() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with server(answer) as address:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        requests = [b"GET / HTTP/1.1\r\n\r\n"] * 6
        await send_all(address, requests, connections=2, within_s=10.0, rate=100.0)
        assert loop.time() - began_s >= 0.045
