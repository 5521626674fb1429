"""Leases: kept while a handler works, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from packetboat.errors import UnknownOutcome
from packetboat.models import Message, Settled
from packetboat.worker.context import Context
from packetboat.worker.events import WorkerEvents
from packetboat.worker.outcomes import Release

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running, problem


class Losses(WorkerEvents):
    def __init__(self) -> None:
        self.lost: list[str] = []

    def lease_lost(self, subscription: str, message_id: str) -> None:
        self.lost.append(message_id)


def leasing(seconds: float, delivery: str = "at_least_once") -> FakeSubscription:
    return FakeSubscription(Lease(delivery, seconds))


async def test_a_lease_goes_on_while_its_handler_does() -> None:
    fake = leasing(1.5)
    fake.add("a")

    async def handle(message: Message) -> None:
        await asyncio.sleep(2.5)

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.stored[0].attempt == 1
    assert len(fake.said("extend")) >= 2


async def test_many_leases_are_extended_by_one_request() -> None:
    fake = leasing(1.5)
    fake.add(*range(20))

    async def handle(message: Message) -> None:
        await asyncio.sleep(1.8)

    async with Running(fake, handle, concurrency=20) as running:
        await running.until_settled()
    extended = [numbers for verb, numbers, _ in fake.log if verb == "extend"]
    assert max(map(len, extended)) == 20
    assert all(stored.attempt == 1 for stored in fake.stored)


async def test_what_waits_for_a_handler_is_extended_too() -> None:
    fake = leasing(1.5)
    fake.add(*range(3))

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.9)

    async with Running(fake, handle, concurrency=1, prefetch=2) as running:
        await running.until_settled()
    assert [stored.attempt for stored in fake.stored] == [1, 1, 1]


async def test_slow_handlers_have_longer_extensions() -> None:
    fake = leasing(1.0)
    fake.add(*range(2))

    async def handle(message: Message) -> None:
        await asyncio.sleep(1.4)

    async with Running(fake, handle, concurrency=1, prefetch=0) as running:
        await running.until_settled()
    lengths = [more for verb, _, more in fake.log if verb == "extend"]
    assert lengths[0] == 1.0
    assert lengths[-1] >= 2.8


async def test_after_max_lease_it_is_given_up() -> None:
    fake = leasing(1.0)
    fake.add("a")
    told = asyncio.Event()

    async def handle(message: Message, context: Context) -> None:
        if context.attempt == 1:
            while not context.lease_lost:
                await asyncio.sleep(0.01)
            told.set()

    async with Running(fake, handle, max_lease_s=1.2) as running:
        await running.until_settled()
    assert told.is_set()
    assert fake.stored[0].attempt == 2


@pytest.mark.parametrize("threads", [False, True], ids=["async", "thread"])
async def test_a_lost_lease_is_told_and_not_acked(threads: bool) -> None:
    fake, events = leasing(0.4), Losses()
    fake.add("a")
    running_s = threading.Event()
    told = threading.Event()

    def handle(message: Message, context: Context) -> None:
        running_s.set()
        while not context.lease_lost:
            threading.Event().wait(0.005)
        told.set()

    async def handle_async(message: Message, context: Context) -> None:
        running_s.set()
        while not context.lease_lost:
            await asyncio.sleep(0.005)
        told.set()

    fake.refuse["pull"] = problem(503, "store-unavailable")
    async with Running(fake, handle if threads else handle_async, events=events) as running:
        fake.refuse.clear()
        await running.until(running_s.is_set)
        fake.refuse["pull"] = problem(503, "store-unavailable")
        fake.end_lease(0)
        await running.until(told.is_set)
    assert events.lost == ["0"]
    assert fake.said("ack") == fake.said("nack") == []


async def test_an_async_handler_can_be_cancelled_with_its_lease() -> None:
    fake = leasing(0.4)
    fake.add("a")
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(message: Message) -> None:
        if message.attempt > 1:
            return
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with Running(fake, handle, cancel_lost=True) as running:
        await running.until(began.is_set)
        fake.refuse["extend"] = problem(503, "store-unavailable")
        await running.until(cancelled.is_set)
        await running.until_settled()
    assert fake.said("nack") == []


async def test_what_is_delivered_again_while_it_is_handled_is_not_handled_twice() -> None:
    """A takeover hands out again what is leased: here the lease goes on with the new ack id."""
    fake = leasing(30.0, "exactly_once")
    fake.add("a")
    began, go_on = asyncio.Event(), asyncio.Event()
    calls = 0

    async def handle(message: Message) -> None:
        nonlocal calls
        calls += 1
        began.set()
        await go_on.wait()

    async with Running(fake, handle) as running:
        await running.until(began.is_set)
        fake.end_lease(0)
        await running.until(lambda: fake.stored[0].attempt == 2)
        go_on.set()
        await running.until_settled()
    assert calls == 1


async def test_an_ack_that_a_new_delivery_overtook_goes_again_with_its_id() -> None:
    fake = leasing(30.0, "exactly_once")
    fake.add("a")
    calls = 0

    async def handle(message: Message) -> None:
        nonlocal calls
        calls += 1
        fake.acks_pass.clear()
        fake.end_lease(0)

    async with Running(fake, handle) as running:
        await running.until(lambda: fake.stored[0].attempt == 2)
        fake.acks_pass.set()
        await running.until_settled()
    assert calls == 1


class SlowAnswers(FakeSubscription):
    """Nacks and releases take effect at once, and are answered when `answer` is set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer = asyncio.Event()

    async def _give_back(
        self, verb: str, ids: Sequence[str], more: Any, *, settle: bool = False
    ) -> Settled:
        settled = await super()._give_back(verb, ids, more, settle=settle)
        await self.answer.wait()
        return settled


