"""One installation, an endpoint for each way to misbehave, and beside them some that do not: every
message is delivered or dead-lettered, the good ones notice nothing, and no log has a secret."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import requests
from standardwebhooks import Webhook

from harness.hostile_endpoint import HostileEndpoint, Received
from harness.hostile_endpoint import running as running_endpoint
from tests.e2e.installation import Installation

MESSAGES = 3
MAX_ATTEMPTS = 3
PATIENCE_S = 120.0
"""Seconds for a breaker whose pauses grow, on a machine that does much else."""
PLAIN = [
    "/hang",
    "/unread",
    "/drip",
    "/drip-head",
    "/huge",
    "/huge-head",
    "/interim",
    "/chunks",
    "/redirect",
    "/early-close",
    "/reset",
    "/cut",
    "/garbage",
    "/status/500",
    "/status/418",
    "/status/199",
    "/429",
]
TLS = ["self_signed", "expired", "wrong_name"]
GOOD = {
    "json": {},
    "ordered": {"ordered": True},
    "exactly-once": {"delivery": "exactly_once"},
    "at-most-once": {"delivery": "at_most_once"},
    "cloudevents": {"push": {"format": "cloudevents_binary"}},
}
AT_LEAST_ONCE = ("json", "cloudevents")
HEADER = "X-Hostile-Test"


class Told(NamedTuple):
    """The confidential values of this test."""

    header: str
    query: str
    payload: str


class Yard:
    """A topic, its dead letters, and push subscriptions that each have an origin of their own."""

    def __init__(self, installation: Installation, endpoint: HostileEndpoint) -> None:
        self.installation = installation
        self.http, self.url = installation.session(), installation.url
        self.endpoint = endpoint
        self.topic = f"yard-{uuid.uuid4().hex[:8]}"
        self.told = Told(*(f"confidential-{uuid.uuid4().hex}" for _ in Told._fields))
        self.secrets: dict[str, str] = {}
        self._hosts = iter(range(40, 250))
        for name in (self.topic, f"{self.topic}-dead"):
            self.call("POST", "/topics", {"name": name, "partitions": 2}, 201)
        watch = {"name": f"{self.topic}-dead"}
        self.call("POST", f"/topics/{self.topic}-dead/subscriptions", watch, 201)

    def call(self, method: str, path: str, body: object = None, status: int = 200) -> Any:
        answer: requests.Response = self.http.request(
            method, self.url + path, json=body, timeout=60
        )
        assert answer.status_code == status, (method, path, answer.text)
        return answer.json()

    def at(self, path: str, tls: str = "") -> str:
        """A URL of an origin that nobody else has: what is shut is shut for all of it."""
        host = f"127.0.0.{next(self._hosts)}"
        self.endpoint.listen_from_thread(host, self.endpoint.ports[tls], tls)
        return self.endpoint.url(path, tls).replace(self.endpoint.host, host)

    def subscribe(self, what: str, url: str, **fields: Any) -> str:
        """Subscribe; note the secret of the subscription and return its name."""
        name = f"{self.topic}-{what.strip('/').replace('/', '-')}"
        push = {
            "url": f"{url}?key={self.told.query}",
            "verify": False,
            "timeout_seconds": 1,
            "headers": {HEADER: self.told.header},
            "signing": ["v1", "v1a"],
            "oidc": {"audience": "https://hook.example"},
        }
        body = {
            "name": name,
            "type": "push",
            "push": push | fields.pop("push", {}),
            "dead_letter_topic": f"{self.topic}-dead",
            "retry": {
                "min_backoff_seconds": 0.1,
                "max_backoff_seconds": 0.5,
                "max_attempts": MAX_ATTEMPTS,
            },
        }
        made = self.call("POST", f"/topics/{self.topic}/subscriptions", body | fields, 201)
        (secret,) = [one["secret"] for one in made["push"]["signing_secrets"] if one["secret"]]
        self.secrets[name] = secret
        return name

    def publish(self, count: int) -> list[str]:
        """Publish messages of one key, so that their order means something; return their ids."""
        one = {"data": {"confidential": self.told.payload}, "key": "k"}
        answer = self.call(
            "POST", f"/topics/{self.topic}/messages:batch", {"messages": [one] * count}
        )
        return [result["message_id"] for result in answer["results"]]

    def push_of(self, name: str) -> Any:
        return self.call("GET", f"/subscriptions/{name}/backlog")["push"]

    def waiting(self, name: str) -> int:
        return int(self.call("GET", f"/subscriptions/{name}/backlog")["messages"])

    def dead(self, name: str) -> list[str]:
        letters = self.call("GET", f"/subscriptions/{name}/dead_letters")["dead_letters"]
        return [letter["message_id"] for letter in letters]

    def delivered(self, name: str) -> set[str]:
        """Return the messages that the log of attempts, which is written once a second,
        shows as delivered.
        """
        attempts = self.call("GET", f"/subscriptions/{name}/attempts?page_size=1000")["attempts"]
        return {one["message_id"] for one in attempts if one["outcome"] == "delivered"}

    def letters(self, count: int) -> Counter[str]:
        """Count the dead letters of each subscription, as a consumer of the dead-letter
        topic sees them.
        """
        found: Counter[str] = Counter()
        until_s = time.monotonic() + PATIENCE_S
        path = f"/subscriptions/{self.topic}-dead"
        while found.total() < count:
            assert time.monotonic() < until_s, found
            pulled = self.call("GET", f"{path}/messages?max_messages=1000&wait_seconds=5")
            for one in pulled["messages"]:
                assert one["data"] == {"confidential": self.told.payload}
                found[one["attributes"]["packetboat-dead-letter-subscription"]] += 1
            ids = [one["ack_id"] for one in pulled["messages"]]
            if ids:
                self.call("POST", f"{path}/ack", {"ack_ids": ids})
        return found

    def arrived(self, name: str) -> list[Received]:
        return [
            one
            for one in list(self.endpoint.received)
            if one.header("packetboat-subscription") == name
        ]


@pytest.fixture(scope="module")
def yard(running: Installation) -> Iterator[Yard]:
    with running_endpoint() as endpoint:
        yield Yard(running, endpoint)


def until(true: Callable[[], bool], what: object = "") -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


def ids_of(received: list[Received]) -> list[str]:
    return [one.header("packetboat-message-id") or "" for one in received]


def assert_once(kind: str, received: list[Received]) -> None:
    """Assert that each message arrived once; if at least once is promised, that each of its
    attempts did.
    """
    attempts = [
        (one.header("packetboat-message-id"), one.header("packetboat-attempt")) for one in received
    ]
    assert len(set(attempts)) == len(attempts), (kind, attempts)
    if kind not in AT_LEAST_ONCE:
        assert len({name for name, _ in attempts}) == len(attempts), (kind, attempts)


def test_every_message_is_delivered_or_dead_lettered_and_good_endpoints_notice_nothing(
    yard: Yard,
) -> None:
    bad = [yard.subscribe(f"bad{path}", yard.at(path)) for path in PLAIN]
    bad += [yard.subscribe(f"bad-{kind}", yard.at("/ok", kind)) for kind in TLS]
    bad += [
        yard.subscribe("bad-no-tls", yard.at("/ok").replace("http:", "https:")),
        yard.subscribe("bad-only-tls", yard.at("/ok", "self_signed").replace("https:", "http:")),
        yard.subscribe("bad-refused", "http://127.0.0.1:9/"),
        yard.subscribe("bad-no-such-name", "https://name.invalid/"),
    ]
    flapping = yard.subscribe("flapping", yard.at("/flapping"))
    good = {
        kind: yard.subscribe(f"good-{kind}", yard.at("/ok"), **fields)
        for kind, fields in GOOD.items()
    }
    published = yard.publish(MESSAGES)
    for kind, name in good.items():
        until(lambda name=name: set(ids_of(yard.arrived(name))) == set(published), name)  # type: ignore[misc]
        received = yard.arrived(name)
        assert ids_of(received) == published if kind == "ordered" else True, kind
        assert_once(kind, received)
        for one in received:
            assert one.header(HEADER) == yard.told.header
            Webhook(yard.secrets[name]).verify(one.body, one.by_name)
    for name in bad:
        until(lambda name=name: len(yard.dead(name)) == MESSAGES, name)  # type: ignore[misc]
        assert sorted(yard.dead(name)) == sorted(published)
        assert yard.waiting(name) == 0
        assert yard.delivered(name) == set()
    until(lambda: yard.waiting(flapping) == 0)
    left = set(yard.dead(flapping))
    until(lambda: yard.delivered(flapping) == set(published) - left)
    letters = yard.letters(len(bad) * MESSAGES + len(left))
    assert letters == Counter(
        dict.fromkeys(bad, MESSAGES) | ({flapping: len(left)} if left else {})
    )
    for kind, name in good.items():
        assert_once(kind, yard.arrived(name))
        assert yard.waiting(name) == 0


def test_who_is_gone_keeps_its_backlog_and_gets_it_when_it_is_enabled_again(yard: Yard) -> None:
    name = yard.subscribe("gone", yard.at("/410"), push={"oidc": None})
    published = yard.publish(MESSAGES)
    until(lambda: yard.push_of(name)["state"] == "disabled")
    published += yard.publish(1)
    assert yard.waiting(name) == len(published)
    asked = len(yard.arrived(name))
    # Another origin is told nothing in confidence that is not given anew.
    headers = {HEADER: yard.told.header}
    push = {"url": yard.at("/ok"), "verify": False, "headers": headers}
    yard.call("PATCH", f"/subscriptions/{name}", {"push": push})
    assert yard.push_of(name)["state"] == "disabled"
    yard.call("POST", f"/subscriptions/{name}:enable", {})
    until(lambda: yard.waiting(name) == 0)
    assert sorted(ids_of(yard.arrived(name)[asked:])) == sorted(published)
    assert yard.dead(name) == []


def test_no_log_has_a_secret(yard: Yard) -> None:
    """The logs are read after all tests above; of a failure they show nothing but the place."""
    assert yard.secrets
    told = {"header": yard.told.header, "query": yard.told.query, "payload": yard.told.payload}
    for name, secret in yard.secrets.items():
        told[f"secret of {name}"] = secret.removeprefix("whsec_")
        for at, one in enumerate(yard.arrived(name)):
            bearer = (one.header("authorization") or "").removeprefix("Bearer ")
            told |= {f"token {at} of {name}": bearer.rpartition(".")[2]} if bearer else {}
    token = yard.installation.token
    state = json.loads((yard.installation.directory / "state.json").read_text())
    told |= {f"state.{key}": state[key] for key in ("store_secret", "ack_secret")}
    told["seal key"] = state["seal_keys"].partition(":")[2]
    directory = yard.installation.directory
    logs = [*sorted((directory / "logs").glob("*.log")), directory.with_suffix(".out")]
    assert any(b"push endpoint" in log.read_bytes() for log in logs), "they say what was pushed"
    leaks = [
        f"{what} in {log.name}"
        for log in logs
        for what, secret in told.items()
        if secret.encode() in log.read_bytes()
    ]
    leaks += [f"token in {log.name}" for log in logs[:-1] if token.encode() in log.read_bytes()]
    assert leaks == []
