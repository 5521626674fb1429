"""Stream tasks: what handlers emit is published with their acks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from packetboat.models import Message
from packetboat.tasks.stream import Emit, stream_task

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running, problem


def one(message: Message) -> Emit:
    return Emit("next", 1)


def many(message: Message) -> list[Emit]:
    return [Emit("next", 1), Emit("other", 2)]


def generator(message: Message) -> Iterator[Emit]:
    yield Emit("next", 1)
    yield Emit("other", 2)


async def coroutine(message: Message) -> Emit:
    return Emit("next", 1)


async def async_generator(message: Message) -> AsyncIterator[Emit]:
    yield Emit("next", 1)
    yield Emit("other", 2)


@pytest.mark.parametrize("handler", [one, many, generator, coroutine, async_generator])
async def test_what_is_returned_or_yielded_is_published(handler: Callable[..., Any]) -> None:
    fake = FakeSubscription()
    fake.add("a")
    async with Running(fake, handler) as running:
        await running.until_settled()
    expected = [1] if handler in (one, coroutine) else [1, 2]
    assert [each.data for each in fake.outputs] == expected


async def test_bare_values_go_where_the_task_says_under_the_key_of_the_message() -> None:
    fake = FakeSubscription()
    fake.add({"n": 7}, key="k")

    @stream_task(to="doubled")
    async def double(message: Message) -> AsyncIterator[Any]:
        yield {"n": message.json()["n"] * 2}
        yield Emit("audit", "seen")

    async with Running(fake, double) as running:
        await running.until_settled()
    assert fake.outputs == [Emit("doubled", {"n": 14}, "k"), Emit("audit", "seen")]


async def test_a_task_that_emits_nothing_acks() -> None:
    fake = FakeSubscription()
    fake.add("a")

    @stream_task
    def nothing(message: Message) -> None: ...

    async with Running(fake, nothing) as running:
        await running.until_settled()
    assert (fake.said("ack"), fake.outputs) == ([0], [])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("bare", "emits Emit(topic, data), not str"),
        ([Emit("next", 1)] * 101, "101 outputs: an ack publishes 100 at most"),
        ([Emit("next", b"x" * 6_000_000)] * 2, "12000000 bytes of output"),
    ],
    ids=["bare", "many", "large"],
)
async def test_what_an_ack_cannot_publish_is_a_failure(given: Any, text: str) -> None:
    fake = FakeSubscription()
    fake.add("a")

    @stream_task
    def task(message: Message) -> Any:
        return given if message.attempt == 1 else None

    async with Running(fake, task) as running:
        await running.until_settled()
    assert fake.log[0][0] == "nack"
    assert text in fake.log[0][2]


async def test_outputs_that_the_server_refuses_are_a_failure() -> None:
    fake = FakeSubscription()
    fake.add("a")
    fake.refuse["ack"] = problem(404, "topic-not-found")

    async def handle(message: Message) -> Emit:
        if message.attempt == 2:
            fake.refuse.clear()
        return Emit("missing", 1)

    async with Running(fake, handle) as running:
        await running.until_settled()
    assert fake.log[0][0] == "nack"
    assert "topic-not-found" in fake.log[0][2]


async def test_at_most_once_has_no_acks_to_publish_with() -> None:
    fake = FakeSubscription(Lease("at_most_once"))
    running = Running(fake, stream_task(lambda message: None))
    async with running:
        with pytest.raises(ValueError, match="no acks that publish"):
            await running.task


async def test_a_stream_task_takes_one_message_at_a_time() -> None:
    with pytest.raises(ValueError, match="one message at a time"):
        Running(FakeSubscription(), stream_task(lambda batch: None), batch_size=2)
