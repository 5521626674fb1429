"""Each kind of hold that a deletion would lose is counted, and named in the refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import pytest

from edge.problem import Problem
from gateway.topics.holds import MAX_COUNTED, Holds, held, hold
from metadata.topics.holds import Held, Pin
from metadata.types import CursorKey, CursorState, Epoch, SealedPartition, Subscription, Topic
from store_nodes.client import StagedPage
from store_nodes.errors import QueueNotFound, StoreError, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.wire import StagedInfo
from tests.unit.publish_forwarder.publish_support import TENANT, topic

TOPIC = topic(partitions=2, priorities=1)
READER = b"r" * 16


class Ends(NamedTuple):
    end: int


class Named(NamedTuple):
    """All that is asked of a subscription."""

    tenant_id: bytes
    uid: bytes
    name: str


class World:
    """Queues that end at 100, and whatever is put into it."""

    def __init__(self) -> None:
        self.staged_of: dict[tuple[int, int], list[int | None]] = {}
        """Due times by partition and generation."""
        self.read_to = 100
        self.held = Held((), {})
        self.letters = 0
        self.failure: StoreError | None = None

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5) -> Ends:
        if self.failure is not None:
            raise self.failure
        return Ends(100)

    async def staged(
        self, group: int, queue: QueueId, after: int = -1, limit: int = 1000
    ) -> StagedPage:
        if queue.generation and (queue.partition, queue.generation) not in self.staged_of:
            raise QueueNotFound(str(queue))
        due = self.staged_of.get((queue.partition, queue.generation), [])
        rows = [StagedInfo(n, at, 0) for n, at in enumerate(due) if n > after]
        return StagedPage(tuple(rows[:limit]), 0, False)

    async def of_subscription(self, tenant_id: bytes, uid: bytes) -> tuple[CursorState, ...]:
        key = CursorKey(tenant_id, uid, 0, 0)
        return (CursorState(key, TOPIC.uid, Epoch(0, 1), 0, 0, self.read_to, self.read_to),)

    async def open_count(self, tenant_id: bytes, uid: bytes) -> int:
        return self.letters

    def holds(self) -> Holds:
        world = self

        class Subscriptions:
            async def of_topic(self, tenant_id: bytes, uid: bytes) -> tuple[Subscription, ...]:
                return (reader(),)

        class Cursors:
            of_subscription = world.of_subscription

            async def of_topic(self, tenant_id: bytes, uid: bytes) -> tuple[CursorState, ...]:
                return await world.of_subscription(tenant_id, READER)

        class Rows:
            async def of_topic(self, tenant_id: bytes, uid: bytes) -> Held:
                return world.held

        return Holds(self, Cursors(), Subscriptions(), Rows(), self)


def reader() -> Subscription:
    return cast(Subscription, Named(TENANT, READER, "billing"))


async def test_nothing_holds_what_is_done() -> None:
    world = World()
    # An export that has taken all, and what an ack that publishes has staged.
    world.held = Held((Pin("export", "lake", 0, 0, 100),), {})
    world.staged_of = {(0, 0): [None]}
    assert await world.holds().of_topic(TOPIC) == []
    assert await world.holds().of_subscription(reader(), TOPIC) == []


async def test_all_that_a_topic_holds_is_counted() -> None:
    world = World()
    world.read_to = 93
    world.staged_of = {(0, 0): [5, None, 7], (1, 0): [9]}
    pins = (
        Pin("export", "lake", 0, 0, 90),
        Pin("export", "lake", 1, 0, 98),
        Pin("snapshot", "before", 0, 0, 100),
        Pin("snapshot", "of a lane that is gone", 7, 0, 0),
    )
    world.held = Held(pins, {"others": 4})
    assert await world.holds().of_topic(TOPIC) == [
        hold("undelivered", "billing", 7),
        hold("delayed", None, 3),
        hold("export", "lake", 12),
        hold("snapshot", "before", 0),
        hold("dead_letters", "others", 4),
    ]


async def test_a_subscription_holds_what_it_would_still_get_and_its_dead_letters() -> None:
    world = World()
    world.staged_of, world.letters = {(0, 0): [5]}, 2
    assert await world.holds().of_subscription(reader(), TOPIC) == [
        hold("delayed", None, 1),
        hold("dead_letters", "billing", 2),
    ]


def sealed(generation: int) -> Topic:
    before = SealedPartition(0, 0, 0, generation, 0, 10, 0, 2)
    return replace(TOPIC, sealed=(before,))


async def test_delayed_messages_of_sealed_generations_count() -> None:
    world = World()
    world.staged_of = {(0, 3): [1] * 2500}
    assert await world.holds().of_topic(sealed(3)) == [hold("delayed", None, 2500)]
    assert await world.holds().of_topic(sealed(4)) == [], "its queue is removed"
    world.staged_of = {(0, 0): [1] * (MAX_COUNTED + 5000)}
    assert await world.holds().of_topic(TOPIC) == [hold("delayed", None, MAX_COUNTED)]


async def test_what_cannot_be_counted_is_not_taken_for_nothing() -> None:
    world = World()
    world.failure = Unavailable("no leader")
    with pytest.raises(Problem) as refused:
        await world.holds().of_topic(TOPIC)
    assert (refused.value.status, refused.value.slug) == (503, "store-unavailable")
    world.failure = QueueNotFound("it is being deleted")
    assert await world.holds().of_topic(TOPIC) == []


ADVICE: Mapping[str, str] = {
    "undelivered": "Have the subscriptions ack",
    "delayed": "Cancel the delayed messages",
    "export": "Run the exports",
    "snapshot": "Delete the snapshots",
    "dead_letters": "Redrive or discard",
}


def test_the_refusal_names_each_hold_with_its_count_and_what_to_do() -> None:
    holds = [hold(kind, None if kind == "delayed" else f"a-{kind}", 2) for kind in ADVICE]
    problem = held("topic", "orders", holds)
    assert (problem.status, problem.slug) == (409, "backlog-not-empty")
    assert "loses messages that are not acked: 'a-undelivered' (2); delayed messages: 2; " in (
        problem.detail
    )
    assert "open dead letters: 'a-dead_letters' (2). To keep that, have " in problem.detail
    assert ("a-undelivered", "2 messages") in problem.errors
    assert ("delayed", "2 messages, delayed") in problem.errors
    told = problem.extra["holds"]
    assert isinstance(told, list)
    for each in told:
        assert each.messages == 2
        assert each.advice.startswith(ADVICE[each.kind])


def test_the_largest_are_named() -> None:
    holds = [hold("undelivered", f"s{n}", n + 1) for n in range(30)]
    problem = held("topic", "orders", holds)
    assert problem.errors[0] == ("s29", "30 messages")
    assert len(problem.errors) == 20
    assert "and of 10 more" in problem.detail
