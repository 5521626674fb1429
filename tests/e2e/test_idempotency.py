"""Publishing again over HTTP: one copy, seen by the subscriber once."""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from collections.abc import Iterator

import pytest
import requests
from packetboat import Client, Outgoing, Receipt

from tests.e2e.installation import Installation


@pytest.fixture
def topic(running: Installation) -> Iterator[str]:
    name = f"again-{uuid.uuid4().hex[:8]}"
    with running.session() as http:
        http.post(f"{running.url}/topics", json={"name": name, "partitions": 2}).raise_for_status()
        made = {"name": name, "start": "earliest"}
        http.post(f"{running.url}/topics/{name}/subscriptions", json=made).raise_for_status()
        yield name
        http.delete(f"{running.url}/topics/{name}?force=true").raise_for_status()


def publish(
    running: Installation, topic: str, body: bytes, headers: dict[str, str]
) -> requests.Response:
    """Publish until an answer decides, as a client with an idempotency key does."""
    deadline_s = time.monotonic() + 30
    with running.session() as http:
        while True:
            try:
                answer = http.post(
                    f"{running.url}/topics/{topic}/messages", data=body, headers=headers, timeout=20
                )
                if answer.status_code not in (503, 504):
                    return answer
            except requests.RequestException:
                pass
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


def test_a_key_sent_again_is_a_duplicate_and_with_another_body_refused(
    running: Installation, topic: str
) -> None:
    headers = {"Idempotency-Key": "i-1", "Content-Type": "text/plain"}
    first = publish(running, topic, b"x", headers)
    again = publish(running, topic, b"x", headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json() | {"duplicate": True}
    other = publish(running, topic, b"y", headers)
    assert other.status_code == 422
    assert other.json()["type"].endswith("/idempotency-key-reused")
    assert other.json()["errors"][0]["field"] == "idempotency_key"


def test_store_nodes_killed_one_after_the_other_store_no_key_twice(
    running: Installation, topic: str
) -> None:
    keys = [f"k-{n}" for n in range(30)]
    first: dict[str, str] = {}
    for round_ in range(4):
        if round_:
            nodes = [p for p, line in running.processes().items() if re.search(r"store-node", line)]
            os.kill(nodes[round_ % len(nodes)], signal.SIGKILL)
        for key in keys:
            answer = publish(running, topic, key.encode(), {"Idempotency-Key": key})
            assert answer.status_code == 201
            message_id = answer.json()["message_id"]
            assert answer.json()["duplicate"] is (key in first)
            assert first.setdefault(key, message_id) == message_id
    with Client(running.url, running.token) as boat:
        seen: list[str] = []
        while messages := boat.pull(topic, max_messages=100, wait_seconds=1):
            seen += [message.message_id for message in messages]
            boat.ack(topic, messages)
    assert sorted(seen) == sorted(first.values())


def test_the_clients_batch_is_stored_once(running: Installation, topic: str) -> None:
    with Client(running.url, running.token) as boat:
        results = boat.publish_batch(topic, [b"a", Outgoing(data=b"b", key="k"), b"c"])
        assert all(isinstance(each, Receipt) and not each.duplicate for each in results)
    body = {"messages": [{"data": "x"}, {"data": "y", "key": "k"}]}
    headers = {"Packetboat-Producer": "ab" * 16, "Packetboat-Sequence": "1"}
    with running.session() as http:
        url = f"{running.url}/topics/{topic}/messages:batch"
        first, again = (http.post(url, json=body, headers=headers).json() for _ in range(2))
        assert [each | {"duplicate": True} for each in first["results"]] == again["results"]
