"""Tenants, credentials, policies, limits and the audit, through HTTP against real processes."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.hostile_endpoint import running as running_endpoint
from tests.e2e.installation import Installation

_numbers = itertools.count(1)
LONG_S = 60.0


class Http:
    """Requests of one credential."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def __call__(self, method: str, path: str, **arguments: Any) -> requests.Response:
        return self.session.request(method, self.url + path, timeout=30, **arguments)

    def ok(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self(method, path, **arguments)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None


def token_of(url: str, client: dict[str, str]) -> str:
    answer = requests.post(
        f"{url}/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(client["client_id"], client["client_secret"]),
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def until(met: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not met():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.fixture
def operator(running: Installation) -> Http:
    return Http(running.url, running.token)


class Place:
    """A tenant of its own for one test, and its owner."""

    def __init__(self, operator: Http, name: str) -> None:
        self.name = name
        answer = operator("POST", "/tenants", json={"name": name, "owner": {"name": "root"}})
        assert answer.status_code == 201, answer.text
        assert answer.headers["Location"] == f"/tenants/{name}"
        assert answer.headers["Cache-Control"] == "no-store"
        self.made = answer.json()
        self.url = operator.url
        self.http = self.of(self.made["owner"])

    def of(self, client: dict[str, str]) -> Http:
        return Http(self.url, token_of(self.url, client))


@pytest.fixture
def place(operator: Http) -> Iterator[Place]:
    place = Place(operator, f"place-{next(_numbers)}")
    yield place
    operator("DELETE", f"/tenants/{place.name}?force=true")


def test_a_tenant_is_made_with_an_owner_who_does_the_rest(place: Place, operator: Http) -> None:
    http = place.http
    assert "client_secret" not in operator.ok("GET", f"/tenants/{place.name}").get("owner", {})
    http.ok("POST", "/topics", json={"name": "orders"})
    app = http.ok("POST", "/clients", json={"name": "app"})
    policy = {"role": "publisher", "members": ["client:app"], "resources": ["topics/ord*"]}
    assert http("PUT", "/policies/app", json=policy).status_code == 201
    publisher = place.of(app)
    publisher.ok("POST", "/topics/orders/messages", data=b"{}")
    assert publisher("GET", "/topics/orders").status_code == 403
    assert publisher("GET", "/clients").status_code == 403
    assert http("GET", "/tenants").status_code == 403
    assert operator("GET", "/topics/orders").status_code == 404


def test_put_is_idempotent_and_etags_hold(place: Place, operator: Http) -> None:
    http = place.http
    bodies = {
        f"/tenants/{place.name}-b": (operator, {"display_name": "B"}),
        "/clients/c": (http, {"display_name": "C"}),
        "/keys/k": (http, {"scopes": ["read"]}),
        "/policies/p": (http, {"role": "viewer", "members": ["client:c"]}),
        "/issuers/i": (http, {"issuer": "https://id.example"}),
    }
    for path, (caller, body) in bodies.items():
        first = caller("PUT", path, json=body)
        again = caller("PUT", path, json=body)
        assert (first.status_code, again.status_code) == (201, 200), (path, again.text)
        assert first.headers["Location"] == path
        assert first.headers["ETag"] == again.headers["ETag"] != ""
        other = caller("PUT", path, json=body | {"labels": {"a": "b"}})
        assert other.status_code == 200
        assert other.json()["updated_at"] > other.json()["created_at"]
        stale = {"If-Match": first.headers["ETag"]}
        for refused in (
            caller("PUT", path, json=body, headers=stale),
            caller("DELETE", path, headers=stale),
        ):
            assert refused.status_code == 412, (path, refused.text)
        missing = caller("PUT", path + "-none", json=body, headers=stale)
        assert missing.status_code == 412, path
        fresh = {"If-Match": other.headers["ETag"]}
        assert caller("DELETE", path, headers=fresh).status_code in (202, 204)
        until(lambda path=path, caller=caller: caller("GET", path).status_code == 404)  # type: ignore[misc]


def test_puts_at_once_make_one_thing(place: Place) -> None:
    """Later requests find what the first one made; only one is told the secret."""

    def put(_: int) -> requests.Response:
        return Http(place.url, token)("PUT", "/clients/same", json={})

    token = place.http.session.headers["Authorization"].removeprefix("Bearer ")  # type: ignore[union-attr]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(put, range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert sum("client_secret" in answer.json() for answer in answers) == 1
    assert len({answer.json()["client_id"] for answer in answers}) == 1


def test_secrets_follow_each_other(place: Place) -> None:
    http = place.http
    first = http.ok("POST", "/clients", json={"name": "app"})
    second = http.ok("POST", "/clients/app/secrets", json={})
    assert [len(first["secrets"]), len(second["secrets"])] == [1, 2]
    for client in (first, second):
        token_of(place.url, client)
    refused = http("POST", "/clients/app/secrets", json={})
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("/too-many-secrets")
    old = first["secrets"][0]["prefix"]
    assert http("DELETE", f"/clients/app/secrets/{old}").status_code == 204

    def refuses() -> bool:
        answer = requests.post(
            f"{place.url}/oauth/token",
            data={"grant_type": "client_credentials"},
            auth=(first["client_id"], first["client_secret"]),
            timeout=30,
        )
        return answer.status_code == 401

    until(refuses)
    token_of(place.url, second)
    shown = http("GET", "/clients/app").text
    assert first["client_secret"] not in shown
    assert second["client_secret"] not in shown


def test_tokens_are_revoked_and_clients_disabled(place: Place) -> None:
    http = place.http
    app = http.ok("POST", "/clients", json={"name": "app"})
    viewer = {"role": "viewer", "members": ["client:app"]}
    http.ok("PUT", "/policies/view", json=viewer)
    caller = place.of(app)
    assert caller("GET", "/topics").status_code == 200
    http.ok("POST", "/clients/app:revoke_tokens")
    until(lambda: caller("GET", "/topics").status_code == 401)
    again = place.of(app)
    http.ok("PUT", "/clients/app", json={"state": "disabled"})
    until(lambda: again("GET", "/topics").status_code == 401)


def test_a_key_does_what_its_scopes_say(place: Place) -> None:
    http = place.http
    http.ok("POST", "/topics", json={"name": "orders"})
    made = http.ok("POST", "/keys", json={"name": "ci", "scopes": ["publish:topics/orders"]})
    assert made["key"].startswith(made["prefix"])
    key = Http(place.url, made["key"])
    key.ok("POST", "/topics/orders/messages", data=b"{}")
    assert key("GET", "/topics/orders").status_code == 403
    rotated = http.ok("POST", "/keys/ci:rotate", json={"old_expires_in_seconds": 0})
    assert rotated["key_id"] == made["key_id"]
    until(lambda: key("POST", "/topics/orders/messages", data=b"{}").status_code == 401)
    fresh = Http(place.url, rotated["key"])
    fresh.ok("POST", "/topics/orders/messages", data=b"{}")
    http.ok("DELETE", "/keys/ci")
    until(lambda: fresh("POST", "/topics/orders/messages", data=b"{}").status_code == 401)


def test_the_last_owner_stays(place: Place) -> None:
    for method, path, body in (
        ("DELETE", "/policies/owners", None),
        ("PUT", "/policies/owners", {"role": "admin", "members": ["client:root"]}),
        ("DELETE", "/clients/root", None),
        ("PUT", "/clients/root", {"state": "disabled"}),
    ):
        refused = place.http(method, path, json=body)
        assert refused.status_code == 409, path
        assert refused.json()["type"].endswith("/last-owner")
    assert place.http("DELETE", "/policies/owners?force=true").status_code == 204


def test_a_tenant_goes_with_all_that_is_its(place: Place, operator: Http) -> None:
    http, path = place.http, f"/tenants/{place.name}"
    for name in ("a", "b"):
        http.ok("POST", "/topics", json={"name": name})
        http.ok("POST", f"/topics/{name}/messages", data=b"{}")
    http.ok("POST", "/topics/a/subscriptions", json={"name": "s"})
    refused = operator("DELETE", path)
    assert refused.status_code == 409
    assert refused.json()["topics"] == 2
    going = operator("DELETE", path + "?force=true")
    assert going.status_code == 202
    assert going.json()["state"] == "deleting"
    until(lambda: operator("GET", path).status_code == 404)
    until(lambda: http("GET", "/topics").status_code == 401)
    fresh = Place(operator, place.name)
    assert fresh.http.ok("GET", "/topics")["topics"] == []


def test_a_suspended_tenant_is_refused_until_it_is_resumed(place: Place, operator: Http) -> None:
    path = f"/tenants/{place.name}"
    operator.ok("PUT", path, json={"state": "suspended"})
    until(lambda: place.http("GET", "/topics").status_code in (401, 403))
    operator.ok("PUT", path, json={"state": "active"})
    until(lambda: place.http("GET", "/topics").status_code == 200)


def test_webhooks_of_a_suspended_tenant_wait(place: Place, operator: Http) -> None:
    count, tenant = 60, f"/tenants/{place.name}"
    reached = {"egress_allowed": ["http://127.0.0.1:*"]}
    operator.ok("PUT", tenant, json=reached)
    with running_endpoint() as endpoint:
        push = {"url": endpoint.url("/slow/0.3"), "verify": False, "max_concurrency": 1}
        place.http.ok("POST", "/topics", json={"name": "out"})
        body = {"name": "hook", "type": "push", "push": push}
        place.http.ok("POST", "/topics/out/subscriptions", json=body)
        messages = {"messages": [{"data": n} for n in range(count)]}
        place.http.ok("POST", "/topics/out/messages:batch", json=messages)
        endpoint.arrivals_from_thread(2)
        operator.ok("PUT", tenant, json=reached | {"state": "suspended"})
        time.sleep(2.5)  # it is promised within two seconds, and one request was out
        arrived = len(endpoint.received)
        time.sleep(2)
        assert len(endpoint.received) == arrived < count
        operator.ok("PUT", tenant, json=reached | {"state": "active"})
        endpoint.arrivals_from_thread(count)
        until(lambda: place.http.ok("GET", "/subscriptions/hook/backlog")["messages"] == 0)
        assert len(endpoint.received) == count


def test_counts_are_limited(place: Place, operator: Http) -> None:
    path = f"/tenants/{place.name}/quotas"
    operator.ok("PUT", path, json={"limits": {"topics": 1, "subscriptions": 1}})
    assert place.http.ok("GET", "/quotas")["limits"]["topics"] == 1
    place.http.ok("POST", "/topics", json={"name": "a"})
    place.http.ok("POST", "/topics/a/subscriptions", json={"name": "s"})
    for route, body in (("/topics", {"name": "b"}), ("/topics/a/subscriptions", {"name": "t"})):
        refused = place.http("POST", route, json=body)
        assert refused.status_code == 403
        assert refused.json()["type"].endswith("/quota-exceeded")
        assert (refused.json()["limit"], refused.json()["used"]) == (1, 1)


def test_usage_is_there_to_be_read(place: Place, operator: Http) -> None:
    assert place.http.ok("GET", "/usage?from=2026-01-01T00:00:00Z")["next_page_token"] is None
    operator.ok("GET", f"/tenants/{place.name}/usage?metric=published_messages")
    assert place.http("GET", "/usage?from=yesterday").status_code == 400


def test_every_change_is_in_the_audit(place: Place, operator: Http) -> None:
    http = place.http
    http("POST", "/topics", json={"name": "orders"}, headers={"X-Request-Id": "ask-1"})
    http("POST", "/topics", json={"name": "orders"})
    http("DELETE", "/topics/none?force=true")
    http.ok("GET", "/topics")
    entries = http.ok("GET", "/audit?resource=topics")["entries"]
    told = [(each["action"], each["resource"], each["status"]) for each in entries]
    assert told == [
        ("deleteTopic", "topics/none", 404),
        ("createTopic", "topics/orders", 409),
        ("createTopic", "topics/orders", 201),
    ]
    assert entries[0]["query"] == {"force": "true"}
    first = entries[-1]
    assert first["actor"] == "client:root"
    assert first["request_id"] == "ask-1"
    assert first["members"] == {"name": "orders"}
    assert first["source"]["address"] == "127.0.0.1"
    page = http.ok("GET", "/audit?page_size=2&order=oldest")
    rest = http.ok("GET", f"/audit?order=oldest&page_token={page['next_page_token']}")
    exported = http("GET", "/audit:export?order=oldest").text.splitlines()
    assert len(page["entries"]) + len(rest["entries"]) == len(exported)
    mine = operator.ok("GET", f"/tenants/{place.name}/audit?action=createTopic&actor=client:root")
    assert len(mine["entries"]) == 2
    assert http("GET", f"/tenants/{place.name}/audit").status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tenants", {"name": "x", "egress_allowed": ["::::"]}, "egress_allowed[0]"),
        ("/tenants", {"name": "x", "issuers_allowed": ["https://a"]}, "issuers_allowed[0]"),
        ("/tenants", {"name": "platform"}, "name"),
        ("/clients", {"name": "-"}, "name"),
        ("/keys", {"name": "k", "scopes": ["fly"]}, "scopes[0]"),
        ("/keys", {"name": "k", "scopes": ["read"], "expires_at": "soon"}, "expires_at"),
        ("/policies", {"name": "p", "role": "king", "members": ["client:a"]}, "role"),
        ("/policies", {"name": "p", "role": "viewer", "members": ["ann"]}, "members[0]"),
        ("/policies", {"name": "p", "role": "viewer", "members": ["key:a"]}, "members[0]"),
        ("/issuers", {"name": "i", "issuer": "ftp://x", "audience": "a"}, "issuer"),
        (
            "/issuers",
            {"name": "i", "issuer": "https://x", "audience": "a", "algorithms": ["HS256"]},
            "algorithms[0]",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    operator: Http, path: str, body: dict[str, Any], field: str
) -> None:
    refused = operator("POST", path, json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == field


def test_limits_that_are_none_are_named(place: Place, operator: Http) -> None:
    for limits, field in (
        ({"elephants": 1}, "limits.elephants"),
        ({"topics": 1.5}, "limits.topics"),
    ):
        refused = operator("PUT", f"/tenants/{place.name}/quotas", json={"limits": limits})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == field


def test_the_operators_page_does_what_it_says(running: Installation, operator: Http) -> None:
    page = Path(__file__).parents[2] / "docs" / "operations" / "tenants.md"
    blocks = re.findall(r"^```bash\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    ran = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "\n".join(blocks)],
        env=os.environ | {"PACKETBOAT_URL": running.url, "PACKETBOAT_TOKEN": running.token},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '"state":"suspended"' in ran.stdout
    until(lambda: operator("GET", "/tenants/harbour").status_code == 404)
