"""Push subscriptions of a running installation, to endpoints that behave and that do not."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
import requests

from harness.hostile_endpoint import HostileEndpoint
from harness.hostile_endpoint import running as running_endpoint
from tests.e2e.installation import Installation


@pytest.fixture(scope="module")
def endpoint() -> Iterator[HostileEndpoint]:
    with running_endpoint() as made:
        yield made


class Site:
    """A topic with push subscriptions."""

    def __init__(self, installation: Installation) -> None:
        self.http = installation.session()
        self.url = installation.url
        self.topic = f"hooks-{uuid.uuid4().hex[:8]}"
        # Delivered messages stay, to be replayed.
        topic = {"name": self.topic, "partitions": 2, "retention": {"mode": "retain"}}
        self.call("POST", "/topics", topic, 201)
        letters = {"name": f"{self.topic}-dead", "partitions": 1}
        self.call("POST", "/topics", letters, 201)

    def call(self, method: str, path: str, body: object = None, status: int = 200) -> Any:
        answer: requests.Response = self.http.request(method, self.url + path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def subscribe(self, url: str, **fields: Any) -> str:
        """Subscribe; return the subscription's name."""
        name = f"{self.topic}-{uuid.uuid4().hex[:8]}"
        push = {"url": url, "verify": False, "timeout_seconds": 1} | fields.pop("push", {})
        body = {
            "name": name,
            "type": "push",
            "push": push,
            "start": "earliest",
            "dead_letter_topic": f"{self.topic}-dead",
            "retry": {"min_backoff_seconds": 0.1, "max_backoff_seconds": 0.2, "max_attempts": 3},
        }
        self.call("POST", f"/topics/{self.topic}/subscriptions", body | fields, 201)
        return name

    def publish(self, count: int) -> list[str]:
        """Publish messages; return their ids."""
        messages = [{"data": {"n": n}} for n in range(count)]
        answer = self.call("POST", f"/topics/{self.topic}/messages:batch", {"messages": messages})
        return [one["message_id"] for one in answer["results"]]

    def backlog(self, name: str) -> Any:
        return self.call("GET", f"/subscriptions/{name}/backlog")

    def dead_letters(self, name: str) -> Any:
        return self.call("GET", f"/subscriptions/{name}/dead_letters")["dead_letters"]

    def attempts(self, name: str, query: str = "") -> Any:
        return self.call("GET", f"/subscriptions/{name}/attempts?{query}")["attempts"]


@pytest.fixture(scope="module")
def site(running: Installation) -> Site:
    return Site(running)


