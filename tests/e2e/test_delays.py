"""Delayed messages over HTTP: published at their time, cancelled, rescheduled, shown."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import requests
from packetboat import Client, Conflict, NotFound

from tests.e2e.installation import Installation

TOPIC = f"delays-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def http(running: Installation) -> Iterator[requests.Session]:
    with running.session() as session:
        yield session


@pytest.fixture
def boat(running: Installation) -> Iterator[Client]:
    with Client(running.url, running.token) as client:
        client.topics.create(TOPIC, partitions=2)
        client.subscriptions.create(TOPIC, TOPIC, start="earliest")
        yield client
        client.topics.delete(TOPIC, force=True)


def shown(http: requests.Session, url: str, message_id: str) -> dict[str, object]:
    answer = http.get(f"{url}/topics/{TOPIC}/messages/{message_id}")
    answer.raise_for_status()
    return dict(answer.json())


def test_a_delayed_message_arrives_at_its_time_under_the_id_of_its_receipt(
    running: Installation, http: requests.Session, boat: Client
) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    later = boat.publish(TOPIC, "later", deliver_at=moment, key="k").result()
    now = boat.publish(TOPIC, "now", key="k").result()
    assert later.offset is None
    assert later.scheduled_for is not None
    assert abs(later.scheduled_for - moment) < timedelta(milliseconds=1)
    waits = shown(http, running.url, later.message_id)
    assert (waits["state"], waits["offset"], waits["data"]) == ("scheduled", None, "later")
    acks = http.get(f"{running.url}/topics/{TOPIC}/messages/{later.message_id}/ack")
    assert acks.status_code == 200, acks.text
    state = boat.messages.ack_states(TOPIC, later.message_id)[TOPIC]
    assert (state.state, state.not_before) == ("scheduled", later.scheduled_for)
    seen = {}
    deadline_s = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < deadline_s:
        for message in boat.pull(TOPIC, wait_seconds=5):
            seen[message.message_id] = message
            assert boat.ack(TOPIC, message.message_id, by_message_id=True).count == 1
    assert set(seen) == {now.message_id, later.message_id}
    arrived = seen[later.message_id]
    assert arrived.publish_time >= moment
    published = shown(http, running.url, later.message_id)
    assert (published["state"], published["offset"]) == ("published", arrived.offset)
    assert boat.messages.ack_states(TOPIC, later.message_id)[TOPIC].state == "acked"
    for change in (boat.messages.cancel, lambda *a: boat.messages.reschedule(*a, delay_seconds=5)):
        with pytest.raises(Conflict, match="already-released"):
            change(TOPIC, later.message_id)


def test_a_cancelled_message_never_arrives_and_a_rescheduled_one_at_its_new_time(
    running: Installation, http: requests.Session, boat: Client
) -> None:
    cancelled = boat.publish(TOPIC, "cancelled", delay_seconds=1.5).result()
    sooner = boat.publish(TOPIC, "sooner", delay_seconds=3600).result()
    boat.messages.cancel(TOPIC, cancelled.message_id)
    boat.messages.cancel(TOPIC, cancelled.message_id)
    moment = boat.messages.reschedule(TOPIC, sooner.message_id, delay_seconds=2)
    assert moment < datetime.now(UTC) + timedelta(seconds=3)
    (message,) = boat.pull(TOPIC, wait_seconds=30)
    assert (message.message_id, message.text) == (sooner.message_id, "sooner")
    assert message.publish_time >= moment
    assert boat.pull(TOPIC, wait_seconds=1) == []
    assert shown(http, running.url, cancelled.message_id)["state"] == "cancelled"
    with pytest.raises(Conflict, match="message-cancelled"):
        boat.messages.reschedule(TOPIC, cancelled.message_id, delay_seconds=1)
    with pytest.raises(NotFound):
        boat.messages.cancel(TOPIC, cancelled.message_id[:-4] + "AAB5")
