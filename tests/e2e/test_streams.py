"""Streams over real sockets: NDJSON and SSE, HTTP/1.1 and HTTP/2, clients that stop reading."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import requests

from tests.e2e.installation import Installation

PATIENCE_S = 30.0


class Flow:
    """A topic of one partition with a subscription of the same name."""

    def __init__(self, installation: Installation, **subscription: Any) -> None:
        self.http, self.url = installation.session(), installation.url
        self.token = installation.token
        self.name = f"streams-{uuid.uuid4().hex[:8]}"
        self._post("/topics", {"name": self.name, "partitions": 1})
        made = {"name": self.name, "start": "earliest", **subscription}
        self._post(f"/topics/{self.name}/subscriptions", made)

    def _post(self, path: str, body: object) -> Any:
        answer = self.http.post(self.url + path, json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def publish(self, *bodies: str) -> None:
        messages = [{"data": body} for body in bodies]
        self._post(f"/topics/{self.name}/messages:batch", {"messages": messages})

    def ack(self, *messages: dict[str, Any]) -> int:
        ids = [message["ack_id"] for message in messages]
        answer = self._post(f"/subscriptions/{self.name}/ack", {"ack_ids": ids})
        return int(answer["acked"])

    def backlog(self) -> dict[str, Any]:
        answer = self.http.get(f"{self.url}/subscriptions/{self.name}/backlog", timeout=30)
        shown: dict[str, Any] = answer.json()
        return shown

    @property
    def target(self) -> str:
        return f"{self.url}/subscriptions/{self.name}/messages:stream"

    @contextmanager
    def stream(self, client: httpx.Client | None = None, **query: Any) -> Iterator[Iterator[Any]]:
        """Yield the stream's lines, as objects."""
        headers = {"Authorization": f"Bearer {self.token}"}
        client = client or httpx.Client(timeout=PATIENCE_S)
        with client, client.stream("GET", self.target, params=query, headers=headers) as answer:
            assert answer.status_code == 200
            yield (json.loads(line) for line in answer.iter_lines())


@pytest.fixture
def flow(running: Installation) -> Flow:
    return Flow(running)


def until(done: Callable[[], Any], what: str) -> Any:
    """Return the first answer that counts; only a test that fails waits for the end."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if found := done():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not after {PATIENCE_S} s")


@pytest.mark.parametrize("http2", [False, True])
def test_messages_come_as_they_are_published_and_acks_make_room(flow: Flow, http2: bool) -> None:
    client = httpx.Client(http1=not http2, http2=http2, timeout=PATIENCE_S)
    with flow.stream(client, max_outstanding_messages=2) as lines:
        assert "heartbeat" in next(lines)
        flow.publish("a", "b", "c")
        two = [next(lines)["message"] for _ in range(2)]
        assert [message["data"] for message in two] == ["a", "b"]
        assert flow.ack(*two) == 2
        third = next(lines)["message"]
        flow.publish("d")
        fourth = next(lines)["message"]
        assert [third["data"], fourth["data"]] == ["c", "d"]
        assert flow.ack(third, fourth) == 2


def test_server_sent_events_with_heartbeats_until_the_end(flow: Flow) -> None:
    flow.publish("a")
    headers = {"Accept": "text/event-stream"}
    query = {"heartbeat_seconds": 1, "max_seconds": 1.5}
    answer = flow.http.get(flow.target, params=query, headers=headers, timeout=PATIENCE_S)
    assert answer.headers["content-type"] == "text/event-stream"
    events = [event.split("\n") for event in answer.text.split("\n\n")[:-1]]
    assert [event[0] for event in events if len(event) == 2] == [
        "event: heartbeat",
        "event: heartbeat",
        "event: end",
    ]
    (message,) = [json.loads(event[0][6:]) for event in events if len(event) == 1]
    assert message["data"] == "a"


@contextmanager
def unread(flow: Flow, **query: Any) -> Iterator[socket.socket]:
    """Yield a stream that nobody reads."""
    address = urlsplit(flow.url)
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        client.connect((address.hostname, address.port))
        path = f"/subscriptions/{flow.name}/messages:stream?{parameters}"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {flow.token}\r\n\r\n"
        client.sendall(head.encode())
        yield client


def test_a_client_that_stops_reading_holds_little(flow: Flow) -> None:
    for _ in range(16):
        flow.publish(*["x" * 10_000] * 100)  # 16 MB in all
    limits = {"max_outstanding_messages": 10_000, "max_outstanding_bytes": 64 * 1024 * 1024}
    with unread(flow, **limits):
        until(lambda: flow.backlog()["leased"] > 0, "something was sent")
        time.sleep(0.3)
        leased = flow.backlog()["leased"]
        # One write may hold this much, beside the bytes in the socket's buffers.
        assert leased * 10_000 <= 1024 * 1024 + 6 * 1024 * 1024
        pulled = flow.http.get(f"{flow.url}/subscriptions/{flow.name}/messages", timeout=30)
        assert len(pulled.json()["messages"]) == 10  # others are served meanwhile
        assert flow.backlog()["leased"] == leased + 10


def test_a_client_that_left_is_noticed(flow: Flow) -> None:
    with unread(flow):
        until(lambda: flow.backlog()["streams"] == 1, "the stream waits")
    until(lambda: flow.backlog()["streams"] == 0, "the stream has ended")
    flow.publish("a")
    pulled = flow.http.get(f"{flow.url}/subscriptions/{flow.name}/messages", timeout=30)
    assert [message["attempt"] for message in pulled.json()["messages"]] == [1]


def test_deleting_the_subscription_ends_its_streams(flow: Flow) -> None:
    with flow.stream() as lines:
        next(lines)
        flow.http.delete(f"{flow.url}/subscriptions/{flow.name}?force=true").raise_for_status()
        assert next(lines)["end"]["problem"]["type"].endswith("/subscription-not-found")
        assert next(lines, None) is None


def test_a_server_that_stops_ends_its_streams(running: Installation) -> None:
    flow = Flow(running)
    servers = [pid for pid, line in running.processes().items() if re.search(r"\bserve\b", line)]
    assert len(servers) == 1
    http2 = httpx.Client(http1=False, http2=True, timeout=PATIENCE_S)
    try:
        with flow.stream() as lines, flow.stream(http2, max_outstanding_messages=1) as others:
            next(lines), next(others)
            flow.publish("a")
            message = next(lines)["message"]
            flow.publish("b")
            assert "message" in next(others)
            os.kill(servers[0], signal.SIGTERM)
            for each in (lines, others):
                assert next(each)["end"] == {"reason": "draining", "problem": None}
                assert next(each, None) is None
    finally:
        until(lambda: _ready(running), "the server is back")
    assert until(lambda: _acked(flow, message), "acks are taken again") == 1


def _ready(installation: Installation) -> bool:
    try:
        return requests.get(f"{installation.url}/readyz", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def _acked(flow: Flow, message: dict[str, Any]) -> int:
    try:
        return flow.ack(message)
    except requests.RequestException:
        return 0
