"""Delayed messages of a queue that was sealed: copied to its successor, once, under their id."""

from __future__ import annotations

from typing import Any

import pytest

from edge import message_id
from edge.partition import partition_of
from metadata.delivery.due import Progress, QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.errors import MetadataUnavailable
from scheduler.forwarding import FORWARD_AT_ONCE, Forwarding
from scheduler.pending import StagedQueue
from store_nodes.client import Location
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from tests.unit.scheduler.scheduler_support import FakeIndex, FakeStore, until
from tests.unit.scheduler.test_due_loop import leading

TENANT, TOPIC = bytes(15) + b"t", bytes(range(16))
OLD = QueueId(TOPIC, 1)
KEY = QueueKey(TENANT, TOPIC, 1, 0, 0)


def grown(partitions: int) -> list[tuple[int, QueueId]]:
    """Return the queues of a growth, in groups 0 and 1 by turns."""
    return [
        (number % 2, QueueId(TOPIC, number, generation=1 if number < 2 else 0))
        for number in range(partitions)
    ]


def owned(*queues: tuple[int, QueueId]) -> dict[bytes, Any]:
    return {
        queue.pack(): (QueueKey(TENANT, TOPIC, queue.partition, 0, queue.generation), group)
        for group, queue in ((0, OLD), *queues)
    }


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    store.create(0, OLD)
    return store


def messages_of(store: FakeStore, queue: QueueId) -> list[Message]:
    return [m for each in store.batches.get(queue.pack(), []) for m in decode(each.batch)]


def name(number: int) -> str:
    return str(message_id.staged(TOPIC, 1, 0, number))


async def test_a_moved_queue_hands_its_messages_on_when_they_are_due(store: FakeStore) -> None:
    new, index = (1, OLD._replace(generation=1)), FakeIndex()
    store.stage(0, OLD, 0.1, 30, messages=[Message(b"soon", deliver_at_us=7), Message(b"late")])
    store.create(*new, store.seal(0, OLD, new))
    async with leading(store, index, owned(new)) as loop:
        await until(lambda: store.where(0, OLD, 0)[0] == "discarded")
        assert store.where(0, OLD, 1) == ("staged", None)
        await until(lambda: loop.window.held == 1)
    (message,) = messages_of(store, new[1])
    assert (message.data, message.deliver_at_us) == (b"soon", 7)
    assert message.origin == {"stage_id": name(0)}
    assert index.moved == {(KEY, 0): Forwarded(0, 1, 0)}


async def test_a_growth_spreads_them_by_their_keys(store: FakeStore) -> None:
    """If two partitions become four, the sealed partition 1 has the successors 1 and 3."""
    queues, index = grown(4), FakeIndex()
    keys = [f"k{n}" for n in range(60) if partition_of(f"k{n}", 2) == 1]
    batch = [Message(b"x", key=key) for key in keys] + [Message(b"no key")]
    store.stage(0, OLD, *[0.01] * len(batch), messages=batch)
    store.seal(0, OLD, *(each for each in queues if each[1].partition % 2 == 1))
    for group, queue in queues:
        store.create(group, queue)
    async with leading(store, index, owned(*queues)):
        await until(lambda: len(index.moved) == len(batch))
    assert messages_of(store, queues[1][1])[-1].data == b"no key"
    for group, queue in queues:
        found = [message.key for message in messages_of(store, queue) if message.key]
        assert found == [key for key in keys if partition_of(key, 4) == queue.partition]
        assert store.end(group, queue) == len(messages_of(store, queue))


async def test_a_copy_is_made_once_whenever_the_scheduler_dies(store: FakeStore) -> None:
    """The scheduler is killed after the append, and again after the record of it."""
    new, index = (1, OLD._replace(generation=1)), FakeIndex()
    store.stage(0, OLD, *[0.01] * 5)
    store.create(*new, store.seal(0, OLD, new))
    discard = store.discard

    async def fails(*_: Any, **__: Any) -> int:
        raise Unavailable("killed here")

    store.discard = fails  # type: ignore[method-assign]
    index.trouble.extend(MetadataUnavailable("killed here") for _ in range(2))
    for _ in range(3):
        async with leading(store, index, owned(new), write_every_s=60.0):
            await until(lambda: store.end(*new) == 5)
    store.discard = discard  # type: ignore[method-assign]
    async with leading(store, index, owned(new)):
        await until(lambda: all(store.where(0, OLD, n)[0] == "discarded" for n in range(5)))
    assert store.end(*new) == 5
    assert index.moved == {(KEY, n): Forwarded(n, 1, n) for n in range(5)}


