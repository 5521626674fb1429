"""Clients that send again whatever is not certain, while the store fails and the topic moves and
grows: each message is stored once, in the order of its key, and all its answers are the same."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from edge.problem import Problem
from metadata.types import Topic
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.idempotency import Producer
from publish_forwarder.outcomes import StoredRange
from store_nodes.errors import NotLeader, OutcomeUnknown, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeQueue,
    FakeStore,
    running,
    topic,
)
from tests.unit.publish_forwarder.test_moves import grown, moved, seal

CLIENTS = 8
EACH = 15


class WildQueue(FakeQueue):
    """Answers later, refuses, and loses answers of what it took or did not take."""

    dice = random.Random(0)

    def answer(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self.dice.random() * 0.003, self._decide, self.dice.random())

    def _decide(self, roll: float) -> None:
        sent = self.sent.pop(0)
        if roll < 0.1:
            sent.future.set_exception(self.dice.choice((NotLeader(1), Unavailable("no leader"))))
            return
        result = self.apply(sent) if roll < 0.85 or roll > 0.92 else OutcomeUnknown("lost")
        if 0.78 < roll < 0.85:
            result = OutcomeUnknown("the answer is lost")
        if isinstance(result, Exception):
            sent.future.set_exception(result)
        else:
            sent.future.set_result(result)


class WildStore(FakeStore):
    def appender(self, group: int, queue: QueueId) -> FakeQueue:
        if queue not in self.queues:
            remembered = self.remembered.setdefault(group, {})
            self.queues[queue] = WildQueue(group, queue, remembered)
        return self.queues[queue]


async def until_certain(
    forwarder: PublishForwarder, dice: random.Random, messages: list[Message], producer: Producer
) -> list[list[StoredRange]]:
    """The answers to each time it was stored, or known to be."""
    answers: list[list[StoredRange]] = []
    while not answers or dice.random() < 0.3:
        try:
            results = await forwarder.publish_batch(
                TENANT,
                "orders",
                [replace_ids(message) for message in messages],
                producer=producer if messages[0].idempotency_key is None else None,
            )
        except Problem:
            continue
        placed = [result for result in results if isinstance(result, StoredRange)]
        problems = {result.slug for result in results if isinstance(result, Problem)}
        assert problems <= {
            *("outcome-unknown", "partition-unavailable", "topic-changed"),
            *("preceding-item-failed",),
        }
        if len(placed) == len(messages):
            answers.append(placed)
    return answers


def replace_ids(message: Message) -> Message:
    """A client encodes its request anew each time."""
    return Message(message.data, key=message.key, idempotency_key=message.idempotency_key)


@pytest.mark.parametrize("seed", range(6))
async def test_each_message_is_stored_once_whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    WildQueue.dice = random.Random(seed + 1000)
    store, now = WildStore(), topic(partitions=2)
    catalog = FakeCatalog(now)
    catalog.behind[TENANT, "orders"] = now
    answers: dict[bytes, set[tuple[int, int, int]]] = {}

    async def client(forwarder: PublishForwarder, name: int) -> None:
        for number in range(EACH):
            keyed = dice.random() < 0.5
            messages = [
                Message(
                    f"{name}:{number * 4 + part}".encode(),
                    key=f"k{name}" if dice.random() < 0.6 else None,
                    idempotency_key=f"{name}-{number}-{part}" if keyed else None,
                )
                for part in range(dice.randint(1, 4))
            ]
            producer = Producer(bytes([name]) * 16, number)
            for placed in await until_certain(forwarder, dice, messages, producer):
                for message, one in zip(messages, placed, strict=True):
                    place = (one.partition, one.base_offset, one.log_time_us)
                    answers.setdefault(message.data, set()).add(place)

    async def change(before: Topic, after: Topic) -> None:
        await asyncio.sleep(0.05 * dice.random())
        seal(store, before, after)
        await asyncio.sleep(0.02 * dice.random())
        if dice.random() < 0.5:
            catalog.cached[TENANT, "orders"] = after
        catalog.behind[TENANT, "orders"] = after

    async with running(store, catalog, timeout_s=1.0) as one, running(store, catalog) as two:
        clients = [
            asyncio.create_task(client((one, two)[name % 2], name)) for name in range(CLIENTS)
        ]
        second = moved(now, dice.randrange(2), 5)
        await change(now, second)
        third = _renumbered(grown(second, 5), second)
        await change(second, third)
        await asyncio.gather(*clients)
        for forwarder in (one, two):
            assert forwarder.budget.held_bytes == 0
            assert forwarder._acceptor._in_flight == {}
        assert one.metrics.duplicates + two.metrics.duplicates > 20
        assert one.metrics.unknown + two.metrics.unknown > 20
    stored = store.stored()
    assert len(stored) == len(set(stored)), "a message is stored twice"
    assert set(stored) == set(answers)
    assert all(len(places) == 1 for places in answers.values()), "two answers differ"
    _check_order(store, now, second, third)


def _renumbered(after: Topic, before: Topic) -> Topic:
    generations = {p.number: p.generation + 1 for p in before.partitions}
    partitions = tuple(
        replace(p, generation=generations.get(p.number, 0)) for p in after.partitions
    )
    return replace(after, partitions=partitions)


def _check_order(store: FakeStore, *topics: Topic) -> None:
    """A key's messages: those of older queues first."""
    age: dict[QueueId, int] = {}
    for at, each in enumerate(topics):
        for p in each.partitions:
            age.setdefault(QueueId(each.uid, p.number, p.lane, p.generation), at)
    numbers: dict[str, list[int]] = {}
    for queue in sorted(store.queues, key=lambda queue: age[queue]):
        for message in store.queues[queue].log:
            if message.key is not None:
                numbers.setdefault(message.key, []).append(int(message.data.split(b":")[1]))
    for key, found in numbers.items():
        assert found == sorted(found), key
