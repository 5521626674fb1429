from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.contract.browser import Browser, chromium
from tests.e2e.installation import Installation

TOPIC, SUBSCRIPTION, TENANT = "contract", "contract-reader", "contract"


def _job(http: requests.Session, url: str) -> None:
    job = {"name": SUBSCRIPTION, "map": "k", "pool": SUBSCRIPTION}
    http.post(f"{url}/jobs", json=job).raise_for_status()
    tasks = {"first_index": 0, "inputs": [1, 2]}
    http.post(f"{url}/jobs/{SUBSCRIPTION}/tasks", json=tasks).raise_for_status()
    http.put(f"{url}/pools/{SUBSCRIPTION}", json={"max_running": 1}).raise_for_status()


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    chromium()
    return Browser(tmp_path / "profile")


@pytest.fixture(scope="session")
def served(running: Installation) -> Installation:
    """Return an installation with a topic, a subscription and a few messages."""
    return _filled(running)


@pytest.fixture(scope="session")
def served_by_hypercorn(
    running: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Yield another installation, all of whose connections are Hypercorn's."""
    installation = Installation(tmp_path_factory.mktemp("hypercorn") / "data")
    installation.settings = running.settings | {"PACKETBOAT_HTTP_LISTENER": "hypercorn"}
    with installation.started():
        yield _filled(installation)


def _filled(running: Installation) -> Installation:
    http, url = running.session(), running.url
    http.post(f"{url}/topics", json={"name": TOPIC, "partitions": 2}).raise_for_status()
    made = {"name": SUBSCRIPTION, "start": "earliest", "ack_deadline_seconds": 1}
    http.post(f"{url}/topics/{TOPIC}/subscriptions", json=made).raise_for_status()
    schema = {"name": SUBSCRIPTION, "type": "json_schema", "definition": {"type": "object"}}
    http.post(f"{url}/schemas", json=schema).raise_for_status()
    runs = {"cron": "0 0 1 1 *", "message": {"data": 1}}
    http.put(f"{url}/schedules/{SUBSCRIPTION}", json={"topic": TOPIC} | runs).raise_for_status()
    things: dict[str, dict[str, object]] = {
        f"tenants/{TENANT}": {},
        f"clients/{SUBSCRIPTION}": {},
        f"keys/{SUBSCRIPTION}": {"scopes": ["read"]},
        f"policies/{SUBSCRIPTION}": {"role": "viewer", "members": ["client:nobody"]},
        f"issuers/{SUBSCRIPTION}": {"issuer": "https://id.example"},
    }
    for path, body in things.items():
        http.put(f"{url}/{path}", json=body).raise_for_status()
    _job(http, url)
    export = {"topic": TOPIC, "maintain_cron": None}
    http.put(f"{url}/exports/{SUBSCRIPTION}", json=export).raise_for_status()
    http.post(f"{url}/exports/{SUBSCRIPTION}:run").raise_for_status()
    for data in (b'{"a":1}', b"text", b"\xff\x00"):
        http.post(f"{url}/topics/{TOPIC}/messages", data=data).raise_for_status()
    return running