async def test_a_successor_that_was_sealed_as_well_leads_on(store: FakeStore) -> None:
    middle, last = (1, OLD._replace(generation=1)), (0, OLD._replace(generation=2))
    index = FakeIndex()
    store.stage(0, OLD, 0.01, 0.01)
    store.create(*middle, store.seal(0, OLD, middle))
    store.create(*last, store.seal(*middle, last))
    async with leading(store, index, owned(middle, last)):
        await until(lambda: len(index.moved) == 2)
    assert store.end(*last) == 2
    assert messages_of(store, last[1])[1].origin == {"stage_id": name(1)}


async def test_a_copy_made_before_the_successor_was_sealed_is_found_there(
    store: FakeStore,
) -> None:
    middle, last = (1, OLD._replace(generation=1)), (0, OLD._replace(generation=2))
    index = FakeIndex()
    store.stage(0, OLD, 0.01)
    store.create(*middle, store.seal(0, OLD, middle))
    index.trouble.extend(MetadataUnavailable("away") for _ in range(100_000))
    term = leading(store, index, owned(middle), write_every_s=60.0)
    index.trouble, kept = type(index.trouble)(), index.trouble
    async with term:
        index.trouble = kept
        await until(lambda: store.end(*middle) == 1)
    index.trouble.clear()
    store.create(*last, store.seal(*middle, last))
    async with leading(store, index, owned(middle, last)):
        await until(lambda: index.moved == {(KEY, 0): Forwarded(0, 1, 0)})
        await until(lambda: store.where(0, OLD, 0)[0] == "discarded")
    assert store.end(*last) == 1  # where the middle one ended: nothing more was appended
    assert messages_of(store, last[1]) == []


async def test_what_was_cancelled_or_released_before_the_seal_is_not_copied(
    store: FakeStore,
) -> None:
    new, index = (1, OLD._replace(generation=1)), FakeIndex()
    store.stage(0, OLD, 0.0, 0.05, 0.05)
    await store.release(0, OLD, [0])
    async with leading(store, index, owned(new)) as loop:
        await until(lambda: loop.window.held == 2)
        store.cancel(0, OLD, 1)
        store.create(*new, store.seal(0, OLD, new))
        await until(lambda: loop.window.held == 0)
    assert store.end(*new) == 2  # the offset of the released one, and the copy
    assert index.moved == {(KEY, 2): Forwarded(2, 1, 1)}


async def test_what_was_released_before_the_seal_is_not_copied_for_a_stale_answer(
    store: FakeStore,
) -> None:
    """A node that does not know yet that it was deposed says that the message is staged."""
    new, index = (1, OLD._replace(generation=1)), FakeIndex()
    store.stage(0, OLD, 0.0, 0.0, messages=[Message(b"released"), Message(b"due")])
    await store.release(0, OLD, [0])
    store.create(*new, store.seal(0, OLD, new))

    async def stale(*_: Any, **__: Any) -> Location:
        return Location("staged", None)

    store.locate = stale  # type: ignore[method-assign]
    forwarding = Forwarding(store, index, timeout_s=1.0)
    queue = StagedQueue(KEY, 0, Progress())
    await forwarding.forward(queue, [0, 1], [(new[0], new[1].pack())])
    assert [message.data for message in messages_of(store, new[1])] == [b"due"]


async def test_many_are_copied_in_order_and_in_few_appends(store: FakeStore) -> None:
    new, index = (1, OLD._replace(generation=1)), FakeIndex()
    count = 3 * FORWARD_AT_ONCE
    batch = [Message(str(n).encode()) for n in range(count)]
    store.stage(0, OLD, *[0.001] * count, messages=batch)
    store.create(*new, store.seal(0, OLD, new))
    async with leading(store, index, owned(new)):
        await until(lambda: len(index.moved) == count)
    assert [int(message.data) for message in messages_of(store, new[1])] == list(range(count))
    assert len(store.batches[new[1].pack()]) <= 5


async def test_of_a_queue_that_is_being_deleted_nothing_is_kept(store: FakeStore) -> None:
    index = FakeIndex()
    store.stage(0, OLD, 0.01)
    store.seal(0, OLD)
    async with leading(store, index, owned()) as loop:
        await until(lambda: store.calls["release"] > 0 and loop.window.held == 0)
    assert index.moved == {}
