"""A tenant's limits over several processes, and what it is told it used."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.e2e.installation import Installation
from tests.e2e.servers import StartServer, wait_for
from tests.e2e.test_tenancy import Http, Place, operator, until

__all__ = ["operator"]
_numbers = itertools.count(1)
LIMIT = 60
SECONDS = 10
SHARED_S = 3
"""By then each process has told what it would use, and has its share of the limit."""
EVERY_S = 0.008
BATCH = {"messages": [{"data": "1"}, {"data": "2"}, {"data": "3"}]}
SETTLED_S = 60.0


@pytest.fixture
def place(operator: Http) -> Iterator[Place]:
    place = Place(operator, f"limited-{next(_numbers)}")
    yield place
    operator("DELETE", f"/tenants/{place.name}?force=true")


def publish(
    http: Http, from_s: float, until_s: float
) -> tuple[Counter[int], list[requests.Response]]:
    """Publish a little more slowly than possible.

    Return the count of each status between these times, and some refusals.
    """
    answered: Counter[int] = Counter()
    refused = []
    while time.monotonic() < until_s:
        answer = http("POST", "/topics/orders/messages:batch", json=BATCH)
        answered[answer.status_code] += from_s <= time.monotonic() < until_s
        if answer.status_code == 429:
            refused = [*refused[-2:], answer]
        time.sleep(EVERY_S)
    return answered, refused


def test_a_limit_holds_over_two_publish_processes(
    running: Installation, place: Place, operator: Http, start_server: StartServer
) -> None:
    publisher = start_server("publish")
    wait_for(publisher, 200)
    place.http.ok("POST", "/topics", json={"name": "orders"})
    unlimited = place.http("POST", "/topics/orders/messages", data=b"{}")
    assert "RateLimit" not in unlimited.headers
    limits = {"publish_messages_per_second": LIMIT}
    operator.ok("PUT", f"/tenants/{place.name}/quotas", json={"limits": limits})
    token = str(place.http.session.headers["Authorization"]).removeprefix("Bearer ")
    urls = [running.url, publisher]

    def is_told(url: str) -> bool:
        answer = Http(url, token)("POST", "/topics/orders/messages", data=b"{}")
        return "RateLimit" in answer.headers

    until(lambda: all([is_told(url) for url in urls]))
    from_s = time.monotonic() + SHARED_S
    with ThreadPoolExecutor(4) as pool:
        runs = list(
            pool.map(
                lambda url: publish(Http(url, token), from_s, from_s + SECONDS), [*urls, *urls]
            )
        )
    answered = sum((one for one, _ in runs), Counter())
    assert set(answered) == {200, 429}, answered
    assert 3 * answered.total() > 1.5 * LIMIT * SECONDS, "less was asked for than may be"
    assert 3 * answered[200] == pytest.approx(LIMIT * SECONDS, rel=0.1), answered
    for answer in [one for _, refused in runs for one in refused]:
        assert answer.json()["type"].endswith("/rate-limited")
        assert answer.json()["quota"] == "publish_messages_per_second"
        assert answer.json()["limit"] == LIMIT
        assert int(answer.headers["Retry-After"]) >= 1
        policy = f'"publish_messages_per_second";q={LIMIT};w=1'
        assert answer.headers["RateLimit-Policy"] == policy
        left = r'"publish_messages_per_second";r=0;t=\d+'
        assert re.fullmatch(left, answer.headers["RateLimit"])


def test_usage_is_told_within_seconds(place: Place, operator: Http) -> None:
    http = place.http
    http.ok("POST", "/topics", json={"name": "orders"})
    http.ok("POST", "/topics/orders/subscriptions", json={"name": "s", "start": "earliest"})
    for _ in range(5):
        http.ok("POST", "/topics/orders/messages", data=b"12345678")
    pulled = http.ok("GET", "/subscriptions/s/messages?wait_seconds=10&min_messages=5")["messages"]
    ids = [message["ack_id"] for message in pulled]
    assert http.ok("POST", "/subscriptions/s/ack", json={"ack_ids": ids})["acked"] == 5
    # Messages acked by everybody are soon gone, maybe before they are measured; this one stays.
    http.ok("POST", "/topics/orders/messages", data=b"12345678")

    def used() -> Counter[str]:
        total: Counter[str] = Counter()
        for row in http.ok("GET", "/usage")["usage"]:
            total[row["metric"]] += row["value"]
        return total

    deadline_s = time.monotonic() + SETTLED_S
    while not (found := used())["acks"] or not found["stored_byte_hours"]:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.5)
    assert (found["published_messages"], found["delivered_messages"], found["acks"]) == (6, 5, 5)
    assert found["published_bytes"] >= 48
    assert found["delivered_bytes"] == 40
    assert found["requests"] >= 8


def test_messages_in_flight_are_limited_over_all_subscriptions(
    place: Place, operator: Http
) -> None:
    http = place.http
    http.ok("POST", "/topics", json={"name": "orders"})
    for name in ("a", "b"):
        http.ok("POST", "/topics/orders/subscriptions", json={"name": name, "start": "earliest"})
    operator.ok("PUT", f"/tenants/{place.name}/quotas", json={"limits": {"in_flight": 4}})
    until(lambda: http.ok("GET", "/quotas")["limits"]["in_flight"] == 4)
    items = [{"data": str(number)} for number in range(10)]
    http.ok("POST", "/topics/orders/messages:batch", json={"messages": items})
    pull = "/subscriptions/{}/messages?wait_seconds=5&max_messages=10"
    got: list[str] = []
    until(lambda: bool(got) or bool(got.extend(_ids(http, pull.format("a")))) or bool(got))
    assert len(got) == 4
    assert _ids(http, pull.format("b")) == []
    assert http.ok("GET", "/subscriptions/b/backlog")["paused"] == "tenant_in_flight"
    http.ok("POST", "/subscriptions/a/ack", json={"ack_ids": got})
    until(lambda: bool(_ids(http, pull.format("b"))))


def _ids(http: Http, path: str) -> list[str]:
    return [message["ack_id"] for message in http.ok("GET", path)["messages"]]
