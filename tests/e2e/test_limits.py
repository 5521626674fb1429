"""Limits of a topic's storage over HTTP: it is full, it has room again, and its oldest
messages expire.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation

LIMIT_BYTES = 100_000
PATIENCE_S = 30.0


@pytest.fixture
def http(running: Installation) -> requests.Session:
    return running.session()


def make(http: requests.Session, url: str, **retention: Any) -> str:
    """Make a topic of one partition with a subscription of the same name."""
    name = f"limits-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "partitions": 1, "retention": {"bytes": LIMIT_BYTES, **retention}}
    http.post(f"{url}/topics", json=body).raise_for_status()
    subscription = {"name": name, "start": "earliest"}
    http.post(f"{url}/topics/{name}/subscriptions", json=subscription).raise_for_status()
    return name


def until(done: Callable[[], Any], what: str) -> Any:
    """Return the first answer that counts; only a test that fails waits for the end."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if found := done():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not after {PATIENCE_S} s")


def publish(http: requests.Session, url: str, topic: str) -> requests.Response:
    return http.post(f"{url}/topics/{topic}/messages", data=bytes(1000))


def ack_all(http: requests.Session, url: str, name: str) -> int:
    acked = 0
    while True:
        pulled = http.get(
            f"{url}/subscriptions/{name}/messages", params={"max_messages": 500}
        ).json()["messages"]
        if not pulled:
            return acked
        ids = [message["ack_id"] for message in pulled]
        answer = http.post(f"{url}/subscriptions/{name}/ack", json={"ack_ids": ids}).json()
        acked += answer["acked"]


def test_a_full_topic_refuses_until_acks_make_room(
    running: Installation, http: requests.Session
) -> None:
    url, stored = running.url, 0
    name = make(http, url)

    def refused() -> Any:
        nonlocal stored
        answer = publish(http, url, name)
        assert answer.status_code in (201, 507), answer.text
        stored += answer.status_code == 201
        return answer.json() if answer.status_code == 507 else None

    began_s = time.monotonic()
    problem = until(refused, "507")
    print(f"refused after {stored} KB and {time.monotonic() - began_s:.1f} s")
    assert problem["type"].endswith("topic-full")
    assert f"{LIMIT_BYTES:,} bytes" in problem["detail"]
    assert problem["detail"].startswith(http.get(f"{url}/topics/{name}").json()["full"])
    assert ack_all(http, url, name) == stored
    began_s = time.monotonic()
    until(lambda: publish(http, url, name).status_code == 201, "room")
    print(f"room again after {time.monotonic() - began_s:.1f} s")
    assert http.get(f"{url}/topics/{name}").json()["full"] is None


def test_expire_oldest_takes_what_comes_and_counts_what_goes(
    running: Installation, http: requests.Session
) -> None:
    url = running.url
    name = make(http, url, on_limit="expire_oldest")
    stored = 0

    def expired() -> int:
        nonlocal stored
        if stored < 400:
            assert publish(http, url, name).status_code == 201
            stored += 1
        backlog = http.get(f"{url}/subscriptions/{name}/backlog").json()
        return sum(each["expired"] for each in backlog["partitions"])

    until(expired, "expired messages")
    until(lambda: expired() and stored == 400, "all of them published")
    acked = 0

    def settled() -> bool:
        nonlocal acked
        acked += ack_all(http, url, name)
        return acked + expired() == stored

    until(settled, "every message acked or expired")
    assert acked > 0


def test_what_was_acked_is_gone_and_a_late_reader_begins_after_it(
    running: Installation, http: requests.Session
) -> None:
    url = running.url
    name = make(http, url, bytes=None)
    for _ in range(20):
        assert publish(http, url, name).status_code == 201
    assert ack_all(http, url, name) == 20

    def late() -> bool:
        subscription = {"name": f"late-{uuid.uuid4().hex[:8]}", "start": "earliest"}
        http.post(f"{url}/topics/{name}/subscriptions", json=subscription).raise_for_status()
        pulled = http.get(f"{url}/subscriptions/{subscription['name']}/messages").json()
        http.delete(f"{url}/subscriptions/{subscription['name']}?force=true").raise_for_status()
        return pulled["messages"] == []

    until(late, "the trim")
