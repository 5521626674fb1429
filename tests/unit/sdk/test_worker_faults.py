"""Everything is done at least once, and said, whatever the network does."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
from packetboat.models import Message
from packetboat.worker.emit import Emit
from packetboat.worker.events import WorkerEvents
from packetboat.worker.settings import SourceKind, WorkerOptions

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running


@pytest.mark.parametrize("source", ["pull", "stream"])
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_by_faults(seed: int, source: str) -> None:
    lease = Lease(ack_deadline_seconds=0.5)
    fake = FakeSubscription(lease, random.Random(seed), 0.15, 0.15, 0.02)
    fake.add(*range(150))
    dice = random.Random(seed)
    handled: set[int] = set()

    async def handle(message: Message) -> None:
        await asyncio.sleep(dice.uniform(0, 0.01))
        if dice.random() < 0.1:
            raise RuntimeError("bad luck")
        handled.add(message.json())

    async with Running(fake, handle, source=source, concurrency=8) as running:
        await running.until_settled()
    assert handled == set(range(150))


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("seed", range(2))
async def test_outputs_are_published_once_by_faults(seed: int, delivery: str) -> None:
    lease = Lease(delivery, 0.5)
    fake = FakeSubscription(lease, random.Random(seed), 0.2, 0.15, 0.02)
    fake.add(*range(60))
    dice = random.Random(seed)

    async def handle(message: Message) -> Emit:
        await asyncio.sleep(dice.uniform(0, 0.01))
        if dice.random() < 0.1:
            raise RuntimeError("bad luck")
        return Emit("next", message.json())

    async with Running(fake, handle, concurrency=8) as running:
        await running.until_settled()
    assert sorted(each.data for each in fake.outputs) == list(range(60))


class Outages(WorkerEvents):
    def __init__(self) -> None:
        self.said: list[str] = []

    def outage(self, subscription: str, error: Exception) -> None:
        self.said.append("outage")

    def recovered(self, subscription: str, seconds: float) -> None:
        self.said.append("recovered")


@pytest.mark.parametrize("source", ["pull", "stream"])
async def test_an_outage_is_told_once_and_handlers_go_on(
    source: SourceKind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "packetboat.worker")
    fake, events = FakeSubscription(), Outages()
    fake.add("before")
    go_on = asyncio.Event()

    async def handle(message: Message) -> None:
        await go_on.wait()

    options: WorkerOptions = {"source": source, "concurrency": 2, "prefetch": 0}
    async with Running(fake, handle, events=events, **options) as running:
        await running.until(lambda: fake.leased())
        fake.down = True
        await running.until(lambda: events.said)
        go_on.set()
        await asyncio.sleep(0.1)
        fake.down = False
        fake.add("after")
        await running.until_settled()
    assert events.said == ["outage", "recovered"]
    logged = [record.getMessage() for record in caplog.records]
    assert sum("no messages for now" in text for text in logged) == 1
    assert sum("answers again" in text for text in logged) == 1


async def test_acks_go_together_while_one_is_out() -> None:
    fake = FakeSubscription(slow_s=0.05)
    fake.add(*range(100))

    async def handle(message: Message) -> None: ...

    async with Running(fake, handle, concurrency=100) as running:
        await running.until_settled()
    assert sum(verb == "ack" for verb, _, _ in fake.log) < 30
