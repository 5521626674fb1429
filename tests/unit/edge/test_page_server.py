"""Pages for operators are made off the loop, once a second, and by a bounded number of threads."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client import Counter

from edge.page_server import JSON, MAX_CONNECTIONS, Cached, Page, PageServer
from gateway import metrics
from gateway.addresses import CannotListen

SEEN = Counter("packetboat_test_page_seen", "Of this test.")


class Made:
    """A page that is counted, and says which thread made it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.threads: list[int] = []
        self.cached = Cached(self.make, clock=lambda: self.now_s)

    def make(self) -> Page:
        self.threads.append(threading.get_ident())
        return Page(200, JSON, str(len(self.threads)).encode())

    def answer(self, path: str) -> Page:
        return self.cached() if path == "/metrics" else Page(404, JSON, b"{}")


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.fixture
def url(made: Made) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = PageServer(listener, made.answer, name="test")
    yield f"http://127.0.0.1:{port}"
    server.close()


def got(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body


async def test_a_page_is_made_off_the_loop_and_once_a_second(made: Made, url: str) -> None:
    asked = [asyncio.to_thread(got, url + "/metrics?x=y") for _ in range(20)]
    assert set(await asyncio.gather(*asked)) == {b"1"}
    made.now_s = 0.99
    assert await asyncio.to_thread(got, url + "/metrics") == b"1"
    made.now_s = 1.0
    assert await asyncio.to_thread(got, url + "/metrics") == b"2"
    assert threading.get_ident() not in made.threads


def test_there_is_nothing_else(url: str) -> None:
    for path in ("/", "/%6detrics", "/topics"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            got(url + path)


def test_connections_that_say_nothing_take_a_bounded_number_of_threads(url: str) -> None:
    before = threading.active_count()
    port = int(url.rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * MAX_CONNECTIONS)]
    deadline_s = time.monotonic() + 10
    closed = 0
    for each in idle:
        each.settimeout(0.01)
    while closed < MAX_CONNECTIONS:
        assert time.monotonic() < deadline_s
        closed = sum(_is_closed(each) for each in idle)
    assert threading.active_count() - before <= MAX_CONNECTIONS
    for each in idle:
        each.close()


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_metrics_are_served_at_a_port_of_their_own() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with metrics.served("127.0.0.1", port, shared=False, old_names=False):
        SEEN.inc()
        assert b"packetboat_test_page_seen_total 1.0" in got(f"http://127.0.0.1:{port}/metrics")
    with (
        socket.create_server(("127.0.0.1", port)),  # it was let go
        pytest.raises(CannotListen, match=f"PACKETBOAT_METRICS_PORT={port}: in use"),
        metrics.served("127.0.0.1", port, shared=False, old_names=False),
    ):
        pass


def test_port_0_serves_nothing() -> None:
    with metrics.served("127.0.0.1", 0, shared=False, old_names=False):
        assert "metrics" not in {thread.name for thread in threading.enumerate()}
