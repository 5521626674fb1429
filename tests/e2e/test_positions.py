"""Replay, seek and snapshots over real sockets, store nodes and Postgres."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
import requests

from tests.e2e.installation import Installation

TRIM_TIMEOUT_S = 30.0


class Site:
    """Topics and subscriptions of one test, by short names."""

    def __init__(self, url: str, http: requests.Session) -> None:
        self.url = url
        self.http = http
        self._mark = uuid.uuid4().hex[:8]

    def name(self, short: str) -> str:
        return f"positions-{short}-{self._mark}"

    def topic(self, short: str, **fields: Any) -> str:
        body = {"name": self.name(short), "partitions": 1} | fields
        self.http.post(f"{self.url}/topics", json=body).raise_for_status()
        self.post(f"topics/{self.name(short)}/subscriptions", {"name": self.name(short)})
        return self.name(short)

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.http.post(f"{self.url}/{path}", json=body)
        assert answer.ok, answer.text
        return answer.json()

    def publish(self, topic: str, *bodies: str) -> None:
        self.post(f"topics/{topic}/messages:batch", {"messages": [{"data": one} for one in bodies]})

    def drain(self, subscription: str) -> list[str]:
        data: list[str] = []
        path = f"{self.url}/subscriptions/{subscription}/messages?max_messages=100"
        while messages := self.http.get(path).json()["messages"]:
            data += [message["data"] for message in messages]
            ids = [message["ack_id"] for message in messages]
            self.post(f"subscriptions/{subscription}/ack", {"ack_ids": ids})
        return data

    def read(self, topic: str, query: str = "", accept: str = "*/*") -> requests.Response:
        path = f"{self.url}/topics/{topic}/partitions/0/messages?{query}"
        return self.http.get(path, headers={"Accept": accept})


@pytest.fixture
def site(running: Installation) -> Iterator[Site]:
    with running.session() as session:
        yield Site(running.url, session)


def test_retained_messages_are_read_after_all_are_acked_and_consumed_ones_go(site: Site) -> None:
    kept = site.topic("kept", retention={"mode": "retain", "seconds": 3600})
    gone = site.topic("gone")
    for topic in (kept, gone):
        site.publish(topic, "a", "b", "c")
        assert site.drain(topic) == ["a", "b", "c"]
    give_up_s = time.monotonic() + TRIM_TIMEOUT_S
    while site.read(gone).json()["first_offset"] < 3 and time.monotonic() < give_up_s:
        time.sleep(0.1)
    refused = site.read(gone, "offset=0")
    assert (refused.status_code, refused.json()["first_offset"]) == (410, 3)
    assert [each["data"] for each in site.read(kept).json()["messages"]] == ["a", "b", "c"]
    lines = site.read(kept, accept="application/x-ndjson").text.splitlines()
    assert [json.loads(line)["data"] for line in lines] == ["a", "b", "c"]
    stream = site.read(kept, accept="application/vnd.apache.arrow.stream").content
    table = pyarrow.ipc.open_stream(stream).read_all()
    assert table.column("data").to_pylist() == [b"a", b"b", b"c"]


def test_a_snapshot_holds_messages_and_brings_them_back(site: Site) -> None:
    topic = site.topic("held")
    site.publish(topic, "a", "b", "c", "d")
    path = f"subscriptions/{topic}/messages"
    messages = site.http.get(f"{site.url}/{path}?max_messages=4").json()["messages"]
    site.post(f"subscriptions/{topic}/ack", {"ack_ids": [messages[0]["ack_id"]]})
    site.post(f"subscriptions/{topic}/snapshots", {"name": topic})
    site.post(f"subscriptions/{topic}/ack", {"ack_ids": [m["ack_id"] for m in messages]})
    give_up_s = time.monotonic() + TRIM_TIMEOUT_S
    while site.read(topic).json()["first_offset"] < 1 and time.monotonic() < give_up_s:
        time.sleep(0.1)
    assert site.read(topic).json()["first_offset"] == 1, "trimmed up to the snapshot, no further"
    sought = site.post(f"subscriptions/{topic}/seek", {"to": {"snapshot": topic}})
    assert sought["backlog"] == 3
    assert site.drain(topic) == ["b", "c", "d"]
    listed = site.http.get(f"{site.url}/snapshots").json()["snapshots"]
    assert topic in [each["name"] for each in listed]
    assert site.http.delete(f"{site.url}/snapshots/{topic}").status_code == 204
    assert site.http.get(f"{site.url}/snapshots/{topic}").status_code == 404


def test_a_subscription_begins_at_a_snapshot(site: Site) -> None:
    topic = site.topic("origin")
    site.publish(topic, "a", "b")
    site.post(f"subscriptions/{topic}/snapshots", {"name": topic})
    second = site.name("second")
    body = {"name": second, "start": {"snapshot": topic}}
    site.post(f"topics/{topic}/subscriptions", body)
    assert site.drain(second) == ["a", "b"]
    other = site.topic("other")
    refused = site.http.post(f"{site.url}/topics/{other}/subscriptions", json=body | {"name": "x"})
    assert refused.status_code == 409


def test_a_paused_subscription_says_so(site: Site) -> None:
    topic = site.topic("paused")
    site.publish(topic, "a")
    site.post(f"subscriptions/{topic}/pause", {"reason": "deploy"})
    assert site.drain(topic) == []
    shown = site.http.get(f"{site.url}/subscriptions/{topic}").json()
    assert (shown["state"], shown["state_reason"]) == ("paused", "deploy")
    assert site.http.get(f"{site.url}/subscriptions/{topic}/backlog").json()["paused"] == "paused"
    site.post(f"subscriptions/{topic}/resume")
    assert site.drain(topic) == ["a"]