@pytest.mark.parametrize(("verb", "error"), [("nack", ValueError()), ("release", Release())])
async def test_a_redelivery_that_overtakes_the_answer_to_its_nack_is_handled(
    verb: str, error: Exception
) -> None:
    fake = SlowAnswers(Lease())
    fake.add("a")
    calls = 0

    async def handle(message: Message) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error

    async with Running(fake, handle) as running:
        await running.until(lambda: fake.said(verb) and fake.stored[0].ack_id)
        await asyncio.sleep(0.1)
        fake.answer.set()
        await asyncio.sleep(0.5)
        assert calls == 2, "its new lease is ours, and nobody handled it"
        await running.until_settled()
    assert fake.said("ack") == [0]


async def test_items_that_the_server_could_not_ack_now_go_again() -> None:
    fake = leasing(30.0)
    fake.busy_acks = 2
    fake.add(1, 2, 3)
    async with Running(fake, lambda message: None) as running:
        await running.until_settled()
    assert [stored.attempt for stored in fake.stored] == [1, 1, 1]


async def test_an_ack_that_another_lease_overtook_is_not_repeated() -> None:
    fake, events = leasing(30.0, "exactly_once"), Losses()
    fake.add("a")

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            fake.refuse["pull"] = problem(503, "store-unavailable")
            fake.stored[0].ack_id = "0/another"

    async with Running(fake, handle, events=events) as running:
        await running.until(lambda: events.lost)
        assert fake.open() == [0]


async def test_done_in_time_is_acked_late() -> None:
    """At least once: what was done counts, though the lease ended while nobody answered."""
    fake, events = leasing(1.0), Losses()
    fake.add("a")

    async def handle(message: Message) -> None:
        fake.refuse["ack"] = fake.refuse["extend"] = UnknownOutcome("cut off")
        fake.refuse["pull"] = problem(503, "store-unavailable")

    async with Running(fake, handle, events=events) as running:
        await running.until(lambda: fake.refuse)
        await running.until(lambda: not fake.leased())
        fake.refuse.clear()
        fake.refuse["pull"] = problem(503, "store-unavailable")
        await running.until_settled()
    assert fake.stored[0].attempt == 1
    assert events.lost == []
