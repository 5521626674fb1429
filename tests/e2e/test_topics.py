"""Topics over HTTP: changed in place, deleted with care; messages that live for a while only."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation


@pytest.fixture
def http(running: Installation) -> Iterator[requests.Session]:
    with running.session() as session:
        yield session


@pytest.fixture
def topic(running: Installation, http: requests.Session) -> Iterator[str]:
    """Yield the URL of a topic with a partition, which no two tests share."""
    url = f"{running.url}/topics/topics-{uuid.uuid4().hex[:8]}"
    http.put(url, json={"partitions": 1}).raise_for_status()
    yield url
    http.delete(f"{url}?force=true")


def subscribed(running: Installation, http: requests.Session, topic: str) -> str:
    """Make a subscription; return its URL."""
    name = f"reader-{uuid.uuid4().hex[:8]}"
    http.post(f"{topic}/subscriptions", json={"name": name}).raise_for_status()
    return f"{running.url}/subscriptions/{name}"


def slug(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition("/")[2]


def test_a_topic_is_put_as_often_as_wanted(running: Installation, http: requests.Session) -> None:
    url = f"{running.url}/topics/put-{uuid.uuid4().hex[:8]}"
    wanted: dict[str, Any] = {"partitions": 2, "priorities": 3, "labels": {"team": "a"}}
    made = http.put(url, json=wanted)
    assert (made.status_code, made.headers["location"]) == (201, url.removeprefix(running.url))
    again = http.put(url, json=wanted)
    assert (again.status_code, again.json()) == (200, made.json())
    assert again.headers["etag"] == made.headers["etag"]
    changed = http.put(url, json={"dedup_window_seconds": 60, "retention": {"mode": "retain"}})
    assert changed.status_code == 200
    assert {**changed.json(), "updated_at": ""} == {
        **made.json(),
        "updated_at": "",
        "labels": {},
        "dedup_window_seconds": 60,
        "retention": made.json()["retention"] | {"mode": "retain"},
    }
    lanes = http.get(f"{url}/partitions").json()["partitions"]
    assert [(each["partition"], each["lane"]) for each in lanes] == [
        (number, lane) for number in range(2) for lane in range(3)
    ]
    assert http.delete(url).status_code == 204


def test_a_patch_changes_what_it_names_and_no_more(http: requests.Session, topic: str) -> None:
    before = http.get(topic)
    answer = http.patch(
        topic,
        json={"ack_history": True, "labels": {"a": "b"}},
        headers={"If-Match": before.headers["etag"]},
    )
    assert answer.status_code == 200
    shown = answer.json()
    assert shown.pop("updated_at") > before.json()["updated_at"]
    assert shown == {
        **{name: value for name, value in before.json().items() if name != "updated_at"},
        "ack_history": True,
        "labels": {"a": "b"},
    }
    stale = http.patch(topic, json={"labels": {}}, headers={"If-Match": before.headers["etag"]})
    assert slug(stale) == (412, "precondition-failed")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("body", [{"name": "other"}, {"partitions": 2}, {"priorities": 2}], ids=str)
def test_some_things_never_change(
    http: requests.Session, topic: str, method: str, body: dict[str, Any]
) -> None:
    answer = http.request(method, topic, json=body)
    assert slug(answer) == (409, "immutable-field")
    assert [error["field"] for error in answer.json()["errors"]] == list(body)


def test_what_does_not_fit_is_refused_by_name(http: requests.Session, topic: str) -> None:
    for body, field in (
        ({"retention": {"seconds": 5}}, "retention.seconds"),
        ({"schema": "no-such-schema"}, "schema"),
        ({"surprise": 1}, "surprise"),
    ):
        answer = http.patch(topic, json=body)
        assert slug(answer) == (422, "invalid-request")
        assert [error["field"] for error in answer.json()["errors"]] == [field]
    wide = http.put(f"{topic}-wide", json={"partitions": 256, "priorities": 10})
    assert slug(wide) == (422, "invalid-request")
    missing = http.patch(f"{topic}-missing", json={})
    assert slug(missing) == (404, "topic-not-found")


def test_a_topic_with_undelivered_messages_is_deleted_by_force_only(
    running: Installation, http: requests.Session, topic: str
) -> None:
    reader = subscribed(running, http, topic)
    http.post(f"{topic}/messages", data=b"a").raise_for_status()
    http.post(f"{topic}/messages", data=b"b").raise_for_status()
    refused = http.delete(topic)
    assert slug(refused) == (409, "backlog-not-empty")
    assert refused.json()["errors"] == [
        {"field": reader.rpartition("/")[2], "detail": "2 messages"}
    ]
    assert http.delete(f"{topic}?force=maybe").status_code == 400
    messages = http.get(f"{reader}/messages?wait_seconds=10").json()["messages"]
    while len(messages) < 2:
        messages += http.get(f"{reader}/messages?wait_seconds=10").json()["messages"]
    http.post(
        f"{reader}/ack", json={"ack_ids": [each["ack_id"] for each in messages]}
    ).raise_for_status()
    assert http.delete(topic).status_code == 204
    assert http.get(topic).status_code == 404


def test_what_would_be_lost_with_a_topic_is_named_and_deleted_by_force_only(
    running: Installation, http: requests.Session, topic: str
) -> None:
    """A delayed message, a snapshot and open dead letters: no subscription has a backlog."""
    name = topic.rpartition("/")[2]
    http.put(f"{topic}-dead", json={"partitions": 1, "retention": {"mode": "retain"}})
    spec = {"name": name, "dead_letter_topic": f"{name}-dead", "retry": {"max_attempts": 1}}
    http.post(f"{topic}/subscriptions", json=spec).raise_for_status()
    reader = f"{running.url}/subscriptions/{name}"
    http.post(f"{topic}/messages", data=b"poison").raise_for_status()
    (message,) = http.get(f"{reader}/messages?wait_seconds=20").json()["messages"]
    http.post(f"{reader}/reject", json={"ack_id": message["ack_id"]}).raise_for_status()
    until_s = time.monotonic() + 30
    while not http.get(f"{reader}/dead_letters").json()["dead_letters"]:
        assert time.monotonic() < until_s, "no dead letter"
        time.sleep(0.1)
    http.post(f"{reader}/snapshots", json={"name": f"{name}-then"}).raise_for_status()
    delayed = {"Content-Type": "text/plain", "Packetboat-Delay": "600"}
    http.post(f"{topic}/messages", data=b"later", headers=delayed).raise_for_status()

    waits, letter = ("delayed", None, 1), ("dead_letters", name, 1)
    for url, expected in (
        (topic, [waits, ("snapshot", f"{name}-then", 0), letter]),
        (reader, [waits, letter]),
        (f"{topic}-dead", [letter]),
    ):
        refused = http.delete(url)
        assert refused.status_code == 409, url
        assert slug(refused) == (409, "backlog-not-empty")
        told = [(one["kind"], one["name"], one["messages"]) for one in refused.json()["holds"]]
        assert sorted(told) == sorted(expected)
        listed = http.get(f"{url}/holds").json()["holds"]
        assert [(one["kind"], one["name"], one["messages"]) for one in listed] == expected
        assert all(one["advice"] for one in listed)
    for url in (reader, topic, f"{topic}-dead"):
        assert http.delete(f"{url}?force=true").status_code == 204


def test_a_message_whose_time_is_over_is_not_delivered(
    running: Installation, http: requests.Session, topic: str
) -> None:
    reader = subscribed(running, http, topic)
    messages = f"{topic}/messages"
    http.post(messages, data=b"brief", headers={"Packetboat-TTL": "0.001"}).raise_for_status()
    delayed = {
        "Content-Type": "text/plain",
        "Packetboat-TTL": "60",
        "Packetboat-Delay": "1",
    }
    http.post(messages, data=b"later", headers=delayed).raise_for_status()
    items = [
        {"data": "short", "ttl_seconds": 0.001},
        {"data": "long", "ttl_seconds": 60},
        {"data": "for ever"},
    ]
    http.post(f"{messages}:batch", json={"messages": items}).raise_for_status()
    time.sleep(0.05)
    seen: list[str] = []
    while len(seen) < 3:
        found = http.get(f"{reader}/messages?wait_seconds=10").json()["messages"]
        seen += [each["data"] for each in found]
        ids = {"ack_ids": [each["ack_id"] for each in found]}
        http.post(f"{reader}/ack", json=ids).raise_for_status()
    assert sorted(seen) == ["for ever", "later", "long"]
    (partition,) = http.get(f"{reader}/backlog").json()["partitions"]
    assert (partition["expired"], partition["acked"]) == (2, 3)
