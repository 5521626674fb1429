"""Open streams and waits end when their caller's access ends: over real sockets, by the
change feed.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import requests

from tests.e2e.installation import Installation

SOON_S = 8.0
"""Seconds for a change to be heard of, and for open requests to end."""
_numbers = itertools.count(1)


class Api:
    """Requests of one credential."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def __call__(self, method: str, path: str, **arguments: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.request(method, self.url + path, headers=headers, timeout=30, **arguments)

    def ok(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self(method, path, **arguments)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def publish(self, data: str) -> None:
        self.ok("POST", "/topics/orders/messages:batch", json={"messages": [{"data": data}]})


class Open:
    """A stream and what has come on it, read by a thread of its own."""

    def __init__(self, api: Api, path: str, *, http2: bool = False) -> None:
        self.lines: list[dict[str, Any]] = []
        self.lost: Exception | None = None
        self._api, self._path, self._http2 = api, path, http2
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        until(lambda: bool(self.lines))

    def _read(self) -> None:
        headers = {"Authorization": f"Bearer {self._api.token}"}
        client = httpx.Client(http1=not self._http2, http2=self._http2, timeout=60)
        url = self._api.url + self._path
        with client, client.stream("GET", url, headers=headers) as answer:
            try:
                for line in answer.iter_lines():
                    self.lines.append(json.loads(line))
            except httpx.HTTPError as error:
                self.lost = error

    @property
    def data(self) -> list[str]:
        return [line["message"]["data"] for line in self.lines if "message" in line]

    def ended_with(self) -> tuple[str, int]:
        self.thread.join(SOON_S)
        assert not self.thread.is_alive(), "it goes on"
        assert self.lost is None, self.lost
        end = self.lines[-1]["end"]
        return end["reason"], end["problem"]["status"]


def until(met: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not met():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


class Place:
    """A tenant with a topic, two subscriptions and a key for each; `operator` is above it."""

    def __init__(self, installation: Installation) -> None:
        self.operator = Api(installation.url, installation.token)
        self.name = f"open-{next(_numbers)}"
        made = self.operator.ok(
            "POST", "/tenants", json={"name": self.name, "owner": {"name": "root"}}
        )
        self.url = installation.url
        self.owner = self.client(made["owner"])
        self.owner.ok("POST", "/topics", json={"name": "orders", "partitions": 1})
        for name in ("a", "b"):
            self.owner.ok("POST", "/topics/orders/subscriptions", json={"name": name})
        self.a, self.b = self.key("a"), self.key("b")

    def client(self, made: dict[str, str]) -> Api:
        answer = requests.post(
            f"{self.url}/oauth/token",
            data={"grant_type": "client_credentials"},
            auth=(made["client_id"], made["client_secret"]),
            timeout=30,
        )
        return Api(self.url, answer.json()["access_token"])

    def key(self, name: str, **more: str) -> Api:
        body = {"name": name, "scopes": ["consume", "read", "lock"], **more}
        return Api(self.url, self.owner.ok("POST", "/keys", json=body)["key"])

    def suspend(self) -> None:
        body = {"display_name": self.name, "state": "suspended"}
        self.operator.ok("PUT", f"/tenants/{self.name}", json=body)


@pytest.fixture
def place(running: Installation) -> Iterator[Place]:
    place = Place(running)
    yield place
    place.operator("DELETE", f"/tenants/{place.name}?force=true")


def stream_of(name: str) -> str:
    return f"/subscriptions/{name}/messages:stream"


@pytest.mark.parametrize("http2", [False, True])
def test_a_deleted_key_ends_its_stream_and_no_other(place: Place, http2: bool) -> None:
    ends = Open(place.a, stream_of("a"), http2=http2)
    goes_on = Open(place.b, stream_of("b"), http2=http2)
    place.owner.publish("before")
    until(lambda: ends.data == goes_on.data == ["before"])
    place.owner.ok("DELETE", "/keys/a")
    assert ends.ended_with() == ("problem", 401)
    place.owner.publish("after")
    until(lambda: goes_on.data == ["before", "after"])
    assert ends.data == ["before"]
    # Later messages are delivered to others, for the first time.
    fresh = place.key("c").ok("GET", "/subscriptions/a/messages?wait_seconds=5")["messages"]
    assert [(each["data"], each["attempt"]) for each in fresh] == [("after", 1)]


def test_a_suspended_tenant_ends_all_that_is_open(place: Place, running: Installation) -> None:
    other = Place(running)
    streams = [Open(place.a, stream_of("a")), Open(place.b, "/backlog:stream")]
    goes_on = Open(other.a, stream_of("a"))
    place.suspend()
    assert [each.ended_with() for each in streams] == [("problem", 403)] * 2
    other.owner.publish("after")
    until(lambda: goes_on.data == ["after"])
    other.operator("DELETE", f"/tenants/{other.name}?force=true")


def test_revoked_tokens_end_what_waits_with_the_answer_of_a_request(place: Place) -> None:
    """A pull ends, and so does a request that waits for a lock."""
    made = place.owner.ok("POST", "/clients", json={"name": "app"})
    policy = {"role": "subscriber", "members": ["client:app"], "resources": ["*"]}
    place.owner.ok("PUT", "/policies/app", json=policy)
    app = place.client(made)
    place.b.ok("POST", "/locks/l:acquire", json={"ttl_seconds": 60})
    answers: list[requests.Response] = []

    def ask(method: str, path: str, body: Any = None) -> None:
        answers.append(app(method, path, json=body))

    waits = [
        threading.Thread(target=ask, args=("GET", "/subscriptions/a/messages?wait_seconds=25")),
        threading.Thread(
            target=ask,
            args=("POST", "/locks/l:acquire", {"ttl_seconds": 60, "wait_seconds": 25}),
        ),
    ]
    for wait in waits:
        wait.start()
    time.sleep(0.5)
    assert answers == []
    place.owner.ok("POST", "/clients/app:revoke_tokens")
    for wait in waits:
        wait.join(SOON_S)
    assert [answer.status_code for answer in answers] == [401, 401]


def test_a_key_that_expires_ends_its_stream(place: Place) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=3)
    key = place.key("short", expires_at=expires_at.isoformat())
    ends = Open(key, stream_of("a"))
    assert datetime.now(UTC) < expires_at
    assert ends.ended_with() == ("problem", 401)
    assert datetime.now(UTC) >= expires_at


def test_a_policy_that_no_longer_permits_it_ends_a_stream(place: Place) -> None:
    made = place.owner.ok("POST", "/clients", json={"name": "app"})
    policy = {"role": "subscriber", "members": ["client:app"], "resources": ["subscriptions/*"]}
    place.owner.ok("PUT", "/policies/app", json=policy)
    app = place.client(made)
    ends, goes_on = Open(app, stream_of("a")), Open(app, stream_of("b"))
    place.owner.ok("PUT", "/policies/app", json=policy | {"resources": ["subscriptions/b"]})
    assert ends.ended_with() == ("problem", 403)
    place.owner.publish("after")
    until(lambda: goes_on.data == ["after"])