def until(true: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def ids_of(endpoint: HostileEndpoint, name: str) -> list[str]:
    return [
        message["message_id"]
        for one in endpoint.received
        if one.header("packetboat-subscription") == name and b'"messages"' in one.body
        for message in msgspec.json.decode(one.body)["messages"]
    ]


def test_messages_are_pushed_listed_tested_and_replayed(
    site: Site, endpoint: HostileEndpoint
) -> None:
    name = site.subscribe(endpoint.url("/ok"))
    published = site.publish(20)
    until(lambda: site.backlog(name)["messages"] == 0)
    assert sorted(ids_of(endpoint, name)) == sorted(published)
    push = site.backlog(name)["push"]
    assert (push["state"], push["breaker"], push["delivered"]) == ("enabled", "closed", 20)

    until(lambda: len(site.attempts(name)) == 20)
    (one,) = site.attempts(name, f"message_id={published[3]}")
    assert (one["outcome"], one["status"], one["attempt"]) == ("delivered", 200, 1)
    page = site.call("GET", f"/subscriptions/{name}/attempts?page_size=15")
    rest = site.call(
        "GET",
        f"/subscriptions/{name}/attempts?page_size=15&page_token={page['next_page_token']}",
    )
    assert (len(page["attempts"]), len(rest["attempts"])) == (15, 5)
    assert rest["next_page_token"] is None

    tried = site.call("POST", f"/subscriptions/{name}:test", {})
    assert (tried["outcome"], tried["status"]) == ("delivered", 200)
    assert tried["request_id"] in ids_of(endpoint, name)

    assert replay(site, name, [*published, "nothing"]) == [
        {"message_id": "nothing", "reason": "not_found"}
    ]
    until(lambda: len(ids_of(endpoint, name)) == 41)
    span = {"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z", "max_messages": 5}
    done = site.call("POST", f"/subscriptions/{name}:replay", span, 202)
    assert (done["replayed"], done["complete"]) == (5, False)
    until(lambda: len(ids_of(endpoint, name)) == 46)


def replay(site: Site, name: str, ids: list[str]) -> list[dict[str, str]]:
    """Replay each message once; return those that are skipped for good.

    A delivery is committed a moment after it is told, and only then settled.
    """
    deadline_s = time.monotonic() + 60
    skipped: list[dict[str, str]] = []
    while ids:
        assert time.monotonic() < deadline_s
        done = site.call("POST", f"/subscriptions/{name}:replay", {"message_ids": ids}, 202)
        assert (done["replayed"] + len(done["skipped"]), done["complete"]) == (len(ids), True)
        early = [one for one in done["skipped"] if one["reason"] == "not_settled"]
        skipped += [one for one in done["skipped"] if one not in early]
        ids = [one["message_id"] for one in early]
    return skipped


BAD = ["/hang", "/drip", "/huge", "/redirect", "/early-close", "/garbage", "/status/418"]


def test_whatever_an_endpoint_does_messages_are_dead_lettered_and_others_go_on(
    site: Site, endpoint: HostileEndpoint
) -> None:
    with ExitStack() as stack:
        bad = []
        for number, path in enumerate(BAD):  # an origin each: what is shut is shut for all of it
            hostile = stack.enter_context(running_endpoint(f"127.0.0.{10 + number}"))
            bad.append(site.subscribe(hostile.url(path), start="latest"))
        good = site.subscribe(endpoint.url("/ok"), start="latest")
        published = site.publish(2)
        until(lambda: sorted(ids_of(endpoint, good)) == sorted(published), 20)
        for name in bad:
            until(lambda name=name: len(site.dead_letters(name)) == 2)  # type: ignore[misc]
            assert site.backlog(name)["messages"] == 0


def test_one_that_is_gone_is_disabled_and_goes_on_when_it_is_enabled(
    site: Site, endpoint: HostileEndpoint
) -> None:
    name = site.subscribe(endpoint.url("/410"), start="latest")
    site.publish(3)
    until(lambda: site.backlog(name)["push"]["state"] == "disabled")
    assert "410" in site.backlog(name)["push"]["reason"]
    assert site.backlog(name)["messages"] == 3
    push = {"push": {"url": endpoint.url("/ok"), "verify": False}}
    site.call("PATCH", f"/subscriptions/{name}", push)
    assert site.backlog(name)["push"]["state"] == "disabled", "until somebody says so"
    site.call("POST", f"/subscriptions/{name}:enable", {})
    until(lambda: site.backlog(name)["messages"] == 0)
    assert len(ids_of(endpoint, name)) >= 3


def test_nothing_is_sent_to_who_did_not_answer_the_challenge(
    site: Site, endpoint: HostileEndpoint
) -> None:
    name = site.subscribe(endpoint.url("/status/204"), start="latest", push={"verify": True})
    site.publish(1)
    until(lambda: "repeat" in (site.backlog(name)["push"]["reason"] or ""))
    state = site.call("POST", f"/subscriptions/{name}:verify", {})
    assert state["state"] == "unverified"
    problem = site.call("POST", f"/subscriptions/{name}:test", {}, 409)
    assert problem["type"].endswith("/endpoint-unverified")
    assert ids_of(endpoint, name) == []


def test_others_are_refused(site: Site) -> None:
    name = f"{site.topic}-pull"
    site.call("POST", f"/topics/{site.topic}/subscriptions", {"name": name}, 201)
    for method, path in (("GET", "/attempts"), ("POST", ":test"), ("POST", ":enable")):
        problem = site.call(method, f"/subscriptions/{name}{path}", None, 409)
        assert problem["type"].endswith("/not-a-push-subscription")
    site.call("GET", "/subscriptions/nobodys/attempts", None, 404)
