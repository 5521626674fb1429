"""Workers over a network that loses, doubles, delays and cuts: leases of lost answers run out, acks
are repeated, and each output is there once."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from urllib.parse import urlsplit

import pytest
from packetboat import AsyncClient, Message, Options
from packetboat.credentials import StaticToken
from packetboat.models import RetryPolicy
from packetboat.testing.faults import Faults
from packetboat.testing.proxy import FaultyProxy
from packetboat.worker import Emit, Worker

from tests.e2e.installation import Installation

PATIENCE_S = 120.0
MESSAGES = 180
KEYS = 6


def befall(faults: Faults, rate: float) -> None:
    faults.drop_requests(rate)
    faults.drop_replies(rate)
    faults.duplicate(rate)
    faults.cut_replies(rate)
    faults.late(rate, seconds=0.5)
    faults.delay(2 * rate, seconds=0.2)


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
async def test_outputs_are_there_once(running: Installation, ordered: bool) -> None:
    topic, port = f"faulty-{uuid.uuid4().hex[:8]}", urlsplit(running.url).port
    assert port is not None
    proxy = FaultyProxy(port)
    options = Options(urls=(proxy.url,), credentials=StaticToken(running.token), retry_for_s=60)
    async with AsyncClient(running.url, running.token) as direct:
        await direct.topics.create(topic, partitions=3)
        await direct.topics.create(f"{topic}-out", partitions=1)
        await direct.subscriptions.create(
            topic,
            topic,
            start="earliest",
            ack_deadline_seconds=3,
            ordered=ordered,
            retry=RetryPolicy(min_backoff_seconds=0.1, max_backoff_seconds=0.5),
        )
        for number in range(MESSAGES):
            direct.publish(topic, str(number), key=f"key {number % KEYS}")
        await direct.flush()
        faults = proxy.begin()
        befall(faults, 0.02 if ordered else 0.06)
        async with AsyncClient(options=options) as client:
            worker = Worker(client, topic, concurrency=8)

            async def handle(message: Message) -> Emit:
                return Emit(f"{topic}-out", message.text, key=message.key)

            task = asyncio.create_task(worker.arun(handle))
            async with asyncio.timeout(PATIENCE_S):
                while (await direct.subscriptions.backlog(topic)).messages:
                    assert not task.done(), task
                    await asyncio.sleep(0.1)
            worker.stop()
            await task
        found: dict[str | None, list[int]] = defaultdict(list)
        async for message in direct.messages.replay(f"{topic}-out", 0):
            found[message.key].append(int(message.text))
    proxy.close()
    assert faults.counts, faults.report()
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(MESSAGES))
    if ordered:
        assert all(numbers == sorted(numbers) for numbers in found.values()), faults.report()
