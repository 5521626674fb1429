"""The SDK's publisher over a network that loses, doubles, delays and cuts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from packetboat import (
    AsyncClient,
    Client,
    Options,
    PublisherSettings,
    Receipt,
    UnknownOutcome,
)
from packetboat.credentials import StaticToken
from packetboat.testing.faults import Fault, Faults
from packetboat.testing.proxy import FaultyProxy

from tests.e2e.installation import Installation

MESSAGES = 2000
KEYS = [None, *(f"key {number}" for number in range(10))]
PUBLISH = "POST /topics"


@pytest.fixture(scope="module")
def proxy(running: Installation) -> Iterator[FaultyProxy]:
    port = urlsplit(running.url).port
    assert port is not None
    proxy = FaultyProxy(port)
    yield proxy
    proxy.close()


@pytest.fixture
def faults(proxy: FaultyProxy) -> Iterator[Faults]:
    faults = proxy.begin()
    yield faults
    faults.stop()
    print("\n".join(faults.report()))


@pytest.fixture
def topic(running: Installation) -> str:
    name = f"faults-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "retention": {"mode": "retain"}}
    assert running.session().post(f"{running.url}/topics", json=body).status_code == 201
    return name


def options(running: Installation, proxy: FaultyProxy, **publisher: float) -> Options:
    return Options(
        urls=(proxy.url,),
        credentials=StaticToken(running.token),
        publisher=PublisherSettings(max_batch_messages=40, **publisher),  # type: ignore[arg-type]
    )


def everything(faults: Faults) -> None:
    faults.drop_requests(0.1, on=PUBLISH)
    faults.drop_replies(0.15, on=PUBLISH)
    faults.duplicate(0.1, on=PUBLISH)
    faults.cut_replies(0.1, on=PUBLISH)
    faults.delay(0.3, seconds=0.05, on=PUBLISH)
    faults.late(0.1, seconds=0.5, on=PUBLISH)


def stored(running: Installation, topic: str) -> list[tuple[str | None, str]]:
    """Return (key, data) of all messages, a partition after the other."""
    session = running.session()
    found = []
    for partition in range(4):
        offset: int | None = 0
        while offset is not None:
            url = f"{running.url}/topics/{topic}/partitions/{partition}/messages"
            page = session.get(url, params={"offset": offset, "max_messages": 1000}).json()
            messages = page["messages"]
            found += [(each.get("key"), each["data"]) for each in messages]
            offset = messages[-1]["offset"] + 1 if messages else None
    return found


def check(
    running: Installation, topic: str, faults: Faults, published: list[tuple[str | None, str]]
) -> None:
    """Check that each message is stored once, and messages of a key in the order of their
    publication.
    """
    assert all(faults.counts[each] for each in Fault), faults.report()
    found = stored(running, topic)
    assert Counter(found) == Counter(published), faults.report()
    for key in KEYS[1:]:
        expected = [each for each in published if each[0] == key]
        assert [each for each in found if each[0] == key] == expected, faults.report()


async def test_nothing_is_lost_doubled_or_out_of_order(
    running: Installation, proxy: FaultyProxy, faults: Faults, topic: str
) -> None:
    everything(faults)
    published = [(KEYS[number % len(KEYS)], str(number)) for number in range(MESSAGES)]
    async with AsyncClient(options=options(running, proxy)) as client:
        receipts = [client.publish(topic, text, key=key) for key, text in published]
        assert all(isinstance(each, Receipt) for each in await asyncio.gather(*receipts))
    check(running, topic, faults, published)


def test_nor_by_threads(
    running: Installation, proxy: FaultyProxy, faults: Faults, topic: str
) -> None:
    everything(faults)
    published = [(key, f"{key} {number}") for number in range(150) for key in KEYS]

    with Client(options=options(running, proxy)) as client:

        def publish(key: str | None) -> None:
            for each in published:
                if each[0] == key:
                    client.publish(topic, each[1], key=key)

        threads = [threading.Thread(target=publish, args=[key]) for key in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check(running, topic, faults, published)


async def test_an_unknown_outcome_can_be_found_out(
    running: Installation, proxy: FaultyProxy, faults: Faults, topic: str
) -> None:
    faults.drop_replies(1.0, on=PUBLISH)
    published = [("a key", "1"), ("a key", "2"), (None, "3")]
    async with AsyncClient(options=options(running, proxy, deadline_s=1.0)) as client:
        first = [client.publish(topic, text, key=key) for key, text in published]
        own = client.publish(topic, "own", idempotency_key=f"own {topic}")
        errors = await asyncio.gather(*first, own, return_exceptions=True)
        assert all(isinstance(error, UnknownOutcome) for error in errors), errors
        faults.stop()
        again = [
            client.publish(topic, text, key=key, idempotency_key=error.idempotency_key)
            for (key, text), error in zip([*published, (None, "own")], errors, strict=True)
            if isinstance(error, UnknownOutcome)
        ]
        receipts = await asyncio.gather(*again)
    assert all(receipt.duplicate for receipt in receipts)
    assert Counter(stored(running, topic)) == Counter([*published, (None, "own")])


def test_a_program_that_just_ends_has_published(
    running: Installation, proxy: FaultyProxy, faults: Faults, topic: str
) -> None:
    faults.delay(1.0, seconds=0.2, on=PUBLISH)
    program = f"""
from packetboat import Client
client = Client("http://localhost:{proxy.port}", {running.token!r})
for number in range(500):
    client.publish({topic!r}, str(number))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Counter(stored(running, topic)) == Counter((None, str(n)) for n in range(500))
