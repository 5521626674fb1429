"""Bytes that nobody means well by, sent to a running server: each is answered or cut in bounds,
and the server goes on with little more memory than before."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from gateway.http.connection import FIRST_SECONDS, HEAD_SECONDS
from gateway.http.request import MAX_FIELDS, MAX_HEAD_BYTES
from gateway.http.server import SWEEP_SECONDS
from tests.e2e.installation import Installation

MOST_GROWTH_BYTES = 64 * 1024 * 1024
PATIENCE_S = 30.0
HEAD = b"POST /topics HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer "


class Peer:
    """One connection, by the byte."""

    def __init__(self, installation: Installation) -> None:
        parts = urlsplit(installation.url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)

    def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def status(self) -> int | None:
        """Return the status of the next answer; None if the connection was closed instead."""
        try:
            line = self.socket.recv(65536)
        except ConnectionError:
            return None
        found = re.match(rb"HTTP/1.1 (\d{3}) ", line)
        return int(found[1]) if found else None

    def closed_within(self, seconds: float) -> bool:
        """Return whether the server closes the connection in time; read what it says meanwhile."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def peers(running: Installation) -> Iterator[list[Peer]]:
    opened: list[Peer] = []
    yield opened
    for peer in opened:
        peer.close()


@pytest.fixture
def peer(running: Installation, peers: list[Peer]) -> Peer:
    peers.append(Peer(running))
    return peers[-1]


def server_memory(installation: Installation) -> int:
    (pid,) = (pid for pid, line in installation.processes().items() if " serve" in line)
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.fixture(autouse=True)
def well_after(running: Installation) -> Iterator[None]:
    """The server serves others as before, and has not kept what it was sent."""
    assert requests.get(f"{running.url}/healthz", timeout=PATIENCE_S).status_code == 200
    before = server_memory(running)
    yield
    assert requests.get(f"{running.url}/healthz", timeout=PATIENCE_S).status_code == 200
    assert server_memory(running) - before < MOST_GROWTH_BYTES


def put(installation: Installation, body: bytes, *more: bytes) -> bytes:
    """Return a whole POST of a topic."""
    fields = [b"Content-Type: application/json", b"Content-Length: %d" % len(body), *more]
    token = installation.token.encode()
    return HEAD + token + b"\r\n" + b"\r\n".join(fields) + b"\r\n\r\n" + body


# Heads.


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"X-A: b\r\n" * (MAX_FIELDS + 1), id="many"),
        pytest.param(b"X-A: " + b"b" * MAX_HEAD_BYTES + b"\r\n", id="long"),
        pytest.param(b"X-" + b"a" * MAX_HEAD_BYTES + b": b\r\n", id="long-name"),
        pytest.param(b"X-A: b\r\n" * 100_000, id="a-flood"),
    ],
)
@pytest.mark.parametrize(
    "first", [b"", b"Transfer-Encoding: chunked\r\n"], ids=["no-body", "chunked"]
)
def test_a_bomb_of_headers_is_answered_or_cut(peer: Peer, fields: bytes, first: bytes) -> None:
    peer.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n" + first + fields + b"\r\n")
    assert peer.status() in (431, 400, None)
    assert peer.closed_within(PATIENCE_S)


def test_a_head_that_never_ends_is_cut_at_its_limit(peer: Peer) -> None:
    for _ in range(200):
        peer.send(b"X" * 4096)
    assert peer.status() in (400, 431, None)


def test_a_head_that_drips_is_cut(peer: Peer) -> None:
    began_s = time.monotonic()
    peer.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n")
    peer.socket.settimeout(0.5)
    while time.monotonic() - began_s < PATIENCE_S:
        try:
            peer.socket.sendall(b"X-A: b\r\n")
            if not peer.socket.recv(10):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    assert time.monotonic() - began_s < HEAD_SECONDS + 5 * SWEEP_SECONDS


def test_connections_that_say_nothing_are_closed(running: Installation, peers: list[Peer]) -> None:
    began_s = time.monotonic()
    peers += [Peer(running) for _ in range(200)]
    for peer in peers:
        assert peer.closed_within(FIRST_SECONDS + PATIENCE_S)
    assert time.monotonic() - began_s > FIRST_SECONDS / 2, "they had time"


def test_a_kept_connection_has_its_whole_time_for_the_next_head(peer: Peer) -> None:
    """However long it was idle before."""
    peer.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
    assert peer.status() == 200
    time.sleep(HEAD_SECONDS + 2 * SWEEP_SECONDS)
    peer.send(b"GET /healthz HTTP/1.1\r\n")
    time.sleep(2 * SWEEP_SECONDS)
    peer.send(b"Host: t\r\n\r\n")
    assert peer.status() == 200


