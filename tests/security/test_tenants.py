"""Two tenants on one installation: neither sees, names or touches what is the other's, and what
decides about a token takes effect everywhere at once."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

import pytest
import requests

from tests.e2e.installation import Installation
from tests.security.tenants import Actor, fresh, new_tenant, operator_of, signed_in

HEARD_S = 20.0
"""Seconds until a change must have taken effect; the promise is 2 s."""


@pytest.fixture(scope="module")
def owner(running: Installation) -> Actor:
    return new_tenant(running)[1]


def until(says: Callable[[], bool]) -> None:
    until_s = time.monotonic() + HEARD_S
    while not says():
        assert time.monotonic() < until_s, "the change was never heard"
        time.sleep(0.05)


def status(actor: Actor, path: str = "/topics") -> int:
    code: int = actor.ask("GET", path).status_code
    return code


def test_tenants_share_nothing(running: Installation) -> None:
    http, url = running.session(), running.url
    other = new_tenant(running)[1]
    name = f"shared-name-{uuid.uuid4().hex[:8]}"
    made = other.post("/topics", name=name)
    assert made.status_code == 201, made.text
    made = other.post(f"/topics/{name}/subscriptions", name=name)
    assert made.status_code == 201, made.text
    published = other.ask("POST", f"/topics/{name}/messages", data=b"theirs")
    assert published.status_code == 201, published.text
    message_id = published.json()["message_id"]

    # A resource of the other tenant does not exist: a 403 would show that it does.
    for method, path in (
        ("GET", f"/topics/{name}"),
        ("DELETE", f"/topics/{name}"),
        ("POST", f"/topics/{name}/messages"),
        ("GET", f"/topics/{name}/messages/{message_id}"),
        ("GET", f"/topics/{name}/messages/{message_id}/ack"),
        ("GET", f"/topics/{name}/subscriptions"),
        ("GET", f"/topics/{name}/subscriptions/{name}/messages"),
        ("GET", f"/subscriptions/{name}"),
        ("DELETE", f"/subscriptions/{name}"),
        ("GET", f"/subscriptions/{name}/messages"),
        ("GET", f"/subscriptions/{name}/backlog"),
        ("GET", f"/subscriptions/{name}/skip_rules"),
        ("DELETE", f"/subscriptions/{name}/skip_rules/{'0' * 32}"),
    ):
        assert http.request(method, url + path).status_code == 404, (method, path)
    for method, path, body in (
        ("POST", f"/subscriptions/{name}/ack", {"message_id": message_id}),
        ("PATCH", f"/subscriptions/{name}", {}),
        ("PATCH", f"/topics/{name}", {}),
        ("POST", f"/subscriptions/{name}/skip_rules", {"expression": "true", "reason": "x"}),
        ("POST", f"/subscriptions/{name}:preview_filter", {"filter": "true"}),
        ("POST", f"/topics/{name}:preview_filter", {"filter": "true"}),
    ):
        assert http.request(method, url + path, json=body).status_code == 404, (method, path)
    assert name not in http.get(f"{url}/topics", params={"page_size": 1000}).text
    assert name not in http.get(f"{url}/subscriptions", params={"page_size": 1000}).text

    lock = other.post(f"/locks/{name}:acquire", ttl_seconds=600)
    assert lock.status_code == 200, lock.text
    theirs = {"lock_id": lock.json()["lock_id"]}
    assert http.get(f"{url}/locks/{name}").status_code == 404
    assert http.delete(f"{url}/locks/{name}").status_code == 404
    assert http.post(f"{url}/locks/{name}:verify", json={"fencing_token": 1}).status_code == 404
    assert http.post(f"{url}/locks/{name}:renew", json=theirs).status_code == 409
    assert http.post(f"{url}/locks/{name}:release", json=theirs).status_code == 204
    assert name not in http.get(f"{url}/locks", params={"page_size": 1000}).text
    assert http.post(f"{url}/locks/{name}:acquire", json={}).status_code == 200
    assert other.ask("GET", f"/locks/{name}").json()["held"] is True

    # The same names are free here, and lead to other things.
    assert http.post(f"{url}/topics", json={"name": name}).status_code == 201
    mine = {"name": name, "start": "earliest"}
    assert http.post(f"{url}/topics/{name}/subscriptions", json=mine).status_code == 201
    assert http.get(f"{url}/subscriptions/{name}/messages").json()["messages"] == []
    assert http.get(f"{url}/topics/{name}/messages/{message_id}").status_code == 404
    acked = http.post(f"{url}/subscriptions/{name}/ack", json={"message_id": message_id}).json()
    assert acked["acked"] == 0
    assert http.delete(f"{url}/topics/{name}").status_code == 204
    assert other.ask("GET", f"/topics/{name}").status_code == 200
    assert other.ask("GET", f"/subscriptions/{name}").status_code == 200


def test_only_the_development_tenant_pushes_to_this_machine(running: Installation) -> None:
    """A program that listens on loopback may trust all callers, and a `:test` shows 1 KiB of its
    answer.
    """
    name = fresh("pushed")
    dev, other = operator_of(running), new_tenant(running)[1]
    push = {"name": name, "type": "push", "push": {"url": "http://127.0.0.1:9/"}}
    for actor in (dev, other):
        actor.post("/topics", 201, name=name, partitions=1)
    dev.post(f"/topics/{name}/subscriptions", 201, **push)
    refused = other.post(f"/topics/{name}/subscriptions", 422, **push).json()
    assert [error["field"] for error in refused["errors"]] == ["push.url"]
    dev.ask("DELETE", f"/topics/{name}?force=true", 204)


def test_a_filter_is_changed_by_who_may_read_the_topic(running: Installation) -> None:
    """By its answers, a filter tells what the messages of a topic are."""
    name, owner = fresh("read"), new_tenant(running)[1]
    owner.post("/topics", 201, name=name, partitions=1)
    owner.post(f"/topics/{name}/subscriptions", 201, name=name)
    manages = owner.key(f"manage:subscriptions/{name}")
    both = owner.key(f"manage:subscriptions/{name}", f"read:topics/{name}")
    path, body = f"/subscriptions/{name}", {"filter": "data.n > 1"}
    for method, asked in (("PATCH", body), ("PUT", body | {"topic": name})):
        manages.ask(method, path, 403, json=asked)
        both.ask(method, path, 200, json=asked)


def test_one_idempotency_key_in_two_tenants_is_two(running: Installation) -> None:
    name, key = fresh("orders"), {"Idempotency-Key": "order-17"}
    owners = [new_tenant(running)[1] for _ in range(2)]
    sent = []
    for owner in owners:
        owner.post("/topics", 201, name=name, partitions=1)
        owner.post(f"/topics/{name}/subscriptions", 201, name=name, start="earliest")
    for _ in range(2):
        for number, owner in enumerate(owners):
            body = {"data": f"of {number}", "headers": key}
            sent.append(owner.ask("POST", f"/topics/{name}/messages", 201, **body).json())
    first, second, first_again, second_again = (each["message_id"] for each in sent)
    assert (first, second) == (first_again, second_again)
    assert first != second
    for number, owner in enumerate(owners):
        pulled = owner.post(f"/subscriptions/{name}:pull", 200, max_messages=10, wait_seconds=20)
        (message,) = pulled.json()["messages"]
        assert message["message_id"] == (first, second)[number]


def test_what_a_policy_gives_is_had_and_lost_with_it(owner: Actor) -> None:
    name = fresh("app")
    app = owner.client(name)
    assert status(app) == 403
    rule = {"role": "viewer", "members": [f"client:{name}"], "resources": ["topics/a-*"]}
    owner.ask("PUT", f"/policies/{name}", 201, json=rule)
    until(lambda: status(app) == 200)
    assert app.get("/whoami")["grants"] == ["read:topics/a-*"]
    assert app.ask("GET", "/topics/b").status_code == 403
    assert app.ask("GET", "/topics/a-1").status_code == 404
    owner.ask("DELETE", f"/policies/{name}", 204)
    until(lambda: status(app) == 403)


def test_a_key_ends_when_it_is_disabled_and_when_it_is_gone(owner: Actor) -> None:
    name = fresh("key")
    key = owner.key("read", name=name)
    assert status(key) == 200
    owner.ask("PUT", f"/keys/{name}", 200, json={"scopes": ["read"], "state": "disabled"})
    until(lambda: status(key) == 401)
    owner.ask("PUT", f"/keys/{name}", 200, json={"scopes": ["manage"]})
    until(lambda: status(key) == 403)
    owner.ask("DELETE", f"/keys/{name}", 204)
    until(lambda: status(key) == 401)


def test_a_key_is_used_and_says_when(owner: Actor) -> None:
    name = fresh("key")
    key = owner.key("read", name=name)
    assert status(key) == 200
    until(lambda: owner.get(f"/keys/{name}")["last_used_at"] is not None)


def test_a_client_ends_when_it_is_disabled(owner: Actor) -> None:
    name = fresh("client")
    client = owner.client(name)
    assert status(client, "/whoami") == 200
    owner.ask("PUT", f"/clients/{name}", 200, json={"state": "disabled"})
    until(lambda: status(client, "/whoami") == 401)
    owner.ask("PUT", f"/clients/{name}", 200, json={"state": "active"})
    until(lambda: status(client, "/whoami") == 200)


def test_a_revoked_token_ends_alone(running: Installation, owner: Actor) -> None:
    made = owner.post("/clients", 201, name=fresh("client")).json()
    login = made["client_id"], made["client_secret"]
    first, second = signed_in(running.url, *login), signed_in(running.url, *login)
    assert status(first, "/whoami") == status(second, "/whoami") == 200
    revoked = requests.post(
        f"{running.url}/oauth/revoke", data={"token": first.token}, auth=login, timeout=30
    )
    assert revoked.status_code == 200
    until(lambda: status(first, "/whoami") == 401)
    assert status(second, "/whoami") == 200


def test_a_suspended_tenant_is_told_so(running: Installation) -> None:
    name, owner = new_tenant(running)
    key = owner.key("read")
    assert status(owner) == status(key) == 200
    operator_of(running).ask("PUT", f"/tenants/{name}", 200, json={"state": "suspended"})
    for each in (owner, key):
        until(lambda each=each: status(each) == 403)  # type: ignore[misc]
        assert each.ask("GET", "/topics").json()["type"].endswith("/tenant-suspended")
    operator_of(running).ask("PUT", f"/tenants/{name}", 200, json={"state": "active"})
    until(lambda: status(owner) == status(key) == 200)


def test_a_scope_narrows_what_a_client_may(running: Installation) -> None:
    name = fresh("tenant")
    made = operator_of(running).post("/tenants", 201, name=name, owner={"name": "founder"}).json()
    answer = requests.post(
        f"{running.url}/oauth/token",
        data={"grant_type": "client_credentials", "scope": "read"},
        auth=(made["owner"]["client_id"], made["owner"]["client_secret"]),
        timeout=30,
    )
    reader = Actor(running.url, answer.json()["access_token"])
    assert reader.get("/whoami")["grants"] == ["read:*"]
    reader.post("/topics", 403, name="x")


def test_secrets_are_in_no_log(running: Installation) -> None:
    http = running.session()
    http.get(f"{running.url}/topics")
    http.get(f"{running.url}/topics", headers={"Authorization": f"Bearer {running.token}x"})
    state = json.loads((running.directory / "state.json").read_text())
    logs = running.logs() + "".join(
        path.read_text(errors="replace") for path in (running.directory / "logs").iterdir()
    )
    for secret in (running.token, state["store_secret"], state["ack_secret"]):
        assert secret not in logs
