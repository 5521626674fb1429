"""A store that fails in every way it may, and what must hold whatever happens."""

from __future__ import annotations

import asyncio
import random

import pytest

from edge.problem import Problem
from publish_forwarder.outcomes import Outcome, StoredRange
from store_nodes.client.appender import Receipt
from store_nodes.errors import DiskFull, NotLeader, OutcomeUnknown, Overloaded, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import TENANT, FakeCatalog, running, topic


class WildQueue:
    """Applies or refuses appends at random; an unknown one may be applied."""

    def __init__(self, dice: random.Random, full: set[int], group: int) -> None:
        self.dice = dice
        self.full = full
        self.group = group
        self.log: list[bytes] = []

    def append(
        self,
        batch: bytes,
        count: int,
        extras: None,
        *,
        durability: Durability,
        timeout_s: float,
        **ids: object,
    ) -> asyncio.Future[Receipt]:
        loop = asyncio.get_running_loop()
        roll = self.dice.random()
        if roll < 0.05:
            raise Overloaded("busy")
        future: asyncio.Future[Receipt] = loop.create_future()
        loop.call_later(self.dice.random() * 0.004, self._decide, future, batch, roll)
        return future

    def _decide(self, future: asyncio.Future[Receipt], batch: bytes, roll: float) -> None:
        messages = [message.data for message in decode(batch)]
        if roll < 0.2:
            future.set_exception(self.dice.choice((NotLeader(1), Unavailable("no leader"))))
        elif roll < 0.25:
            future.set_exception(DiskFull("full"))
        elif roll < 0.4:
            if self.dice.random() < 0.5:
                self.log += messages
            future.set_exception(OutcomeUnknown("silence"))
        else:
            base_offset = len(self.log)
            self.log += messages
            future.set_result(Receipt(base_offset, 1_000_000 + base_offset, False))


class WildStore:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.queues: dict[tuple[int, int], WildQueue] = {}
        """Queues by partition and lane."""

    def has_leader(self, group: int) -> bool:
        return self.dice.random() < 0.8

    def appender(self, group: int, queue: QueueId) -> WildQueue:
        made = self.queues[queue.partition, queue.lane] = WildQueue(self.dice, set(), group)
        return made


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("priorities", [1, 3])
async def test_order_and_truth_hold_whatever_the_store_does(seed: int, priorities: int) -> None:
    dice = random.Random(seed)
    store = WildStore(dice)
    answers: dict[bytes, asyncio.Future[Outcome]] = {}
    async with running(
        store,  # type: ignore[arg-type]
        FakeCatalog(topic(partitions=3, priorities=priorities)),
        stall_s=0.002,
        max_append_bytes=2000,
    ) as forwarder:
        share = forwarder.budget.share(TENANT)
        for number in range(600):
            routes = await forwarder.routes_of(TENANT, "orders")
            key = f"k{number % 7}" if number % 3 else None
            data = f"{key}:{number}".encode()
            message = Message(data, key=key, priority=dice.randrange(10))
            request = forwarder.publish_nowait(routes, share, message, Durability.QUORUM)
            assert request.future is not None
            answers[data] = request.future
            if dice.random() < 0.2:
                await asyncio.sleep(dice.random() * 0.002)
        await asyncio.gather(*answers.values())
        assert (forwarder.budget.held_messages, forwarder.budget.held_bytes) == (0, 0)

    stored = [data for queue in store.queues.values() for data in queue.log]
    assert len(stored) == len(set(stored)), "a message is stored twice"
    for data, future in answers.items():
        outcome = future.result()
        if isinstance(outcome, StoredRange):
            queue = store.queues[outcome.partition, outcome.receipts.lane]
            assert queue.log[outcome.base_offset] == data
        elif isinstance(outcome, Problem) and outcome.slug != "outcome-unknown":
            assert data not in stored, "answered not done, and stored"
    for queue in store.queues.values():
        for key in {data.split(b":")[0] for data in queue.log} - {b"None"}:
            numbers = [int(d.split(b":")[1]) for d in queue.log if d.startswith(key + b":")]
            assert numbers == sorted(numbers), f"key {key!r} out of order"
