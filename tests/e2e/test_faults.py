"""Faults of single parts, seen by HTTP clients of a whole installation."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation


class Flow:
    """A topic with a subscription, and requests on them."""

    def __init__(self, installation: Installation) -> None:
        self.http, self.url = installation.session(), installation.url
        self.name = f"faults-{uuid.uuid4().hex[:8]}"
        self.http.post(f"{self.url}/topics", json={"name": self.name}).raise_for_status()
        made = {"name": self.name, "start": "earliest"}
        self.http.post(f"{self.url}/topics/{self.name}/subscriptions", json=made).raise_for_status()

    def publish(self, **options: Any) -> requests.Response:
        target = f"{self.url}/topics/{self.name}/messages"
        return self.http.post(target, data=b"x", timeout=30, **options)

    def pull(self, wait_s: float = 5) -> requests.Response:
        target = f"{self.url}/subscriptions/{self.name}/messages"
        return self.http.get(target, params={"wait_seconds": wait_s}, timeout=90)

    def ack(self, *message_ids: str) -> requests.Response:
        target = f"{self.url}/subscriptions/{self.name}/ack"
        return self.http.post(target, json={"message_ids": message_ids}, timeout=30)


@pytest.fixture
def flow(running: Installation) -> Flow:
    return Flow(running)


@pytest.fixture
def signal_postgres(running: Installation) -> Iterator[Callable[[signal.Signals], None]]:
    """Stops Postgres as it stands, connections and all; it goes on at the end at the latest."""
    pids = [pid for pid, line in running.processes().items() if re.search(r"/postgres -D", line)]
    assert len(pids) == 1

    def send(number: signal.Signals) -> None:
        """Signal the server and each of its backends, which are in sessions of their own."""
        os.kill(pids[0], number)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if stat.read_text().rsplit(")", 1)[1].split()[1] == str(pids[0]):
                    os.kill(int(stat.parent.name), number)

    yield send
    send(signal.SIGCONT)


def until(answer: Callable[[], requests.Response], status: int, seconds: float) -> float:
    """Return the seconds until the answer has that status."""
    began_s = time.monotonic()
    while (last := answer()).status_code != status:
        assert time.monotonic() - began_s < seconds, (last.status_code, last.text)
        time.sleep(0.2)
    return time.monotonic() - began_s


def test_postgres_hangs_and_comes_back(
    flow: Flow, signal_postgres: Callable[[signal.Signals], None]
) -> None:
    first = flow.publish()
    assert len(flow.pull().json()["messages"]) == 1
    signal_postgres(signal.SIGSTOP)
    began_s = time.monotonic()
    for _ in range(50):
        assert flow.publish().status_code == 201
    assert time.monotonic() - began_s < 10
    refused = flow.ack(first.json()["message_id"])
    assert refused.status_code == 503, refused.text
    assert refused.headers["Retry-After"]
    unknown = flow.http.post(f"{flow.url}/topics/never-heard-of/messages", timeout=30)
    assert unknown.status_code == 503, "absent is not known while Postgres cannot be asked"

    signal_postgres(signal.SIGCONT)
    ids = {first.json()["message_id"]}
    deadline_s = time.monotonic() + 60
    while len(ids) < 51 and time.monotonic() < deadline_s:
        answer = flow.pull(wait_s=1)
        if answer.status_code == 503:
            time.sleep(0.2)
            continue
        ids |= {message["message_id"] for message in answer.json()["messages"]}
    assert len(ids) == 51
    until(lambda: flow.ack(*ids), 200, 20)


def test_a_long_poll_wakes_at_once(flow: Flow) -> None:
    got: list[tuple[float, int]] = []

    def wait() -> None:
        answer = Flow.pull(flow, 20)
        got.append((time.monotonic(), len(answer.json()["messages"])))

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(1.0)
    published = requests.post(
        f"{flow.url}/topics/{flow.name}/messages",
        data=b"now",
        headers=dict(flow.http.headers),
        timeout=10,
    )
    answered_s = time.monotonic()
    assert published.status_code == 201
    waiter.join(25)
    assert got[0][1] == 1
    assert got[0][0] - answered_s < 0.5


def test_a_stop_answers_long_polls(fresh: Installation) -> None:
    installation = fresh.start()
    flow = Flow(installation)
    flow.pull(wait_s=0)
    statuses: list[int] = []
    waiter = threading.Thread(target=lambda: statuses.append(flow.pull(60).status_code))
    waiter.start()
    time.sleep(1.0)
    began_s = time.monotonic()
    assert installation.stop(signal.SIGTERM) == 0
    assert time.monotonic() - began_s < 15
    waiter.join(5)
    assert statuses in ([200], [503])


def test_a_client_that_leaves_a_long_poll_leases_nothing(flow: Flow) -> None:
    with pytest.raises(requests.exceptions.ReadTimeout):
        flow.http.get(
            f"{flow.url}/subscriptions/{flow.name}/messages",
            params={"wait_seconds": 20},
            timeout=0.5,
        )
    sent = flow.publish().json()["message_id"]
    messages = flow.pull().json()["messages"]
    assert [(m["message_id"], m["attempt"]) for m in messages] == [(sent, 1)]


def test_a_topic_made_again_shares_nothing(flow: Flow) -> None:
    old = flow.publish().json()["message_id"]
    topic = f"{flow.url}/topics/{flow.name}"
    assert flow.http.delete(f"{topic}?force=true").status_code == 204
    assert flow.publish().status_code == 404
    assert flow.pull(0).status_code == 404
    assert flow.http.post(f"{flow.url}/topics", json={"name": flow.name}).status_code == 201
    made = {"name": flow.name, "start": "earliest"}
    assert flow.http.post(f"{topic}/subscriptions", json=made).status_code == 201
    assert flow.http.get(f"{topic}/messages/{old}").status_code == 404
    empty = flow.pull(0)
    assert empty.json().get("messages") == [], empty.text
    new = flow.publish().json()["message_id"]
    assert [m["message_id"] for m in flow.pull().json()["messages"]] == [new]
    failed = flow.ack(old).json()
    assert failed["acked"] == 0
    assert len(failed["results"]) == 1


def test_a_store_node_dies_under_load(flow: Flow, running: Installation) -> None:
    nodes = [pid for pid, line in running.processes().items() if line.endswith("store-node")]
    statuses: list[int] = []
    for number in range(200):
        if number == 50:
            os.kill(nodes[0], signal.SIGKILL)
        statuses.append(flow.publish().status_code)
    assert statuses.count(201) >= 190, statuses
    until(lambda: requests.get(f"{flow.url}/readyz", timeout=5), 200, 20)
