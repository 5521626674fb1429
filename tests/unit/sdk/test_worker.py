"""Test the fate of a message by the outcome of its handler."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import msgspec
import pytest
from packetboat.models import Message
from packetboat.worker.context import Context
from packetboat.worker.events import WorkerEvents
from packetboat.worker.outcomes import Reject, Release, RetryLater, Verb

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running, problem


@pytest.fixture
async def fake() -> FakeSubscription:
    return FakeSubscription()


async def test_what_a_handler_returns_from_is_acked(fake: FakeSubscription) -> None:
    fake.add(*range(50))
    seen: list[int] = []

    async def handle(message: Message) -> None:
        seen.append(message.json())

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert sorted(seen) == sorted(fake.said("ack")) == list(range(50))


async def test_plain_functions_run_in_threads_side_by_side(fake: FakeSubscription) -> None:
    fake.add(*range(8))
    together = threading.Barrier(4, timeout=30)

    def handle(message: Message) -> None:
        together.wait()

    async with Running(fake, handle, concurrency=4) as running:
        await running.until_settled()
    assert len(fake.said("ack")) == 8


async def test_a_failure_is_nacked_with_its_text_and_comes_again(fake: FakeSubscription) -> None:
    fake.add("a")

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            raise KeyError("no such order")

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.log[0] == ("nack", [0], "KeyError: 'no such order'")
    assert fake.stored[0].attempt == 2


@pytest.mark.parametrize(
    ("error", "verb", "more"),
    [
        (RetryLater(delay_s=7), "nack", 7),
        (RetryLater("the disk is full"), "nack", "the disk is full"),
        (Reject("no order at all"), "reject", "no order at all"),
        (Release(), "release", None),
        (ValueError("x" * 5000), "nack", "ValueError: " + "x" * 1012),
    ],
    ids=["delay", "reason", "reject", "release", "long"],
)
async def test_exceptions_say_what_to_do(
    fake: FakeSubscription, error: Exception, verb: str, more: Any
) -> None:
    fake.add("a")

    def handle(message: Message) -> None:
        if not fake.log:
            raise error

    async with Running(fake, handle) as running:
        await running.until(lambda: fake.log)
    assert fake.log[0] == (verb, [0], more)


async def test_the_last_attempt_ends_among_the_dead_letters(fake: FakeSubscription) -> None:
    fake.add("poison")

    async def handle(message: Message) -> None:
        raise RuntimeError("again")

    async with Running(fake, handle, max_attempts=3) as running:
        await running.until_settled()
    assert [verb for verb, _, _ in fake.log] == ["nack", "nack", "reject"]
    assert fake.log[-1][2] == "RuntimeError: again"


async def test_what_kills_its_workers_is_not_handled_for_ever(fake: FakeSubscription) -> None:
    fake.add("deadly")
    fake.stored[0].attempt = 3
    calls: list[Message] = []
    async with Running(fake, calls.append, max_attempts=3) as running:
        await running.until_settled()
    assert not calls
    assert fake.log[0][0] == "reject"
    assert "attempt 4 of at most 3" in fake.log[0][2]


async def test_without_dead_letters_a_rejection_is_a_failure(fake: FakeSubscription) -> None:
    fake.dead_letter_topic = False
    fake.add("a")

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            raise Reject("no good")

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.log[0] == ("nack", [0], "no good")


class Order(msgspec.Struct):
    number: int


async def test_bodies_are_decoded_and_what_is_none_is_rejected(fake: FakeSubscription) -> None:
    fake.add({"number": 7}, {"number": "seven"}, "seven")
    orders: list[Order] = []

    async def handle(order: Order, context: Context) -> None:
        assert context.body is order
        orders.append(order)

    async with Running(fake, handle, body=Order) as running:
        await running.until_settled()
    assert orders == [Order(7)]
    assert sorted(fake.said("reject")) == [1, 2]
    assert "`int`" in next(more for verb, _, more in fake.log if verb == "reject")


async def test_batches_are_given_together_and_judged_one_by_one(fake: FakeSubscription) -> None:
    fake.add(*range(10))
    sizes: list[int] = []

    async def handle(batch: list[Message], contexts: list[Context]) -> list[Any]:
        sizes.append(len(batch))
        assert [context.message for context in contexts] == batch
        return [Reject("odd") if message.json() % 2 else None for message in batch]

    async with Running(fake, handle, batch_size=5, concurrency=1, prefetch=5) as running:
        await running.until_settled()
    assert sizes == [5, 5]
    assert sorted(fake.said("ack")) == [0, 2, 4, 6, 8]
    assert sorted(fake.said("reject")) == [1, 3, 5, 7, 9]


async def test_a_batch_waits_for_more_and_then_goes_as_it_is(fake: FakeSubscription) -> None:
    fake.add("a")
    sizes: list[int] = []

    def handle(batch: list[Message]) -> None:
        sizes.append(len(batch))

    options = {"batch_size": 3, "batch_wait_s": 0.2, "concurrency": 1}
    async with Running(fake, handle, **options) as running:
        await running.until(lambda: fake.leased())
        fake.add("b")
        await running.until_settled()
    assert sizes in ([2], [1, 1])


async def test_a_batch_handler_that_tells_of_too_few_has_failed(fake: FakeSubscription) -> None:
    fake.add(1, 2)

    async def handle(batch: list[Message]) -> list[Any] | None:
        return [None] if batch[0].attempt == 1 else None

    options = {"batch_size": 2, "concurrency": 1}
    async with Running(fake, handle, **options) as running:
        await running.until_settled()
    assert fake.said("nack") == [0, 1]


async def test_a_handler_that_takes_too_long_has_failed(fake: FakeSubscription) -> None:
    fake.add("slow")

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            await asyncio.sleep(3600)

    async with Running(fake, handle, handler_timeout_s=0.05) as running:
        await running.until_settled()
    assert fake.log[0][0] == "nack"
    assert "no end after 0.05 s" in fake.log[0][2]


async def test_a_thread_that_takes_too_long_keeps_its_place(fake: FakeSubscription) -> None:
    fake.add("slow", "next")
    go_on = threading.Event()
    began: list[int] = []

    def handle(message: Message) -> None:
        began.append(message.json() == "slow")
        if message.json() == "slow" and message.attempt == 1:
            go_on.wait(30)

    async with Running(fake, handle, concurrency=1, handler_timeout_s=0.05) as running:
        await running.until(lambda: fake.said("nack"))
        await asyncio.sleep(0.2)  # Nothing is begun that could only wait until its time is over.
        assert (began, fake.said("nack")) == ([True], [0])
        go_on.set()
        await running.until_settled()


async def test_a_handler_that_cancels_itself_has_failed(fake: FakeSubscription) -> None:
    fake.add("a")

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            raise asyncio.CancelledError

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.said("nack") == [0]


async def test_a_handler_that_exits_ends_nothing_but_itself(fake: FakeSubscription) -> None:
    fake.add("a")

    def handle(message: Message) -> None:
        if message.attempt == 1:
            raise SystemExit(1)

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.said("nack") == [0]


async def test_messages_of_a_key_go_one_at_a_time_in_order(fake: FakeSubscription) -> None:
    for number in range(60):
        fake.add(number, key=f"k{number % 3}")
    at_work: Counter[str | None] = Counter()
    order: list[int] = []

    async def handle(message: Message) -> None:
        at_work[message.key] += 1
        assert at_work[message.key] == 1
        await asyncio.sleep(0)
        order.append(message.json())
        at_work[message.key] -= 1

    async with Running(fake, handle, order_by_key=True, concurrency=6, prefetch=20) as running:
        await running.until_settled()
    for key in range(3):
        assert [n for n in order if n % 3 == key] == list(range(key, 60, 3))


async def test_without_that_a_key_has_many_at_once(fake: FakeSubscription) -> None:
    fake.add(*range(6), key="k")
    together = threading.Barrier(3, timeout=30)

    async with Running(fake, lambda message: together.wait() and None, concurrency=3) as running:
        await running.until_settled()


async def test_no_more_is_leased_than_handlers_and_prefetch(fake: FakeSubscription) -> None:
    fake.add(*range(200))

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.001)

    async with Running(fake, handle, concurrency=4, prefetch=3) as running:
        await running.until_settled()
    assert fake.most_leased == 7


async def test_prefetch_follows_how_long_handlers_take() -> None:
    most = {}
    for seconds in (0.0, 0.02):
        fake = FakeSubscription()
        fake.add(*range(400 if not seconds else 40))

        async def handle(message: Message, seconds: float = seconds) -> None:
            await asyncio.sleep(seconds)

        async with Running(fake, handle, concurrency=2) as running:
            await running.until_settled()
        most[seconds] = fake.most_leased
    assert most[0.0] > 50
    assert most[0.02] <= 2 + 11


async def test_bytes_that_are_leased_are_bounded_too(fake: FakeSubscription) -> None:
    fake.add(*["x" * 1000] * 30)

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)

    async with Running(fake, handle, concurrency=4, prefetch=4, max_bytes=2500) as running:
        await running.until_settled()
    assert fake.most_leased == 3


async def test_a_rate_holds_handlers_back(fake: FakeSubscription) -> None:
    fake.add(*range(30))
    began = asyncio.get_running_loop().time()
    async with Running(fake, lambda message: None, messages_per_second=20) as running:
        await running.until_settled()
    assert asyncio.get_running_loop().time() - began >= 0.45  # 20 at once, then 20 a second.


async def test_what_is_at_most_once_is_neither_acked_nor_extended() -> None:
    fake = FakeSubscription(Lease("at_most_once", 0.1))
    fake.add(*range(5))
    seen: list[int] = []

    async def handle(message: Message, context: Context) -> None:
        await asyncio.sleep(0.3)
        assert not context.lease_lost
        seen.append(message.json())
        raise RuntimeError("lost")

    async with Running(fake, handle) as running:
        await running.until(lambda: len(seen) == 5)
    assert fake.log == []


async def test_middleware_goes_around_the_handler(fake: FakeSubscription) -> None:
    fake.add("a")
    said: list[str] = []

    async def outer(context: Context, call_next: Any) -> Any:
        said.append(f"outer {context.attempt}")
        try:
            return await call_next()
        finally:
            said.append("outer ends")

    def inner(context: Context, call_next: Any) -> Any:
        said.append(threading.current_thread().name.rpartition("-")[0])
        return call_next()

    def handle(message: Message) -> None:
        said.append("handler")

    async with Running(fake, handle, middleware=[outer, inner]) as running:
        await running.until_settled()
    assert said[0] == "outer 1"
    assert said[1].startswith("packetboat-worker-")
    assert said[2:] == ["handler", "outer ends"]


async def test_plain_middleware_does_not_fit_an_async_handler(fake: FakeSubscription) -> None:
    async def handle(message: Message) -> None: ...

    with pytest.raises(TypeError, match="async middleware"):
        Running(fake, handle, middleware=[lambda context, call_next: call_next()])


class Told(WorkerEvents):
    def __init__(self) -> None:
        self.said: Counter[str] = Counter()

    def received(self, subscription: str, messages: int) -> None:
        self.said["received"] += messages

    def started(self, context: Context) -> None:
        self.said["started"] += 1

    def handled(self, context: Context, verb: Verb, seconds: float) -> None:
        self.said[f"handled {verb.value}"] += 1

    def settled(self, subscription: str, verb: Verb, messages: int) -> None:
        self.said[f"settled {verb.value}"] += messages


async def test_events_tell_of_all_of_it(fake: FakeSubscription) -> None:
    fake.add(*range(10))
    events = Told()

    async def handle(message: Message) -> None:
        if message.json() == 3 and message.attempt == 1:
            raise RuntimeError("once")

    async with Running(fake, handle, events=events) as running:
        await running.until_settled()
    assert events.said == {
        "received": 11,
        "started": 11,
        "handled ack": 10,
        "handled nack": 1,
        "settled ack": 10,
        "settled nack": 1,
    }


@pytest.mark.parametrize("slug", ["subscription-not-found", "forbidden"])
async def test_what_will_not_pass_ends_the_worker(fake: FakeSubscription, slug: str) -> None:
    error = problem(404 if "found" in slug else 403, slug)
    fake.refuse["pull"] = error
    running = Running(fake, lambda message: None)
    async with running:
        with pytest.raises(type(error), match=slug):
            await running.task


async def test_it_can_wait_for_a_subscription(fake: FakeSubscription) -> None:
    fake.refuse["describe"] = problem(404, "subscription-not-found")
    async with Running(fake, lambda message: None, wait_if_refused=True) as running:
        fake.add("a")
        await asyncio.sleep(0)
        fake.refuse.clear()
        await running.until_settled()
