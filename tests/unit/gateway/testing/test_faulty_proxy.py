"""The proxy on a wire: what goes through is what came, however it is framed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packetboat.testing.faults import Fault
from packetboat.testing.proxy import FaultyProxy


class Upstream:
    """A server that echoes bodies and keeps the requests that it got."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.connections = 0
        self.gone = threading.Event()
        self.port = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: Upstream

    def setup(self) -> None:
        self.upstream.connections += 1
        super().setup()

    def do_GET(self) -> None:
        self.upstream.asked.append((self.path, b""))
        if self.path == "/waits":
            self.connection.settimeout(30)
            self.connection.recv(1)
            self.upstream.gone.set()
            self.close_connection = True
        elif self.path == "/to-the-end":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"all of it")
            self.close_connection = True
        elif self.path == "/nothing":
            self.send_response(204)
            self.end_headers()
        else:
            self._answer(b"")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()

    def do_POST(self) -> None:
        if "Content-Length" in self.headers:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        else:
            body = b"".join(iter(self._chunk, b""))
        self.upstream.asked.append((self.path, body))
        self._answer(body)

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline(), 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 7):
                part = body[at : at + 7]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.wfile.write(b"0\r\nLast: yes\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    handler = type("Of", (Handler,), {"upstream": made})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture(scope="module")
def proxy(upstream: Upstream) -> Iterator[FaultyProxy]:
    with contextlib.closing(FaultyProxy(upstream.port)) as made:
        yield made


@pytest.fixture
def http(proxy: FaultyProxy, upstream: Upstream) -> Iterator[httpx.Client]:
    proxy.begin()
    upstream.asked.clear()
    with httpx.Client(base_url=proxy.url, trust_env=False, timeout=30) as client:
        yield client


@settings(max_examples=15, deadline=None)
@given(bodies=st.lists(st.binary(max_size=3000), min_size=1, max_size=4))
@pytest.mark.parametrize("path", ["/plain", "/chunked"])
def test_bodies_go_through_both_ways(proxy: FaultyProxy, path: str, bodies: list[bytes]) -> None:
    with httpx.Client(base_url=proxy.url, trust_env=False, timeout=30) as client:
        for body in bodies:
            assert client.post(path, content=body).content == body
            assert client.post(path, content=iter([body[:5], body[5:]])).content == body


def test_answers_without_a_body_do_not_hold_up_the_next(http: httpx.Client) -> None:
    for _ in range(3):
        assert http.get("/nothing").status_code == 204
        assert http.head("/any").headers["content-length"] == "100"
        assert http.post("/plain", content=b"x").content == b"x"


def test_connections_are_kept(http: httpx.Client, upstream: Upstream) -> None:
    before = upstream.connections
    for _ in range(5):
        http.post("/plain", content=b"x")
    assert upstream.connections == before + 1


def test_an_answer_that_ends_with_its_connection_is_whole(http: httpx.Client) -> None:
    assert http.get("/to-the-end").content == b"all of it"
    assert http.get("/plain").status_code == 200


def test_when_a_client_goes_the_server_sees_it(proxy: FaultyProxy, upstream: Upstream) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(b"GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")
        wait(lambda: ("/waits", b"") in upstream.asked)
    assert upstream.gone.wait(30)


def test_two_requests_written_at_once_are_both_answered(
    proxy: FaultyProxy, upstream: Upstream
) -> None:
    request = b"POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as client:
        client.sendall(request + b"1" + request + b"2")
        got = b""
        while not got.endswith(b"2"):
            got += client.recv(1000)
    assert got.count(b"HTTP/1.1 200") == 2


def wait(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def test_a_duplicate_of_what_is_chunked_arrives_twice(
    proxy: FaultyProxy, http: httpx.Client, upstream: Upstream
) -> None:
    proxy.begin().duplicate()
    for path in ("/plain", "/chunked"):
        assert http.post(path, content=b"twice").content == b"twice"
    assert upstream.asked == [("/plain", b"twice")] * 2 + [("/chunked", b"twice")] * 2


def test_a_dropped_request_never_arrives_and_a_dropped_reply_had_one(
    proxy: FaultyProxy, http: httpx.Client, upstream: Upstream
) -> None:
    faults = proxy.begin()
    faults.drop_requests(on="POST /plain")
    faults.drop_replies(on="POST /chunked")
    for path in ("/plain", "/chunked"):
        with pytest.raises(httpx.TransportError):
            http.post(path, content=b"x")
    wait(lambda: upstream.asked == [("/chunked", b"x")])
    assert faults.counts == {Fault.DROP_REQUEST: 1, Fault.DROP_REPLY: 1}


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
@pytest.mark.parametrize("size", [1, 50, 5000])
def test_a_cut_reply_never_looks_whole(
    proxy: FaultyProxy, http: httpx.Client, path: str, size: int
) -> None:
    proxy.begin().cut_replies()
    with pytest.raises(httpx.TransportError):
        http.post(path, content=b"y" * size)


def test_where_nobody_serves_the_connection_ends(proxy: FaultyProxy) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with contextlib.closing(FaultyProxy(port)) as alone, pytest.raises(httpx.TransportError):
        httpx.get(alone.url, trust_env=False, timeout=30)
