"""The SDK and the demo against a real installation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from packetboat import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    NotAuthorized,
    NotFound,
    Outgoing,
    PacketboatError,
    Receipt,
)

from tests.e2e.installation import Installation

ROOT = Path(__file__).parents[2]


@pytest.fixture
def client(running: Installation) -> Iterator[Client]:
    with Client(running.url, running.token) as client:
        yield client


@pytest.fixture
def name(client: Client) -> Iterator[str]:
    """Yield the name of a topic and of its subscription."""
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    client.topics.create(name, labels={"made-by": "a test"})
    client.subscriptions.create(name, name, start="earliest", ack_deadline_seconds=60)
    yield name
    client.subscriptions.delete(name, force=True)
    client.topics.delete(name)


def test_a_message_comes_back_as_it_was_published(client: Client, name: str) -> None:
    sent = [
        client.publish(name, b"\x00\xff", key="kunde ü", attributes={"größe": "X L", "a%b": "%"}),
        client.publish(name, "text\n", publisher_id="till 4", priority=7),
        client.publish(name, {"n": 1}, idempotency_key="once"),
    ]
    pulled = {}
    while len(pulled) < 3:
        messages = client.pull(name, wait_seconds=5)
        assert messages
        pulled |= {message.message_id: message for message in messages}
        assert client.ack(name, messages).count == len(messages)
    receipts = [pending.result() for pending in sent]
    binary, text, json = (pulled[receipt.message_id] for receipt in receipts)
    assert (binary.body, binary.key) == (b"\x00\xff", "kunde ü")
    assert binary.attributes == {"größe": "X L", "a%b": "%"}
    assert (text.text, text.publisher_id, text.priority) == ("text\n", "till 4", 7)
    assert json.json() == {"n": 1}
    for receipt in receipts:
        assert receipt.publish_time == pulled[receipt.message_id].publish_time
        assert receipt.offset == pulled[receipt.message_id].offset


def test_a_batch_keeps_keys_in_order_and_names_what_is_wrong(client: Client, name: str) -> None:
    outgoing = [Outgoing(data=str(n), key=f"k{n % 5}") for n in range(500)]
    outgoing[250] = Outgoing(data="bad", key="bad", priority=99)
    results = client.publish_batch(name, outgoing)
    assert [n for n, r in enumerate(results) if isinstance(r, PacketboatError)] == [250]
    assert isinstance(results[250], InvalidRequest)
    seen: dict[str, list[int]] = {}
    places: dict[tuple[int, int], tuple[str, int]] = {}
    while len(places) < 499:
        messages = client.pull(name, max_messages=1000, wait_seconds=5)
        assert messages
        for message in messages:
            places[message.partition, message.offset] = (message.key or "", int(message.text))
        client.ack(name, messages)
    for _, (key, number) in sorted(places.items()):
        seen.setdefault(key, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    stored = {(r.partition, r.offset): n for n, r in enumerate(results) if isinstance(r, Receipt)}
    assert {place: number for place, (_, number) in places.items()} == stored


def test_early_answers(client: Client, name: str) -> None:
    ids = {
        client.publish_early(name, Outgoing(data="x"), durability="leader"),
        client.publish_early(name, Outgoing(data="y"), durability="none"),
    }
    assert len(ids) == 2
    bodies: set[str] = set()
    while bodies != {"x", "y"}:
        messages = client.pull(name, wait_seconds=5)
        assert messages
        bodies |= {message.text for message in messages}
        client.ack(name, messages)


def test_the_largest_message(client: Client, name: str) -> None:
    body = os.urandom(1024) * 10 * 1024
    client.publish(name, body).result()
    with pytest.raises(InvalidRequest) as caught:
        client.publish(name, body + b"x").result()
    assert caught.value.status == 413
    (message,) = client.pull(name, wait_seconds=10)
    assert message.body == body
    client.ack(name, message)


def test_nack_and_deadline(client: Client, name: str) -> None:
    client.publish(name, "again")
    (first,) = client.pull(name, wait_seconds=5)
    assert client.extend(name, first, 120).count == 1
    assert client.nack(name, first).count == 1
    (second,) = client.pull(name, wait_seconds=5)
    assert (second.message_id, second.attempt) == (first.message_id, 2)
    assert client.ack(name, second.message_id, by_message_id=True).count == 1
    assert client.pull(name) == []


def test_what_is_refused(client: Client, name: str) -> None:
    with pytest.raises(NotFound):
        client.publish("no-such-topic", b"").result()
    with pytest.raises(NotFound):
        client.pull("no-such-subscription")
    with pytest.raises(Conflict):
        client.topics.create(name)
    with pytest.raises(InvalidRequest) as caught:
        client.topics.create("bad name")
    assert [error.field for error in caught.value.errors] == ["name"]


def test_a_wrong_token_is_refused(running: Installation) -> None:
    with Client(running.url, "wrong") as stranger, pytest.raises(NotAuthorized):
        stranger.publish("any", b"").result()


def test_listings(client: Client, name: str) -> None:
    assert name in [topic.name for topic in client.topics.list(page_size=1)]
    page = client.topics.page(page_size=1)
    assert len(page.items) == 1
    assert client.topics.get(name).labels == {"made-by": "a test"}
    assert [s.name for s in client.subscriptions.list(name)] == [name]
    assert client.subscriptions.get(name).ack_deadline_seconds == 60


async def test_two_workers_share_a_subscription(running: Installation, name: str) -> None:
    async with AsyncClient(running.url, running.token) as client:
        await client.publish_batch(name, [str(n) for n in range(400)])
        seen: list[str] = []

        async def work() -> None:
            while messages := await client.pull(name, max_messages=20, wait_seconds=1):
                seen.extend(message.text for message in messages)
                assert (await client.ack(name, messages)).count == len(messages)

        await asyncio.gather(work(), work())
        assert sorted(seen, key=int) == [str(n) for n in range(400)]


def test_the_demo_accounts_for_every_message(running: Installation) -> None:
    environment = os.environ | {"PACKETBOAT_URL": running.url, "PACKETBOAT_TOKEN": running.token}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py"), "--messages", "2000"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every published line was consumed" in done.stdout
