"""Stopping: gently, in time, or at once."""

from __future__ import annotations

import asyncio
import threading

from packetboat.models import Message
from packetboat.worker.context import Context
from packetboat.worker.outcomes import Release

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running


async def test_what_has_begun_ends_and_the_rest_goes_back() -> None:
    fake = FakeSubscription()
    fake.add(*range(10))
    go_on = asyncio.Event()
    begun: list[int] = []

    async def handle(message: Message) -> None:
        begun.append(message.json())
        await go_on.wait()

    async with Running(fake, handle, concurrency=3, prefetch=4) as running:
        await running.until(lambda: len(fake.leased()) == 7)
        running.stopping.ask()
        await running.until(lambda: len(fake.said("release")) == 4)
        go_on.set()
        await running.stop()
    assert sorted(fake.said("ack")) == sorted(begun) == [0, 1, 2]
    assert not fake.leased()
    assert all(stored.attempt == 0 for stored in fake.stored[3:])


async def test_a_handler_that_does_not_end_in_time_is_cancelled_and_its_message_goes_back() -> None:
    fake = FakeSubscription()
    fake.add("endless")
    async with Running(fake, lambda message: asyncio.sleep(3600), drain_s=0.1) as running:
        await running.until(lambda: fake.leased())
        await running.stop()
    assert fake.said("release") == [0]


async def test_the_second_time_means_at_once() -> None:
    fake = FakeSubscription()
    fake.add("endless")
    go_on = threading.Event()
    async with Running(fake, lambda message: go_on.wait(60) and None, drain_s=3600) as running:
        await running.until(lambda: fake.leased())
        running.stopping.ask()
        await running.stop()
    go_on.set()
    assert fake.said("release") == [0]


async def test_a_handler_can_see_that_it_should_end() -> None:
    fake = FakeSubscription()
    fake.add("long")

    async def handle(message: Message, context: Context) -> None:
        while not context.stopping:
            await asyncio.sleep(0.005)
        raise Release

    async with Running(fake, handle) as running:
        await running.until(lambda: fake.leased())
        await running.stop()
    assert fake.said("release") == [0]


async def test_acks_are_waited_for() -> None:
    fake = FakeSubscription(slow_s=0.2)
    fake.add(*range(20))
    async with Running(fake, lambda message: None, concurrency=20) as running:
        await running.until(lambda: len(fake.leased()) == 20)
        await running.stop()
    assert sorted(fake.said("ack") + fake.said("release")) == list(range(20))


async def test_what_is_at_most_once_and_came_is_finished() -> None:
    fake = FakeSubscription(Lease("at_most_once"))
    fake.add(*range(6))
    go_on = asyncio.Event()
    seen: list[int] = []

    async def handle(message: Message) -> None:
        await go_on.wait()
        seen.append(message.json())

    async with Running(fake, handle, concurrency=2, prefetch=4) as running:
        await running.until(lambda: not fake.open())
        running.stopping.ask()
        go_on.set()
        await running.stop()
    assert sorted(seen) == list(range(6))


async def test_what_waits_for_its_rate_goes_back() -> None:
    fake = FakeSubscription()
    fake.add(*range(4))
    options = {"concurrency": 1, "prefetch": 3, "messages_per_second": 0.001}
    async with Running(fake, lambda message: None, **options) as running:
        await running.until(lambda: fake.said("ack") == [0])
        await running.stop()
    assert sorted(fake.said("release")) == [1, 2, 3]


async def test_keys_that_wait_go_back_too() -> None:
    fake = FakeSubscription()
    fake.add(*range(4), key="k")
    go_on = asyncio.Event()

    async def handle(message: Message) -> None:
        await go_on.wait()

    async with Running(fake, handle, order_by_key=True, concurrency=4) as running:
        await running.until(lambda: len(fake.leased()) == 4)
        running.stopping.ask()
        await running.until(lambda: len(fake.said("release")) == 3)
        go_on.set()
        await running.stop()
    assert fake.said("ack") == [0]


async def test_told_to_stop_before_the_server_answers() -> None:
    fake = FakeSubscription(down=True)
    async with Running(fake, lambda message: None) as running:
        await running.stop()
