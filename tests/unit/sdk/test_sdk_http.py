"""The clients over real sockets, against a server that answers, cuts or stalls as told."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from packetboat import AsyncClient, Client, UnknownOutcome
from packetboat.transport import HttpxTransport, Request

from tests.unit.sdk.sdk_support import RECEIPT


class Handler(BaseHTTPRequestHandler):
    """`/topics/cut/…` gets its connection closed once its body was read."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "/cut/" in self.path:
            self.close_connection = True
            return
        if "/slow/" in self.path:
            threading.Event().wait(0.5)
            return
        (item,) = msgspec.msgpack.decode(body)["messages"]
        seen = {"token": self.headers["Authorization"], "body": item["data"].decode()}
        receipt = RECEIPT | {"topic": msgspec.json.encode(seen).decode()}
        answer = msgspec.json.encode({"results": [receipt]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A client that has gone is nothing to print about."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_call_carries_the_token_and_the_body(url: str) -> None:
    with Client(url, "secret") as client:
        seen = msgspec.json.decode(client.publish("orders", "hello").result().topic)
    assert seen == {"token": "Bearer secret", "body": "hello"}


async def test_also_under_asyncio(url: str) -> None:
    async with AsyncClient(url, "secret") as client:
        seen = msgspec.json.decode((await client.publish("orders", "hello")).topic)
    assert seen == {"token": "Bearer secret", "body": "hello"}


def test_a_cut_connection_leaves_the_outcome_unknown(url: str) -> None:
    with Client(url, retry_for_s=0) as client, pytest.raises(UnknownOutcome):
        client.publish_batch("cut", [b"x"])


def test_a_timeout_leaves_the_outcome_unknown(url: str) -> None:
    transport = HttpxTransport(url)
    request = Request("POST", "/topics/slow/messages", {}, b"x", timeout_s=0.05)
    with pytest.raises(UnknownOutcome):
        transport.send(request)
    transport.close()


def test_url_and_token_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_URL", url)
    monkeypatch.setenv("PACKETBOAT_TOKEN", "from-env")
    with Client() as client:
        assert "from-env" in client.publish("orders", "x").result().topic


@pytest.mark.parametrize("without", ["httpx2", "none"])
def test_httpx_and_its_successor_both_do(url: str, without: str) -> None:
    program = f"""
import sys
sys.modules[{without!r}] = None
from packetboat import Client
with Client({url!r}) as client:
    assert client.publish("orders", "x").result().offset == 17
from packetboat.transport import library
print(library.httpx.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.strip() == ("httpx" if without == "httpx2" else "httpx2")
