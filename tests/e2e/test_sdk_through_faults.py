"""The SDK through a proxy that loses, cuts, delays and repeats: nothing is lost or comes twice
where that is promised, keys stay in order, and what is not known is called that."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from packetboat import (
    AsyncClient,
    Client,
    ConnectionFailed,
    Message,
    NotDone,
    Options,
    Receipt,
    UnknownOutcome,
)
from packetboat.credentials import StaticToken
from packetboat.publisher.settings import PublisherSettings
from packetboat.worker import Emit, Worker

from tests.e2e.faulty_proxy import FAULTS, Fault, FaultyProxy
from tests.e2e.installation import Installation

PATIENCE_S = 120.0
KEYS = [f"key-{number}" for number in range(6)]


@pytest.fixture
async def proxy(
    running: Installation, request: pytest.FixtureRequest
) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(running.url, seed=getattr(request, "param", 1)).running() as proxy:
        yield proxy


@pytest.fixture
async def direct(running: Installation) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(running.url, running.token) as client:
        yield client


@pytest.fixture
async def topic(direct: AsyncClient) -> str:
    made = await direct.topics.create(f"faulty-{uuid.uuid4().hex[:8]}", partitions=3)
    return made.name


def options(proxy: FaultyProxy, running: Installation, deadline_s: float = PATIENCE_S) -> Options:
    publisher = PublisherSettings(deadline_s=deadline_s, max_batch_messages=20)
    return Options(
        urls=(proxy.url,),
        credentials=StaticToken(running.token),
        retry_for_s=min(deadline_s, PATIENCE_S),
        publisher=publisher,
    )


async def stored(client: AsyncClient, topic: str) -> list[Any]:
    """All that the topic has, partition after partition."""
    shown = await client.topics.get(topic)
    return [
        message
        for partition in range(shown.partitions)
        async for message in client.messages.replay(topic, partition)
    ]


def by_key(messages: Iterable[Any]) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = defaultdict(list)
    for message in messages:
        found[message.key].append(int(message.text.split()[0]))
    return found


@pytest.mark.parametrize("proxy", [1, 2], indirect=True)
async def test_what_is_published_is_there_once_and_keys_in_order(
    running: Installation, proxy: FaultyProxy, direct: AsyncClient, topic: str
) -> None:
    async with AsyncClient.from_options(options(proxy, running)) as client:
        sent = []
        for number in range(1200):
            key = KEYS[number % 6] if number % 2 else None
            sent.append(client.publish(topic, f"{number} {'x' * 200}", key=key))
            if number % 50 == 0:
                await asyncio.sleep(0.01)  # so that there are many batches
        receipts = await asyncio.gather(*sent)
    await proxy.settle()
    messages = await stored(direct, topic)
    assert sorted(m.message_id for m in messages) == sorted(r.message_id for r in receipts)
    found = by_key(messages)
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(1200))
    for key in KEYS:
        assert found[key] == sorted(found[key]), key
    assert all(proxy.seen[fault] for fault in FAULTS), proxy.seen


async def test_threads_publish_through_faults_as_well(
    running: Installation, proxy: FaultyProxy, direct: AsyncClient, topic: str
) -> None:
    def publish() -> list[Receipt]:
        with Client.from_options(options(proxy, running)) as client:
            pending = [client.publish(topic, f"{n} x", key=KEYS[n % 6]) for n in range(300)]
            return [each.result(PATIENCE_S) for each in pending]

    parts = await asyncio.gather(*(asyncio.to_thread(publish) for _ in range(2)))
    await proxy.settle()
    messages = await stored(direct, topic)
    ids = [receipt.message_id for part in parts for receipt in part]
    assert sorted(message.message_id for message in messages) == sorted(ids)
    places = {
        message.message_id: (m_index, message.key) for m_index, message in enumerate(messages)
    }
    for part in parts:
        for key in KEYS:
            own = [places[r.message_id][0] for r in part if places[r.message_id][1] == key]
            assert own == sorted(own)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ANSWER_LOST, Fault.CUT], ids=lambda f: f.name)
@pytest.mark.parametrize("own", [True, False], ids=["own key", "the client's key"])
async def test_what_is_not_known_is_called_that_and_can_be_sent_again(
    running: Installation,
    proxy: FaultyProxy,
    direct: AsyncClient,
    topic: str,
    fault: Fault,
    own: bool,
) -> None:
    """With a key of one's own by anybody, else by the client whose error names it."""
    proxy.always = fault
    async with AsyncClient.from_options(options(proxy, running, deadline_s=1.0)) as client:
        with pytest.raises(UnknownOutcome) as caught:
            await client.publish(topic, "1 once", idempotency_key="pay-7" if own else None)
        key = caught.value.idempotency_key
        assert key is not None
        assert key in str(caught.value)
        assert not own or key == "pay-7"
        was_stored = len(await stored(direct, topic)) == 1
        assert was_stored is (fault is not Fault.LOST)
        proxy.always = Fault.NONE
        receipt = await (direct if own else client).publish(topic, "1 once", idempotency_key=key)
    assert receipt.duplicate is was_stored
    assert [m.message_id for m in await stored(direct, topic)] == [receipt.message_id]


async def test_what_never_reached_a_server_was_not_done(running: Installation, topic: str) -> None:
    async with FaultyProxy(running.url, seed=1).running() as gone:
        reachable_no_more = options(gone, running, deadline_s=1.0)
    async with AsyncClient.from_options(reachable_no_more) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.publish(topic, "1 never")
        assert isinstance(caught.value, NotDone)


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
async def test_a_worker_s_outputs_are_there_once(
    running: Installation, proxy: FaultyProxy, direct: AsyncClient, topic: str, ordered: bool
) -> None:
    """Answers to pulls are lost, so leases run out; acks are repeated; each counts once."""
    output = (await direct.topics.create(f"{topic}-out", partitions=1)).name
    await direct.subscriptions.create(
        topic, topic, start="earliest", ack_deadline_seconds=3, ordered=ordered
    )
    sent = [direct.publish(topic, f"{n} x", key=KEYS[n % 6]) for n in range(180)]
    await asyncio.gather(*sent)
    proxy.share = 0.12 if ordered else 0.3
    async with AsyncClient.from_options(options(proxy, running)) as client:
        worker = Worker(client, topic, concurrency=8)

        async def handle(message: Message) -> Emit:
            return Emit(output, message.text, key=message.key)

        task = asyncio.create_task(worker.arun(handle))
        async with asyncio.timeout(PATIENCE_S):
            while (await direct.subscriptions.backlog(topic)).messages:
                assert not task.done(), task
                await asyncio.sleep(0.1)
        worker.stop()
        await task
    found = by_key(await stored(direct, output))
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(180))
    if ordered:
        assert all(numbers == sorted(numbers) for numbers in found.values())