# Bodies.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"[" * 200_000, 400, id="deep"),
        pytest.param(b'{"name":' * 20_000, 400, id="deep-objects"),
        pytest.param(b'{"name":"a","partitions":' + b"9" * 200_000 + b"}", 400, id="huge-number"),
        pytest.param(b'{"name":"a","partitions":1e999999}', 400, id="huge-exponent"),
        pytest.param(b'{"name":"a","partitions":NaN}', 400, id="nan"),
        pytest.param(b'{"name":"\xff\xfe"}', 400, id="not-utf8"),
        pytest.param(b'{"name":"\xed\xa0\x80"}', 400, id="surrogate"),
        pytest.param(b'{"name":"a","name":"b"}', 400, id="twice"),
        pytest.param(b'{"name":"a","labels":{"x":"1","\\u0078":"2"}}', 400, id="twice-escaped"),
        pytest.param(b"\x00" * 1000, 400, id="nul"),
        pytest.param(b"", 400, id="empty"),
        pytest.param(b'{"name":"a' + b" " * 300_000 + b'"}', 413, id="too-long"),
    ],
)
def test_what_is_no_body_is_refused_by_name(
    running: Installation, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = running.session().post(
        f"{running.url}/topics", data=body, headers=headers, timeout=PATIENCE_S
    )
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_member_that_is_there_twice_is_named(running: Installation) -> None:
    body = b'{"name":"a","retention":{"mode":"retain","mode":"consume"}}'
    answer = running.session().post(f"{running.url}/topics", data=body, timeout=PATIENCE_S)
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"field": "mode", "detail": "named twice"}]


@pytest.mark.parametrize(
    "item",
    [
        b"[" * 100_000,
        b'{"data":"x","priority":' + b"9" * 100_000 + b"}",
        b'{"data":"\xff"}',
        b'{"data":"x","attributes":' + b'{"a":' * 10_000,
    ],
    ids=["deep", "huge", "not-utf8", "deep-attributes"],
)
def test_bad_items_of_a_batch_are_refused(running: Installation, item: bytes) -> None:
    http = running.session()
    http.put(f"{running.url}/topics/bad-input", json={"partitions": 1}, timeout=PATIENCE_S)
    answer = http.post(
        f"{running.url}/topics/bad-input/messages:batch",
        data=b'{"messages":[' + item + b"]}",
        headers={"Content-Type": "application/json"},
        timeout=PATIENCE_S,
    )
    if answer.status_code == 200:
        (result,) = answer.json()["results"]
        assert result["status"] in (400, 422)
    else:
        assert answer.status_code in (400, 422), answer.text


def test_a_length_that_is_no_length_is_refused(running: Installation, peer: Peer) -> None:
    peer.send(put(running, b"{}").replace(b"Content-Length: 2", b"Content-Length: 1" + b"0" * 30))
    assert peer.status() in (400, 413, None)


def test_two_lengths_are_refused(running: Installation, peer: Peer) -> None:
    peer.send(put(running, b"{}", b"Content-Length: 200"))
    assert peer.status() in (400, None)


def test_what_is_announced_is_not_set_aside(running: Installation, peers: list[Peer]) -> None:
    """Requests announce bodies of ten megabytes each and send nothing of them."""
    for _ in range(300):
        peers.append(Peer(running))
        whole = put(running, b"").replace(b"Content-Length: 0", b"Content-Length: 10000000")
        peers[-1].send(whole.replace(b"/topics ", b"/topics/bad-input/messages "))


def test_more_requests_than_are_answered_wait_in_the_socket(
    running: Installation, peer: Peer
) -> None:
    """The server does not read a peer that pipelines without reading."""
    peer.socket.setblocking(False)
    whole, sent = b"GET /openapi.json HTTP/1.1\r\nHost: t\r\n\r\n" * 1000, 0
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        try:
            sent += peer.socket.send(whole[sent % len(whole) :])
        except BlockingIOError:
            time.sleep(0.05)
        except ConnectionError:
            break
    assert sent < 16 * 1024 * 1024


def test_others_are_served_beside_all_of_it(running: Installation, peers: list[Peer]) -> None:
    peers += [Peer(running) for _ in range(500)]
    for number, peer in enumerate(peers):
        peer.send(b"GET / HTTP/1.1\r\nX: " + b"y" * (number * 100))
    parts = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    for _ in range(50):
        connection.request("GET", "/topics", headers={"Authorization": f"Bearer {running.token}"})
        assert json.loads(connection.getresponse().read())["topics"] is not None
    connection.close()
