"""Test what connections may do to a call, over real sockets and for both kinds of client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from packetboat.calls import StreamCall
from packetboat.errors import (
    ClientClosed,
    ConnectionFailed,
    Overloaded,
    ServerError,
    UnknownOutcome,
)
from packetboat.options import Options
from packetboat.transport import Request

from tests.unit.sdk.raw_server import (
    OK,
    PATIENCE_S,
    AsyncCaller,
    Caller,
    Peer,
    RawServer,
    SyncCaller,
    answer,
    get,
    post,
)
from tests.unit.sdk.sdk_support import AsyncScript, Script

Opened = Callable[..., Caller]
STREAM = StreamCall(Request("GET", "/subscriptions/workers/messages:stream"))


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Makes callers, and closes them."""
    kind = {"sync": SyncCaller, "async": AsyncCaller}[request.param]
    with ExitStack() as stack:

        def open_one(url: str, **options: Any) -> Caller:
            caller = kind(Options(urls=tuple(url.split(",")), **options))
            stack.callback(caller.end)
            return caller

        yield open_one


def refusing() -> str:
    """Return the URL of a port on which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_connection_is_used_again(opened: Opened) -> None:
    with RawServer() as server:
        caller = opened(server.url)
        for _ in range(5):
            assert caller.send(post()) == b"{}"
        assert server.connections == 1


def test_one_that_the_server_has_closed_is_not(opened: Opened) -> None:
    closed = threading.Event()

    async def one_each(peer: Peer) -> None:
        assert await peer.request()
        await peer.write(OK)
        peer.writer.close()
        await peer.writer.wait_closed()
        closed.set()

    with RawServer(one_each) as server:
        caller = opened(server.url)
        for _ in range(3):
            assert caller.send(post()) == b"{}"
            assert closed.wait(PATIENCE_S)
            closed.clear()
        assert server.connections == 3


def test_a_refused_connection_is_not_done(opened: Opened) -> None:
    with pytest.raises(ConnectionFailed):
        opened(refusing(), retry_for_s=0).send(post())


def test_a_cut_before_the_answer_is_unknown(opened: Opened) -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()

    with RawServer(cut) as server, pytest.raises(UnknownOutcome) as caught:
        opened(server.url).send(post())
    assert caught.value.idempotency_key is None
    assert server.connections == 1


def test_a_cut_in_the_answer_is_unknown(opened: Opened) -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.write(OK[:-1])

    with RawServer(cut) as server, pytest.raises(UnknownOutcome):
        opened(server.url).send(post())
    assert server.connections == 1


def test_what_may_be_sent_twice_is_sent_again_after_a_cut(opened: Opened) -> None:
    async def cut_twice(peer: Peer) -> None:
        await peer.request()
        if peer.number > 2:
            await peer.write(OK)

    with RawServer(cut_twice) as server:
        assert opened(server.url).send(post(safe=True)) == b"{}"
        assert server.connections == 3


def test_an_unknown_outcome_names_the_key(opened: Opened) -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()

    with RawServer(cut) as server, pytest.raises(UnknownOutcome, match="the-key") as caught:
        opened(server.url, retry_for_s=0.2).send(post(safe=True))
    assert caught.value.idempotency_key == "the-key"


def test_what_was_begun_once_stays_unknown_when_the_server_is_gone(opened: Opened) -> None:
    """The last try failed to connect, and did nothing; the first may have."""
    port: list[RawServer] = []

    async def cut_and_stop_listening(peer: Peer) -> None:
        await peer.request()
        port[0].stop_listening()

    with RawServer(cut_and_stop_listening) as server:
        port.append(server)
        with pytest.raises(UnknownOutcome) as caught:
            opened(server.url, retry_for_s=0.3).send(post(safe=True))
    assert caught.value.idempotency_key == "the-key"


def test_an_answer_past_the_deadline_is_unknown(opened: Opened) -> None:
    with RawServer(silent) as server, pytest.raises(UnknownOutcome):
        opened(server.url).send(post(), timeout_s=0.2)


def test_one_past_the_timeout_too(opened: Opened) -> None:
    with RawServer(silent) as server, pytest.raises(UnknownOutcome):
        opened(server.url, timeout_s=0.2).send(post())


async def silent(peer: Peer) -> None:
    """Reads, and says nothing until the client goes."""
    while await peer.request():
        pass


def test_an_answer_that_drips_is_over_in_time(opened: Opened) -> None:
    """Each byte comes soon enough, all of them do not."""

    async def drip(peer: Peer) -> None:
        await peer.request()
        await peer.write(answer(200, b"x" * 100_000)[:-100_000])
        for _ in range(10_000):
            await peer.write(b"x")
            await asyncio.sleep(0.02)

    with RawServer(drip) as server, pytest.raises(UnknownOutcome):
        opened(server.url, timeout_s=0.3).send(post())


def test_refusals_carry_the_servers_pause(opened: Opened) -> None:
    async def refuse(peer: Peer) -> None:
        while await peer.request():
            await peer.write(answer(429, b"{}", "Retry-After: 7"))

    with RawServer(refuse) as server, pytest.raises(Overloaded) as caught:
        opened(server.url).send(post(), timeout_s=5)
    assert caught.value.retry_after_s == 7


def test_redirects_are_not_followed(opened: Opened) -> None:
    async def elsewhere(peer: Peer) -> None:
        while await peer.request():
            await peer.write(answer(308, b"", "Location: http://127.0.0.1:1/"))

    with RawServer(elsewhere) as server, pytest.raises(ServerError, match="redirects"):
        opened(server.url).send(post())


def test_a_stream_is_read_as_it_comes(opened: Opened) -> None:
    async def lines(peer: Peer) -> None:
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(3):
            await peer.write(b"2\r\n%d\n\r\n" % number)
        await peer.write(b"0\r\n\r\n")

    with RawServer(lines) as server:
        assert b"".join(opened(server.url).stream(STREAM)) == b"0\n1\n2\n"


def test_a_stream_that_does_not_begin_in_time_is_unknown(opened: Opened) -> None:
    with RawServer(silent) as server, pytest.raises(UnknownOutcome):
        opened(server.url).stream(STREAM, timeout_s=0.2)


def test_a_stream_that_has_begun_may_be_silent_for_longer(opened: Opened) -> None:
    async def late(peer: Peer) -> None:
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(0.6)  # the silence itself is what is tried
        await peer.write(b"2\r\n1\n\r\n0\r\n\r\n")

    with RawServer(late) as server:
        assert opened(server.url).stream(STREAM, timeout_s=0.5) == [b"1\n"]


def test_a_stream_that_is_refused_raises_the_problem(opened: Opened) -> None:
    async def refuse(peer: Peer) -> None:
        while await peer.request():
            await peer.write(answer(429, b'{"type": "https://x/too-many", "detail": "slow"}'))

    with RawServer(refuse) as server, pytest.raises(Overloaded, match="slow"):
        opened(server.url, retry_for_s=0).stream(STREAM)


def test_a_stream_that_is_cut_says_so(opened: Opened) -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n1\n\r\n")

    with RawServer(cut) as server, pytest.raises(UnknownOutcome):
        opened(server.url).stream(STREAM)


def test_after_close_nothing_is_sent(opened: Opened) -> None:
    with RawServer() as server:
        caller = opened(server.url)
        caller.send(get())
        caller.close()
        with pytest.raises(ClientClosed):
            caller.send(get())
        assert server.connections == 1


@pytest.mark.parametrize("kind", [SyncCaller, AsyncCaller], ids=["sync", "async"])
def test_after_close_a_transport_of_ones_own_is_not_asked_either(kind: Any) -> None:
    script = Script()
    transport = script
    if kind is AsyncCaller:
        transport = AsyncScript()  # type: ignore[assignment]
        script = transport.script  # type: ignore[attr-defined]
    caller = kind(Options(), transport)
    caller.close()
    with pytest.raises(ClientClosed):
        caller.send(get())
    assert script.requests == []
    caller.end()
