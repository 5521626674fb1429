"""The roles as processes of their own, on the Postgres and store of a running installation."""

from __future__ import annotations

import uuid
from functools import partial

import requests

from gateway.up.data_dir import free_port
from tests.e2e.installation import Installation
from tests.e2e.servers import StartServer, until_taken, wait_for


def test_a_topic_answered_201_is_usable_at_every_process_at_once(
    running: Installation, start_server: StartServer
) -> None:
    metrics_port = free_port("127.0.0.1")
    metrics = {"PACKETBOAT_METRICS_PORT": str(metrics_port)}
    publisher = start_server("publish", "--workers", "2", settings=metrics)
    control = start_server("gateway")
    wait_for(publisher, 200)
    wait_for(control, 200)
    http = running.session()
    for _ in range(5):
        topic = f"roles-{uuid.uuid4().hex[:8]}"
        assert http.post(f"{publisher}/topics/{topic}/messages").status_code == 404
        assert http.post(f"{control}/topics", json={"name": topic}).status_code == 201
        answer = http.post(f"{publisher}/topics/{topic}/messages", data=b"at once")
        assert answer.status_code == 201, answer.text
        made = http.post(
            f"{control}/topics/{topic}/subscriptions", json={"name": topic, "start": "earliest"}
        )
        assert made.status_code == 201
        pulled = http.get(
            f"{running.url}/subscriptions/{topic}/messages", params={"wait_seconds": 5}
        ).json()
        assert [message["message_id"] for message in pulled["messages"]] == [
            answer.json()["message_id"]
        ]
    # Each role has its own operations and no others.
    assert http.get(f"{publisher}/topics").status_code == 404
    assert http.post(f"{control}/topics/{topic}/messages").status_code == 404
    # Metrics have a port of their own.
    for url in (publisher, control, running.url):
        for path in ("/metrics", "/%6detrics", "/metric%73"):
            assert requests.get(url + path).status_code == 404
    page = requests.get(f"http://127.0.0.1:{metrics_port}/metrics")
    assert (page.status_code, "packetboat_gateway_requests_total" in page.text) == (200, True)


def test_more_subscribers_share_what_there_is(
    running: Installation, start_server: StartServer
) -> None:
    """Several processes on one port are there beside a server of all roles; every call may
    go to any of them.
    """
    more = start_server("subscribe", "--workers", "2")
    wait_for(more, 200)
    http = running.session()
    for number in range(4):
        topic = f"shared-{uuid.uuid4().hex[:8]}"
        assert http.post(f"{running.url}/topics", json={"name": topic}).status_code == 201
        made = {"name": topic, "start": "earliest"}
        subscriptions = f"{running.url}/topics/{topic}/subscriptions"
        assert http.post(subscriptions, json=made).status_code == 201
        published = http.post(f"{running.url}/topics/{topic}/messages", data=b"somewhere")
        assert published.status_code == 201
        at, other = (more, running.url) if number % 2 else (running.url, more)
        pull = partial(http.get, f"{at}/subscriptions/{topic}/messages", params={"wait_seconds": 5})
        (message,) = until_taken(pull).json()["messages"]
        ack = partial(
            http.post,
            f"{other}/subscriptions/{topic}/ack",
            json={"ack_id": message["ack_id"]},
        )
        acked = until_taken(ack)
        assert acked.json()["acked"] == 1
