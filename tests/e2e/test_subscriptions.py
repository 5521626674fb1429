"""Subscriptions as a caller makes and changes them, and what of a topic they read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation

PATIENCE_S = 20.0


class Api:
    """A topic of one partition, and calls that name it."""

    def __init__(self, installation: Installation, topic: str) -> None:
        self.http = installation.session()
        self.url = installation.url
        self.topic = topic
        self.call("POST", "/topics", 201, {"name": topic, "partitions": 1})

    def call(
        self, method: str, path: str, status: int, body: object = None, **headers: str
    ) -> requests.Response:
        answer = self.http.request(method, self.url + path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer

    def subscribe(self, name: str, **fields: Any) -> requests.Response:
        body = {"name": name, "start": "earliest"} | fields
        return self.call("POST", f"/topics/{self.topic}/subscriptions", 201, body)

    def publish(self, *messages: dict[str, Any]) -> None:
        body = {"messages": list(messages)}
        answer = self.call("POST", f"/topics/{self.topic}/messages:batch", 200, body)
        assert all("message_id" in result for result in answer.json()["results"])

    def pull_and_ack(self, name: str) -> list[Any]:
        answer = self.call("GET", f"/subscriptions/{name}/messages?max_messages=1000", 200)
        messages = answer.json()["messages"]
        if messages:
            ids = {"ack_ids": [message["ack_id"] for message in messages]}
            self.call("POST", f"/subscriptions/{name}/ack", 200, ids)
        return [message["data"] for message in messages]


@pytest.fixture
def api(running: Installation) -> Api:
    return Api(running, f"filters-{uuid.uuid4().hex[:8]}")


def until(done: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline_s, f"{what} did not come"
        time.sleep(0.05)


def order(number: int, kind: str = "order") -> dict[str, Any]:
    return {"data": {"n": number}, "attributes": {"kind": kind}}


def test_put_is_idempotent_and_patch_changes_a_part(api: Api) -> None:
    path = f"/subscriptions/{api.topic}"
    body = {"topic": api.topic, "filter": "data.n > 1", "max_outstanding": 5, "ordered": True}
    made = api.call("PUT", path, 201, body)
    assert (made.json()["filter"], made.headers["location"]) == ("data.n > 1", path)
    again = api.call("PUT", path, 200, body)
    assert (again.json(), again.headers["etag"]) == (made.json(), made.headers["etag"])
    patched = api.call("PATCH", path, 200, {"rate_limit": {"messages_per_second": 9}})
    assert patched.headers["etag"] != made.headers["etag"]
    assert patched.json()["rate_limit"]["messages_per_second"] == 9
    assert patched.json()["filter"] == "data.n > 1"
    assert api.call("GET", path, 200).json() == patched.json()
    stale = {"If-Match": made.headers["etag"]}
    api.call("PATCH", path, 412, {"filter": None}, **stale)
    api.call("PUT", path, 412, body, **stale)
    present = {"If-Match": patched.headers["etag"]}
    assert api.call("PUT", path, 200, body, **present).json()["rate_limit"] is None
    for change in ({"ordered": False}, {"topic": "other"}, {"delivery": "exactly_once"}):
        refused = api.call("PUT", path, 409, body | change).json()
        assert refused["type"].endswith("immutable-field")
    api.call("PUT", f"{path}-new", 422, {})
    api.call("PUT", f"{path}-new", 422, {"topic": "no-such-topic"})
    api.call("PUT", f"{path}-new", 412, body, **{"If-Match": '"1"'})
    api.call("PATCH", f"{path}-new", 404, {})


def test_one_of_many_puts_at_once_makes_it(api: Api, running: Installation) -> None:
    url, body = f"{api.url}/subscriptions/{api.topic}", {"topic": api.topic, "labels": {"a": "b"}}

    def put(_: int) -> requests.Response:
        return running.session().put(url, json=body, timeout=PATIENCE_S)

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(put, range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.headers["etag"] for answer in answers}) == 1


def test_a_dead_letter_topic_must_be_there_when_it_is_named(api: Api) -> None:
    dead, path = f"{api.topic}-dead", f"/subscriptions/{api.topic}"
    fields = {"dead_letter_topic": dead, "retry": {"max_attempts": 2}}
    body = {"name": api.topic, **fields}
    refused = api.call("POST", f"/topics/{api.topic}/subscriptions", 422, body).json()
    assert [error["field"] for error in refused["errors"]] == ["dead_letter_topic"]
    api.call("POST", "/topics", 201, {"name": dead})
    api.subscribe(api.topic, **fields)
    api.call("DELETE", f"/topics/{dead}", 204)
    assert api.call("PATCH", path, 200, {"labels": {"a": "b"}}).json()["dead_letter_topic"] == dead
    api.call("PATCH", path, 422, {"dead_letter_topic": None})


def test_a_backlog_is_deleted_only_by_force(api: Api) -> None:
    name, path = api.topic, f"/subscriptions/{api.topic}"
    api.subscribe(name)
    api.publish(order(1), order(2), order(3))
    refused = api.call("DELETE", path, 409).json()
    assert refused["type"].endswith("backlog-not-empty")
    assert refused["errors"] == [{"field": name, "detail": "3 messages"}]
    api.call("DELETE", path + "?force=no", 400)
    assert len(api.pull_and_ack(name)) == 3
    api.call("DELETE", path, 204)
    api.subscribe(name)
    api.publish(order(4))
    api.call("DELETE", path, 409)
    api.call("DELETE", f"/topics/{api.topic}{path}?force=true", 204)
    api.call("GET", path, 404)


def test_a_filter_decides_what_is_delivered_and_changes_in_place(api: Api) -> None:
    name, path = api.topic, f"/subscriptions/{api.topic}"
    api.subscribe(name, filter='attributes.kind == "order" && data.n % 2 == 0')
    api.subscribe(f"{name}-all")
    api.publish(*(order(n) for n in range(6)), order(6, "refund"), {"data": "text"})
    assert [data["n"] for data in api.pull_and_ack(name)] == [0, 2, 4]
    assert api.pull_and_ack(name) == []
    assert len(api.pull_and_ack(f"{name}-all")) == 8
    api.call("PATCH", path, 200, {"filter": 'attributes.kind == "refund"'})
    seen: list[Any] = []

    def followed() -> bool:
        api.publish(order(10), order(11, "refund"))
        seen.extend(api.pull_and_ack(name))
        return {"n": 11} in seen

    until(followed, "the new filter")
    api.publish(order(12), order(13, "refund"), order(14))
    assert api.pull_and_ack(name) == [{"n": 13}]


def test_skip_rules_pass_over_messages_and_keep_their_audit(api: Api) -> None:
    name, rules = api.topic, f"/subscriptions/{api.topic}/skip_rules"
    api.subscribe(name)
    api.publish(*(order(n) for n in range(4)), order(4, "bad"), order(5, "bad"))
    body = {"expression": 'attributes.kind == "bad"', "reason": "ticket 7"}
    made = api.call("POST", rules, 201, body).json()
    assert (made["reason"], made["removed_at"]) == ("ticket 7", None)
    assert made["created_by"]
    seen: list[Any] = []

    def followed() -> bool:
        api.publish(order(7, "bad"))
        seen.extend(api.pull_and_ack(name))
        listed = api.call("GET", rules, 200).json()
        return bool(listed["skipped"] > 0)

    until(followed, "the rule")
    assert [one["id"] for one in api.call("GET", rules, 200).json()["skip_rules"]] == [made["id"]]
    assert [data["n"] for data in seen[:4]] == [0, 1, 2, 3]
    api.call("DELETE", f"{rules}/{made['id']}", 204)
    api.call("DELETE", f"{rules}/{made['id']}", 204)
    api.call("DELETE", f"{rules}/nothing", 404)
    assert api.call("GET", rules, 200).json()["skip_rules"] == []
    (kept,) = api.call("GET", rules + "?removed=true", 200).json()["skip_rules"]
    assert kept["removed_by"] == made["created_by"]
    assert kept["removed_at"]

    def delivered_again() -> bool:
        api.publish(order(8, "bad"))
        return {"n": 8} in api.pull_and_ack(name)

    until(delivered_again, "the removal")
    refused = api.call("POST", rules, 422, {"expression": "1 +", "reason": "x"}).json()
    assert refused["errors"][0]["field"] == "expression"


def test_a_preview_counts_and_shows_and_touches_nothing(api: Api) -> None:
    name = api.topic
    api.subscribe(name, filter="data.n >= 2")
    api.publish(*(order(n) for n in range(10)), {"data": "text"})
    asked = {"filter": "data.n < 4"}
    seen = api.call("POST", f"/subscriptions/{name}:preview_filter", 200, asked).json()
    assert (seen["examined"], seen["matched"], seen["errors"]) == (11, 4, 1)
    assert seen["changes"] == {"newly_matched": 2, "no_longer_matched": 6}
    assert [sample["offset"] for sample in seen["samples"]["matched"]] == [3, 2, 1, 0]
    assert len(seen["samples"]["unmatched"]) == 5
    assert seen["samples"]["matched"][0]["attributes"] == {"kind": "order"}
    latest = {"filter": "true", "messages": 3}
    seen = api.call("POST", f"/topics/{name}:preview_filter", 200, latest).json()
    assert (seen["examined"], seen["matched"]) == (3, 3)
    api.call("POST", f"/topics/{name}:preview_filter", 422, {"filter": "n ="})
    api.call("POST", f"/topics/{name}:preview_filter", 422, {"filter": "true", "messages": 0})
    assert len(api.pull_and_ack(name)) == 8
