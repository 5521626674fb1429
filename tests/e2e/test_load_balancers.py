"""The roles as processes of their own behind a real HAProxy and a real nginx, with deploy/'s files.

tests/integration/balancers has the details of balancers with failing servers.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

import openapi
from harness.balancers import HAProxy, Nginx
from harness.fleet import Fleet

SUBSCRIBERS = 3
PATIENCE_S = 30.0
METHODS = ("get", "put", "patch", "post", "delete")
NOT_SERVED = ("route-not-found", "method-not-allowed")
VALUES = {
    "asset": "page.css",
    "id": "AQ",
    "letter": "1",
    "number": "1",
    "partition": "0",
    "redrive": "1",
    "rule": "1",
}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    if missing := HAProxy.missing():
        pytest.skip(missing)
    # Not pytest's own directories: nobody but their owner may enter those, and Postgres has to.
    root = Path(tempfile.mkdtemp(prefix="packetboat-balancers-"))
    root.chmod(0o711)
    made = Fleet(root, subscribers=SUBSCRIBERS)
    try:
        asyncio.run(made.start())
        yield made
    finally:
        made.stop()
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def nginx(fleet: Fleet) -> Iterator[Nginx | None]:
    """Yield an nginx in front of the same processes; None where nginx is not installed."""
    if Nginx.missing():
        yield None
        return
    made = Nginx(fleet.root / "nginx", fleet.servers)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["haproxy", "nginx"])
def url(request: pytest.FixtureRequest, fleet: Fleet, nginx: Nginx | None) -> Iterator[str]:
    """Yield the URL of the balancer; every process is well before and after."""
    if request.param == "nginx" and nginx is None:
        pytest.skip("nginx is not installed")
    yield fleet.base_url if request.param == "haproxy" or nginx is None else nginx.url
    for member in fleet.members:
        if not member.is_running:
            member.start()
    asyncio.run(fleet.until_ready())


@pytest.fixture
def http(fleet: Fleet) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {fleet.token}"
    return session


class Flow:
    """A topic with a subscription of the same name."""

    def __init__(self, http: requests.Session, url: str) -> None:
        self.http, self.url = http, url
        self.name = f"flow-{uuid.uuid4().hex[:8]}"
        self.call("POST", "/topics", json={"name": self.name})
        self.call("POST", f"/topics/{self.name}/subscriptions", json={"name": self.name})

    def call(self, method: str, path: str, **more: Any) -> Any:
        """Again after a 503, as a client does: a partition may be changing hands."""
        deadline = time.monotonic() + PATIENCE_S
        answer = self.http.request(method, self.url + path, timeout=PATIENCE_S, **more)
        while answer.status_code == 503 and time.monotonic() < deadline:
            assert "Retry-After" in answer.headers
            time.sleep(0.2)
            answer = self.http.request(method, self.url + path, timeout=PATIENCE_S, **more)
        assert answer.ok, f"{answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def publish(self, text: str) -> str:
        answer = self.call("POST", f"/topics/{self.name}/messages", data=text.encode())
        return str(answer["message_id"])

    def pull(self, wait_s: float = 10.0) -> list[dict[str, Any]]:
        path = f"/subscriptions/{self.name}/messages"
        found: list[dict[str, Any]] = self.call("GET", path, params={"wait_seconds": wait_s})[
            "messages"
        ]
        return found

    def ack(self, *ack_ids: str) -> int:
        answer = self.call("POST", f"/subscriptions/{self.name}/ack", json={"ack_ids": ack_ids})
        return int(answer["acked"])


def operations() -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, item in openapi.document()["paths"].items()
        for method in METHODS
        if method in item
    ]


def test_every_operation_reaches_a_process_that_has_it(url: str, http: requests.Session) -> None:
    elsewhere = []
    for method, template in operations():
        path = re.sub(r"\{(\w+)\}", lambda m: VALUES.get(m[1], "no-such-thing"), template)
        body = None if method == "GET" else b"{}"
        answer = http.request(method, url + path, data=body, timeout=PATIENCE_S, stream=True)
        is_problem = answer.headers.get("Content-Type") == "application/problem+json"
        if is_problem and answer.json()["type"].rpartition("/")[2] in NOT_SERVED:
            elsewhere.append(f"{method} {template}")
        answer.close()
    assert elsewhere == []


def test_publish_pull_and_ack(url: str, http: requests.Session) -> None:
    flow = Flow(http, url)
    message_id = flow.publish("one")
    batch = flow.call(
        "POST",
        f"/topics/{flow.name}/messages:batch",
        json={"messages": [{"data": f"{n}"} for n in range(50)]},
    )
    wanted = {message_id, *(each["message_id"] for each in batch["results"])}
    seen: dict[str, str] = {}
    while len(seen) < len(wanted):
        got = flow.pull()
        assert got
        seen |= {message["message_id"]: message["ack_id"] for message in got}
    assert set(seen) == wanted
    assert flow.ack(*seen.values()) == len(wanted)
    assert flow.pull(wait_s=0) == []


def test_a_long_poll_is_answered_when_a_message_comes(url: str, http: requests.Session) -> None:
    flow = Flow(http, url)
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.extend(Flow.pull(flow, wait_s=25)))
    waiting.start()
    time.sleep(1.0)
    assert found == []
    message_id = requests.post(
        f"{url}/topics/{flow.name}/messages", b"hello", headers=dict(http.headers)
    ).json()["message_id"]
    waiting.join(PATIENCE_S)
    assert [message["message_id"] for message in found] == [message_id]


def test_a_stream_brings_each_message_as_it_comes(url: str, http: requests.Session) -> None:
    flow = Flow(http, url)
    target = f"{url}/subscriptions/{flow.name}/messages:stream"
    with http.get(target, stream=True, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines(chunk_size=None)
        for _ in range(3):  # each is read before the next is published
            message_id = Flow.publish(_beside(flow), "hello")
            message = next(m for line in lines if (m := json.loads(line).get("message")))
            assert message["message_id"] == message_id
            assert _beside(flow).ack(message["ack_id"]) == 1


def _beside(flow: Flow) -> Flow:
    """Return the same flow on a connection of its own."""
    other = Flow.__new__(Flow)
    other.http, other.url, other.name = requests.Session(), flow.url, flow.name
    other.http.headers.update(flow.http.headers)
    return other


def test_without_subscribe_forwarders_the_rest_goes_on(
    fleet: Fleet, url: str, http: requests.Session
) -> None:
    flow = Flow(http, url)
    for member in fleet.subscribers:
        member.kill()
    for _ in range(3):
        answer = http.get(f"{url}/subscriptions/{flow.name}/messages", timeout=PATIENCE_S)
        assert answer.status_code == 503
        assert answer.headers.get("Content-Type") == "application/problem+json"
        assert answer.json()["status"] == 503
        assert answer.headers["Retry-After"] == "1"
        time.sleep(0.4)
    message_id = flow.publish("while nobody delivers")
    for member in fleet.subscribers:
        member.start()
    asyncio.run(fleet.until_ready())
    assert [message["message_id"] for message in patiently_pulled(flow)] == [message_id]


def test_a_killed_forwarders_pulls_go_elsewhere(
    fleet: Fleet, url: str, http: requests.Session
) -> None:
    flows = [Flow(http, url) for _ in range(6)]
    for flow in flows:
        assert flow.pull(wait_s=0) == []
    fleet.subscribers[0].kill()
    for flow in flows:
        message_id = flow.publish("after the kill")
        assert [message["message_id"] for message in patiently_pulled(flow)] == [message_id]


def test_a_forwarder_that_is_told_to_end_is_missed_by_nobody(
    fleet: Fleet, url: str, http: requests.Session
) -> None:
    flows = [Flow(http, url) for _ in range(6)]
    for flow in flows:
        flow.publish("before")
        (message,) = flow.pull()
        assert flow.ack(message["ack_id"]) == 1
    assert asyncio.run(fleet.subscribers[-1].terminate()) == 0
    for flow in flows:
        message_id = flow.publish("after")
        assert [message["message_id"] for message in patiently_pulled(flow)] == [message_id]


def patiently_pulled(flow: Flow) -> list[dict[str, Any]]:
    """Pull as a client does that is told to come again (503), or sees its connection cut."""
    deadline = time.monotonic() + PATIENCE_S
    last: object = None
    while time.monotonic() < deadline:
        try:
            answer = flow.http.get(
                f"{flow.url}/subscriptions/{flow.name}/messages?wait_seconds=5", timeout=PATIENCE_S
            )
        except requests.ConnectionError as error:
            last = error
            continue
        last = f"{answer.status_code} {answer.text}"
        if answer.status_code == 200 and answer.json()["messages"]:
            found: list[dict[str, Any]] = answer.json()["messages"]
            return found
        if answer.status_code != 200:
            assert answer.status_code in (502, 503), last
            time.sleep(0.2)
    raise AssertionError(last)
