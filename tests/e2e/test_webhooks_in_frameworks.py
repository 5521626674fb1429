"""The installation pushes, signed, to endpoints made with the SDK, in each framework."""

from __future__ import annotations

from typing import Any

import pytest
from packetboat.webhooks import DeliverLater, Delivery, Receiver, RecentIds

from harness.seeded_postgres import free_port
from tests.e2e import webhook_sites
from tests.e2e.installation import Installation
from tests.e2e.test_webhooks import Site, until

FORMATS = ["json", "raw", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"]


@pytest.fixture(scope="module")
def site(running: Installation) -> Site:
    return Site(running)


class Orders:
    """Takes each message at its second attempt."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.taken: list[str] = []
        self.numbers: list[Any] = []

    def __call__(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            if message.message_id not in self.refused:
                self.refused.append(message.message_id)
                raise DeliverLater("not yet")
            self.taken.append(message.message_id)
            self.numbers.append(message.json()["n"])


def secrets_of(made: Any) -> dict[str, str]:
    """Return the secrets that a receiver is told when the subscription is made, by kind."""
    keys = made["push"]["signing_secrets"]
    return {one["kind"]: one.get("secret") or one["public_key"] for one in keys}


def subscribe(site: Site, port: int, format_: str = "json") -> tuple[str, dict[str, str]]:
    """Subscribe; return the name and the secrets.

    Nobody answers at that port yet.
    """
    name = f"{site.topic}-{port}"
    url = f"http://127.0.0.1:{port}{webhook_sites.PATH}"
    push = {"url": url, "format": format_, "signing": ["v1", "v1a"], "timeout_seconds": 20}
    retry = {"min_backoff_seconds": 0.1, "max_backoff_seconds": 0.2}
    body = {"name": name, "type": "push", "push": push, "retry": retry, "start": "latest"}
    made = site.call("POST", f"/topics/{site.topic}/subscriptions", body, 201)
    return name, secrets_of(made)


def verified(site: Site, name: str) -> bool:
    state = site.call("POST", f"/subscriptions/{name}:verify", {})["state"]
    return bool(state == "enabled")


def delete(site: Site, name: str) -> None:
    assert site.http.delete(f"{site.url}/subscriptions/{name}?force=true").status_code == 204


@pytest.mark.parametrize("where", webhook_sites.SITES, ids=lambda where: where.__name__)
@pytest.mark.parametrize("kind", ["v1", "v1a"])
def test_messages_are_signed_taken_and_acked(
    site: Site, where: webhook_sites.Site, kind: str
) -> None:
    port, orders = free_port(), Orders()
    name, secrets = subscribe(site, port)
    with where(Receiver(secrets[kind], seen=RecentIds()), orders, port):
        until(lambda: verified(site, name))
        tried = site.call("POST", f"/subscriptions/{name}:test", {})
        assert (tried["outcome"], tried["status"]) == ("delivered", 204)
        published = site.publish(3)
        until(lambda: site.backlog(name)["messages"] == 0)
    assert sorted(orders.taken) == sorted(published)
    assert sorted(orders.refused) == sorted(published), "each came again after a 503"
    assert sorted(orders.numbers) == [0, 1, 2]
    delete(site, name)


@pytest.mark.parametrize("format_", FORMATS)
def test_each_format_is_read(site: Site, format_: str) -> None:
    port, orders = free_port(), Orders()
    name, secrets = subscribe(site, port, format_)
    receiver = Receiver(secrets.values(), format=format_)  # type: ignore[arg-type]
    with webhook_sites.flask_on_wsgiref(receiver, orders, port):
        until(lambda: verified(site, name))
        published = site.publish(2)
        until(lambda: site.backlog(name)["messages"] == 0)
    assert sorted(orders.taken) == sorted(published)
    delete(site, name)


def test_without_its_secret_an_endpoint_is_not_verified(site: Site) -> None:
    port = free_port()
    name, _ = subscribe(site, port)
    other, secrets = subscribe(site, free_port())
    with webhook_sites.flask_on_wsgiref(Receiver(secrets.values()), Orders(), port):
        answered = site.call("POST", f"/subscriptions/{name}:verify", {})
        assert "401" in answered["reason"]
    for one in (name, other):
        delete(site, one)
