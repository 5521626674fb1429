"""The forwarders that deliver, as the API and the command show them in a running installation."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
import requests

from harness.fork_server import run_forked
from tests.e2e.installation import Installation

PATIENCE_S = 30.0


@pytest.fixture
def http(running: Installation) -> requests.Session:
    return running.session()


def listed(http: requests.Session, url: str) -> dict[str, Any]:
    answer = http.get(f"{url}/forwarders")
    answer.raise_for_status()
    assert answer.headers["cache-control"] == "no-store"
    found: dict[str, Any] = answer.json()
    return found


def command(running: Installation, *options: str) -> str:
    arguments = ["forwarders", "--data-dir", str(running.directory), *options]
    done = run_forked("gateway", arguments, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forwarder_tells_its_load_and_what_it_is_busy_with(
    running: Installation, http: requests.Session
) -> None:
    url, name = running.url, f"busy-{uuid.uuid4().hex[:8]}"
    http.post(f"{url}/topics", json={"name": name, "partitions": 1}).raise_for_status()
    http.post(f"{url}/topics/{name}/subscriptions", json={"name": name}).raise_for_status()
    busy: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while not busy and time.monotonic() < deadline_s:
        http.post(f"{url}/topics/{name}/messages", data=b"1").raise_for_status()
        http.get(f"{url}/subscriptions/{name}/messages").raise_for_status()
        (forwarder,) = listed(http, url)["forwarders"]
        busy = [part for part in forwarder["busiest"] if part["topic"] == name]
    (part,) = busy
    assert (part["partition"], part["subscription"]) == (0, name)
    assert part["messages_per_second"] > 0
    assert part["backlog"] > 0
    assert forwarder["role"] == "subscribe"
    assert 0 < forwarder["lease_seconds"] <= 4
    load = forwarder["load"]
    assert load["cpu"] > 0
    assert load["units"] >= 1
    assert load["messages_per_second"] >= part["messages_per_second"]

    seen = json.loads(command(running, "--json"))
    assert [one["id"] for one in seen["forwarders"]] == [forwarder["id"]]
    assert seen["hints"] == []
    lines = [line.split() for line in command(running).splitlines()]
    assert lines[1][:2] == [forwarder["id"][:8], "subscribe"]


def test_it_needs_a_token(running: Installation) -> None:
    assert requests.get(f"{running.url}/forwarders", timeout=10).status_code == 401
