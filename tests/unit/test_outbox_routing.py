"""Test the queues by which a message of the platform is sent."""

from __future__ import annotations

from datetime import UTC, datetime

from appending.writer import Target, successor_of
from edge.partition import partition_of
from metadata.types import Partition, Retention, SealedPartition, Topic, TopicState
from outbox.item import Item
from outbox.routing import route_of, way_of
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message

NOW_US = 1_000_000_000_000
WINDOW_S = 600
UID = b"t" * 16


def topic(partitions: list[Partition], sealed: list[SealedPartition], priorities: int = 1) -> Topic:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Topic(
        bytes(16),
        UID,
        "orders",
        TopicState.ACTIVE,
        tuple(partitions),
        Retention(),
        600,
        {},
        1,
        now,
        now,
        sealed=tuple(sealed),
        priorities=priorities,
    )


def sealed(number: int, group: int, of: int, age_s: float = 1, lane: int = 0) -> SealedPartition:
    return SealedPartition(number, group, lane, 0, 0, 5, NOW_US - int(age_s * 1e6), of)


def way(of: Topic, item: Item) -> tuple[Target, ...]:
    return way_of(of, item, NOW_US, WINDOW_S)


def test_a_key_goes_where_publishing_sends_it_and_a_priority_to_its_lane() -> None:
    partitions = [Partition(n, n, lane) for n in range(3) for lane in range(2)]
    item = Item(Message(b"", key="k", priority=7), b"name")
    number = partition_of("k", 3)
    assert way(topic(partitions, [], 2), item) == (Target(number, QueueId(UID, number, 1)),)


def test_without_a_key_the_name_decides() -> None:
    of = topic([Partition(n, n) for n in range(4)], [])
    first = [way(of, Item(Message(b""), b"%d" % n)) for n in range(100)]
    assert first == [way(of, Item(Message(b"x"), b"%d" % n)) for n in range(100)]
    assert len(set(first)) == 4


def test_other_groups_that_may_know_the_name_are_asked_first() -> None:
    moved = topic([Partition(0, 2, generation=1)], [sealed(0, 1, 1)])
    item = Item(Message(b"", key="k"), b"name")
    here = Target(2, QueueId(UID, 0, 0, 1))
    assert way(moved, item) == (Target(1, QueueId(UID, 0)), here)
    # Not where the group is the same, nor what is too old to be remembered.
    assert way(topic([Partition(0, 2, generation=1)], [sealed(0, 2, 1)]), item) == (here,)
    assert way(topic([Partition(0, 2, generation=1)], [sealed(0, 1, 1, 751)]), item) == (here,)
    assert way(topic([Partition(0, 2, generation=1)], [sealed(0, 1, 1, 749)]), item)[1:] == (here,)


def test_after_a_growth_the_partition_that_had_the_key_is_asked() -> None:
    item = Item(Message(b"", key="k"), b"name")
    old, new = partition_of("k", 2), partition_of("k", 6)
    grown = topic(
        [Partition(n, 9, generation=int(n < 2)) for n in range(6)],
        [sealed(0, 0, 2), sealed(1, 1, 2)],
    )
    generation = int(new < 2)
    assert way(grown, item) == (
        Target(old, QueueId(UID, old)),
        Target(9, QueueId(UID, new, 0, generation)),
    )


def test_a_sealed_queue_names_where_the_message_goes_on() -> None:
    item = Item(Message(b"", key="k"), b"name")
    old, new = partition_of("k", 2), partition_of("k", 6)
    successors = [(n, QueueId(UID, n, 0, 1).pack()) for n in range(old, 6, 2)]
    assert successor_of(route_of(item), QueueId(UID, old), successors).queue.partition == new
    only = [(3, QueueId(UID, 0, 0, 1).pack())]
    assert successor_of(route_of(item), QueueId(UID, 0), only) == Target(3, QueueId(UID, 0, 0, 1))
