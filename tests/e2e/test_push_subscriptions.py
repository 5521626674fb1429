"""Subscriptions of type push over HTTP: secrets told once, keys changed, and back to pull."""

from __future__ import annotations

import time
import uuid

import requests

from tests.e2e.installation import Installation

URL = "https://hook.example/in"
PATIENCE_S = 20.0


class Yard:
    """A topic with one subscription of type push, that no endpoint answers."""

    def __init__(self, running: Installation, **push: object) -> None:
        self.http, self.url = running.session(), running.url
        self.name = f"push-{uuid.uuid4().hex[:8]}"
        self.call("POST", "/topics", 201, {"name": self.name})
        self.one = f"/subscriptions/{self.name}"
        body = {"name": self.name, "type": "push", "push": {"url": URL, **push}}
        self.made = self.call("POST", f"/topics/{self.name}/subscriptions", 201, body)

    def call(
        self, method: str, path: str, status: int, body: object = None, **options: object
    ) -> requests.Response:
        answer = self.http.request(method, self.url + path, json=body, timeout=30, **options)  # type: ignore[arg-type]
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer


def test_secrets_are_told_in_the_answer_that_made_them_alone(running: Installation) -> None:
    yard = Yard(running, headers={"Authorization": "Bearer s3cret"})
    (secret,) = yard.made.json()["push"]["signing_secrets"]
    assert secret["secret"].startswith("whsec_")
    assert yard.made.headers["cache-control"] == "no-store"
    for path in (yard.one, "/subscriptions?page_size=1000", f"{yard.one}/signing_secrets"):
        text = yard.call("GET", path, 200).text
        assert secret["secret"] not in text
        assert "s3cret" not in text
        assert "whsec_" not in text
    shown = yard.call("GET", yard.one, 200).json()
    assert shown["push"]["headers"] == {"Authorization": "set"}


def test_a_put_of_what_is_shown_changes_nothing(running: Installation) -> None:
    yard = Yard(running, headers={"X-A": "1"}, signing=["v1", "v1a"])
    shown = yard.call("GET", yard.one, 200)
    again = yard.call("PUT", yard.one, 200, {"type": "push", "push": shown.json()["push"]})
    assert again.headers["etag"] == shown.headers["etag"]
    assert "signing_secrets" not in again.json()["push"]


def test_keys_are_changed_with_an_overlap(running: Installation) -> None:
    yard = Yard(running)
    secrets = f"{yard.one}/signing_secrets"
    (first,) = yard.call("GET", secrets, 200).json()["signing_secrets"]
    made = yard.call("POST", secrets, 201, {"expires_previous_after_seconds": 3600})
    new = made.json()
    assert new["secret"].startswith("whsec_")
    assert (new["expires_at"], made.headers["cache-control"]) == (None, "no-store")
    listed = yard.call("GET", secrets, 200).json()["signing_secrets"]
    assert [one["id"] for one in listed] == [new["id"], first["id"]]
    assert listed[1]["expires_at"] is not None
    other = yard.call("POST", secrets, 201, {"kind": "v1a"}).json()
    assert (other["secret"], other["public_key"][:5]) == (None, "whpk_")
    yard.call("DELETE", f"{secrets}/{first['id']}", 204)
    yard.call("DELETE", f"{secrets}/{first['id']}", 404)
    yard.call("DELETE", f"{secrets}/{other['id']}", 204)
    refused = yard.call("DELETE", f"{secrets}/{new['id']}", 409)
    assert refused.json()["type"].endswith("/last-signing-secret")
    etag = yard.call("GET", yard.one, 200).headers["etag"]
    yard.call("POST", secrets, 201, {}, headers={"If-Match": etag})
    yard.call("POST", secrets, 412, {}, headers={"If-Match": etag})


def test_nobody_pulls_what_is_pushed_until_it_is_pulled_again(running: Installation) -> None:
    yard = Yard(running)
    messages = f"/topics/{yard.name}/messages"
    published = [yard.call("POST", messages, 201, {"n": n}).json()["message_id"] for n in range(5)]
    for path in (f"{yard.one}/messages", f"{yard.one}/messages:stream"):
        refused = yard.call("GET", path, 409)
        assert refused.json()["type"].endswith("/push-subscription")
        assert "PATCH" in refused.json()["detail"]
    yard.call("PATCH", yard.one, 200, {"type": "pull"})
    refused = yard.call("GET", f"{yard.one}/signing_secrets", 409)
    assert refused.json()["type"].endswith("/not-a-push-subscription")
    got: set[str] = set()
    until_s = time.monotonic() + PATIENCE_S
    while (first := yard.http.get(f"{yard.url}{yard.one}/messages")).status_code == 409:
        assert time.monotonic() < until_s, "the change is not followed"
        time.sleep(0.1)
    got |= {one["message_id"] for one in first.json()["messages"]}
    while len(got) < len(published):
        answer = yard.call("GET", f"{yard.one}/messages?wait_seconds=20&max_messages=10", 200)
        pulled = answer.json()["messages"]
        assert pulled, "the backlog is not whole"
        got |= {one["message_id"] for one in pulled}
    assert got == set(published)


def test_endpoints_are_held_to_the_rules_of_egress(running: Installation) -> None:
    yard = Yard(running)
    for url in ("https://10.0.0.1/", "http://169.254.169.254/", "https://u@hook.example/"):
        refused = yard.call("PATCH", yard.one, 422, {"push": {"url": url}})
        assert [error["field"] for error in refused.json()["errors"]] == ["push.url"]
    yard.call("PATCH", yard.one, 200, {"push": {"url": "http://127.0.0.1:9/"}})
