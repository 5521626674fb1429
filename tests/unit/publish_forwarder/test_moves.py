"""A partition is moved, or a topic grows, while messages are published to it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from edge.partition import partition_of
from edge.problem import Problem
from metadata.errors import MetadataUnavailable
from metadata.types import Partition, SealedPartition, Topic
from publish_forwarder.delays import Delay
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.idempotency import Producer
from publish_forwarder.outcomes import Outcome, StoredRange
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeQueue,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)

KEY = "customer-17"
HOME = partition_of(KEY, 4)
UID = topic().uid


def moved(before: Topic, number: int, group: int, *, ago_s: float = 0.0) -> Topic:
    """Return the topic after a partition was moved to another group."""
    old = before.partitions[number]
    partitions = list(before.partitions)
    partitions[number] = Partition(number, group, old.lane, old.generation + 1, 100)
    sealed_time_us = int((time.time() - ago_s) * 1e6)
    sealed = SealedPartition(
        number, old.group, 0, old.generation, 0, 100, sealed_time_us, len(partitions)
    )
    return replace(before, partitions=tuple(partitions), sealed=(*before.sealed, sealed))


def grown(before: Topic, count: int, first_group: int = 10, *, ago_s: float = 0.0) -> Topic:
    """Return the topic after its keys were spread over `count` partitions."""
    sealed_time_us = int((time.time() - ago_s) * 1e6)
    sealed = tuple(
        SealedPartition(
            old.number,
            old.group,
            0,
            old.generation,
            0,
            100,
            sealed_time_us,
            len(before.partitions),
        )
        for old in before.partitions
    )
    partitions = tuple(
        Partition(n, first_group + n, 0, 1 if n < len(sealed) else 0) for n in range(count)
    )
    return replace(before, partitions=partitions, sealed=(*before.sealed, *sealed))


def seal(store: FakeStore, before: Topic, after: Topic) -> None:
    """The queues that `before` has and `after` has not are sealed in the log."""
    groups = {queue_of(p): p.group for p in after.partitions}
    successors = tuple((group, queue.pack()) for queue, group in groups.items())
    for partition in before.partitions:
        queue = queue_of(partition)
        if queue not in groups:
            store.appender(partition.group, queue).successors = successors
    for queue, group in groups.items():
        store.appender(group, queue)


def queue_of(partition: Partition) -> QueueId:
    return QueueId(UID, partition.number, partition.lane, partition.generation)


def open_queue(store: FakeStore, of: Topic, number: int) -> FakeQueue:
    return store.queues[queue_of(of.partitions[number])]


async def publish(
    forwarder: PublishForwarder,
    data: bytes,
    key: str | None = None,
    idempotency_key: str | None = None,
    delay: Delay | None = None,
) -> asyncio.Future[Outcome]:
    routes = await forwarder.routes_of(TENANT, "orders")
    share = forwarder.budget.share(TENANT)
    message = Message(data, key=key, idempotency_key=idempotency_key)
    request = forwarder.publish_nowait(routes, share, message, Durability.QUORUM, delay)
    assert request.future is not None
    return request.future


def tell(catalog: FakeCatalog, now: Topic) -> None:
    """Let every read of the topic return `now`; the cached topic stays as it was."""
    catalog.behind[TENANT, "orders"] = now


@pytest.mark.parametrize("log_first", [True, False])
async def test_a_moved_partition_takes_its_messages_along_in_order(log_first: bool) -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(old)
    store.hold(HOME)
    async with running(store, catalog) as forwarder:
        futures = [await publish(forwarder, b"0", KEY)]
        await run_ready()
        futures += [await publish(forwarder, b"%d" % n, KEY) for n in range(1, 5)]
        seal(store, old, new)
        tell(catalog, new)
        if not log_first:
            catalog.cached[TENANT, "orders"] = new
            futures.append(await publish(forwarder, b"5", KEY))
            await run_ready()
            assert open_queue(store, new, HOME).sent == [], "what came before has not gone yet"
        store.partition(HOME).release()
        for future in futures:
            outcome = await future
            assert isinstance(outcome, StoredRange)
            assert outcome.partition == HOME
        assert [m.data for m in open_queue(store, new, HOME).log] == [
            b"%d" % n for n in range(len(futures))
        ]
        assert store.partition(HOME).log == []
        assert forwarder.budget.held_bytes == 0


async def test_what_the_old_queue_took_before_the_seal_stays_there() -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(old)
    store.hold(HOME)
    async with running(store, catalog) as forwarder:
        first = await publish(forwarder, b"0", KEY)
        await run_ready()
        catalog.cached[TENANT, "orders"] = new
        second = await publish(forwarder, b"1", KEY)
        await run_ready()
        store.partition(HOME).answer()
        for future in (first, second):
            assert isinstance(await future, StoredRange)
        assert [m.data for m in store.partition(HOME).log] == [b"0"]
        assert [m.data for m in open_queue(store, new, HOME).log] == [b"1"]


async def test_unkeyed_messages_of_a_sealed_partition_go_elsewhere_at_once() -> None:
    old = topic()
    store, catalog = FakeStore(), FakeCatalog(old)
    store.hold(0, 1, 2, 3)
    catalog.failure = MetadataUnavailable("down")
    async with running(store, catalog) as forwarder:
        future = await publish(forwarder, b"x")
        await run_ready()
        (at,) = (n for n in range(4) if store.partition(n).sent)
        seal(store, old, moved(old, at, 9))
        for number in range(4):
            store.partition(number).release()
        outcome = await future
        assert isinstance(outcome, StoredRange)
        assert outcome.partition != at


async def test_messages_wait_until_the_successor_is_known_and_no_longer_than_their_time() -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(old)
    seal(store, old, new)
    tell(catalog, old)
    async with running(store, catalog, timeout_s=0.3) as forwarder:
        late = await publish(forwarder, b"late", KEY)
        outcome = await late
        assert isinstance(outcome, Problem)
        assert outcome.slug == "partition-unavailable"
        catalog.failure = MetadataUnavailable("down")
        future = await publish(forwarder, b"x", KEY)
        await asyncio.sleep(0.05)
        assert not future.done()
        catalog.failure = None
        tell(catalog, new)
        assert isinstance(await future, StoredRange)
        assert store.stored() == [b"x"]


async def test_a_topic_deleted_while_its_messages_wait_says_so() -> None:
    old = topic()
    store, catalog = FakeStore(), FakeCatalog(old)
    seal(store, old, moved(old, HOME, 9))
    async with running(store, catalog) as forwarder:
        future = await publish(forwarder, b"x", KEY)
        catalog.cached.clear()
        outcome = await future
        assert isinstance(outcome, Problem)
        assert outcome.slug == "topic-changed"


async def test_a_grown_topic_spreads_what_waited_by_its_new_partitions() -> None:
    old = topic(partitions=2)
    new = grown(old, 5)
    store, catalog = FakeStore(), FakeCatalog(old)
    store.hold(0, 1)
    async with running(store, catalog) as forwarder:
        keys = [f"k{n}" for n in range(12)]
        futures = {}
        for number in range(60):
            futures[number] = await publish(forwarder, b"%d" % number, keys[number % 12])
            await run_ready(1)
        batch = asyncio.create_task(
            post_batch(forwarder, [{"data": f"b{n}", "key": keys[n % 12]} for n in range(24)])
        )
        await run_ready()
        seal(store, old, new)
        tell(catalog, new)
        for number in range(2):
            store.partition(number).release()
        for number, future in futures.items():
            outcome = await future
            assert isinstance(outcome, StoredRange)
            assert outcome.partition == partition_of(keys[number % 12], 5)
            stored = open_queue(store, new, outcome.partition).log[outcome.base_offset]
            assert stored.data == b"%d" % number
        for number, result in enumerate((await batch).json()["results"]):
            queue = open_queue(store, new, result["partition"])
            assert queue.log[result["offset"]].data == b"b%d" % number
        for partition in range(5):
            log = open_queue(store, new, partition).log
            for key in keys:
                singles = [int(m.data) for m in log if m.key == key and m.data.isdigit()]
                assert singles == sorted(singles)
        assert len(store.stored()) == 84
        assert forwarder.budget.held_bytes == 0


async def test_delayed_messages_follow_too() -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(old)
    store.hold(HOME)
    async with running(store, catalog) as forwarder:
        answer = asyncio.create_task(
            post(forwarder, b"x", {"Packetboat-Key": KEY, "Packetboat-Delay": "60"})
        )
        await run_ready()
        seal(store, old, new)
        tell(catalog, new)
        store.partition(HOME).release()
        from edge import message_id

        receipt = (await answer).json()
        assert message_id.parse(receipt["message_id"]) == message_id.staged(UID, HOME, 1, 0)
        assert [m.data for m, _ in open_queue(store, new, HOME).staged] == [b"x"]


@pytest.mark.parametrize("staged", [False, True])
async def test_a_message_sent_again_after_a_move_is_known_where_it_was(staged: bool) -> None:
    old = topic()
    store, catalog = FakeStore(), FakeCatalog(old)
    headers = {"Idempotency-Key": "i1"} | ({"Packetboat-Delay": "60"} if staged else {})
    home = partition_of("i1", 4)
    async with running(store, catalog) as forwarder:
        first = (await post(forwarder, b"x", headers)).json()
        new = moved(old, home, 9)
        seal(store, old, new)
        catalog.cached[TENANT, "orders"] = new
        again = (await post(forwarder, b"x", headers)).json()
        assert again["duplicate"] is True
        assert again["message_id"] == first["message_id"]
        fresh = (await post(forwarder, b"y", headers | {"Idempotency-Key": "i1b"})).json()
        assert fresh["duplicate"] is False
        assert len(store.stored()) + sum(len(q.staged) for q in store.queues.values()) == 2
        other = await post(forwarder, b"z", headers)
        assert other.status == 422


async def test_a_message_sent_again_after_two_growths_is_known_where_it_was() -> None:
    old = topic(partitions=2)
    store, catalog = FakeStore(), FakeCatalog(old)
    async with running(store, catalog) as forwarder:
        items = [{"data": n, "idempotency_key": f"i{n}"} for n in range(40)]
        first = (await post_batch(forwarder, items[:20])).json()["results"]
        middle = grown(old, 3, 10, ago_s=100)
        seal(store, old, middle)
        catalog.cached[TENANT, "orders"] = middle
        second = (await post_batch(forwarder, items[:30])).json()["results"]
        assert [r["message_id"] for r in second[:20]] == [r["message_id"] for r in first]
        last = replace(grown(middle, 7, 20), sealed=middle.sealed + grown(middle, 7).sealed[2:])
        partitions = tuple(
            replace(p, generation=middle.partitions[p.number].generation + 1 if p.number < 3 else 0)
            for p in last.partitions
        )
        last = replace(last, partitions=partitions)
        seal(store, middle, last)
        catalog.cached[TENANT, "orders"] = last
        third = (await post_batch(forwarder, items)).json()["results"]
        assert [r["message_id"] for r in third[:30]] == [r["message_id"] for r in second]
        assert [r["duplicate"] for r in third] == [True] * 30 + [False] * 10
        assert len(store.stored()) == 40
        assert forwarder.budget.held_bytes == 0
        assert forwarder._acceptor._in_flight == {}


@pytest.mark.parametrize("caught", [True, False])
async def test_a_producers_batch_is_known_after_a_growth(caught: bool) -> None:
    """The batch is known where it was stored, and messages caught by the growth where they went."""
    old = topic(partitions=2)
    new = grown(old, 5)
    store, catalog = FakeStore(), FakeCatalog(old)
    producer = Producer(bytes(16), 3)
    messages = [Message(b"%d" % n, key=f"k{n % 10}" if n % 2 else None) for n in range(30)]

    async def send(forwarder: PublishForwarder) -> list[object]:
        return list(await forwarder.publish_batch(TENANT, "orders", messages, producer=producer))

    async with running(store, catalog) as forwarder:
        if caught:
            store.hold(0, 1)
            task = asyncio.create_task(send(forwarder))
            await run_ready()
            joined = asyncio.create_task(send(forwarder))
            await run_ready()
            seal(store, old, new)
            tell(catalog, new)
            for number in range(2):
                store.partition(number).release()
            first = await task
            assert await joined == [each.again() for each in first if isinstance(each, StoredRange)]
        else:
            first = await send(forwarder)
            seal(store, old, new)
            catalog.cached[TENANT, "orders"] = new
        places = [(p.partition, p.base_offset) for p in first if isinstance(p, StoredRange)]
        assert len(places) == 30
        for queue in store.queues.values():
            assert [int(m.data) for m in queue.log] == sorted(int(m.data) for m in queue.log)
        again = await send(forwarder)
        assert [(p.partition, p.base_offset) for p in again if isinstance(p, StoredRange)] == places
        assert all(p.duplicate for p in again if isinstance(p, StoredRange))
        assert len(store.stored()) == 30
        assert forwarder.budget.held_bytes == 0
        assert forwarder._acceptor._in_flight == {}


@pytest.mark.parametrize("ago_s", [1, 301, 599, 600 * 1.25 - 5])
async def test_while_an_id_may_be_remembered_its_sealed_queue_is_asked(ago_s: float) -> None:
    """The window is 600 s, and a group may know an id for up to a quarter longer."""
    old = topic()
    store, catalog = FakeStore(), FakeCatalog(old)
    async with running(store, catalog) as forwarder:
        first = (await post(forwarder, b"x", {"Idempotency-Key": "i1"})).json()
        new = moved(old, partition_of("i1", 4), 9, ago_s=ago_s)
        seal(store, old, new)
        catalog.cached[TENANT, "orders"] = new
        again = (await post(forwarder, b"x", {"Idempotency-Key": "i1"})).json()
    assert (again["message_id"], again["duplicate"]) == (first["message_id"], True)
    assert len(store.stored()) == 1


async def test_after_the_window_nobody_asks_the_sealed_queue() -> None:
    old = topic()
    home = partition_of("i1", 4)
    new = moved(old, home, 9, ago_s=600 * 1.25 + 1)
    store, catalog = FakeStore(), FakeCatalog(new)
    seal(store, old, new)
    async with running(store, catalog) as forwarder:
        assert (await post(forwarder, b"x", {"Idempotency-Key": "i1"})).status == 201
        assert store.partition(home).appends == 0


async def test_only_messages_with_ids_ask_the_sealed_queue() -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(new)
    seal(store, old, new)
    async with running(store, catalog) as forwarder:
        await post(forwarder, b"x", {"Packetboat-Key": KEY})
        assert store.partition(HOME).appends == 0
        await post(forwarder, b"x", {"Packetboat-Key": KEY, "Idempotency-Key": "i"})
        assert store.partition(HOME).appends == 1
        assert len(open_queue(store, new, HOME).log) == 2


async def test_a_message_without_an_id_does_not_pass_one_whose_id_is_asked_for() -> None:
    """Found in review: of one key, the second was stored first while the first still asked."""
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(new)
    seal(store, old, new)
    store.hold(HOME)
    async with running(store, catalog) as forwarder:
        futures = [await publish(forwarder, b"0", KEY, "i")]
        futures += [await publish(forwarder, b"%d" % n, KEY) for n in range(1, 4)]
        await run_ready()
        assert open_queue(store, new, HOME).log == []
        store.partition(HOME).release()
        for future in futures:
            assert isinstance(await future, StoredRange)
        stored = [message.data for message in open_queue(store, new, HOME).log]
        assert stored == [b"0", b"1", b"2", b"3"]


async def test_a_sealed_queue_that_cannot_be_asked_holds_messages_with_ids_back() -> None:
    old = topic()
    new = moved(old, HOME, 9)
    store, catalog = FakeStore(), FakeCatalog(new)
    seal(store, old, new)
    store.partition(HOME).refusal = Unavailable("no leader")
    async with running(store, catalog, timeout_s=0.1) as forwarder:
        answer = await post(forwarder, b"x", {"Packetboat-Key": KEY, "Idempotency-Key": "i"})
        assert (answer.status, answer.json()["outcome"]) == (503, "not_done")
        assert store.stored() == []


@pytest.mark.parametrize("reason", ["topic-full", "tenant-full"])
async def test_a_full_topic_takes_nothing_and_says_what_to_do(reason: str) -> None:
    full = replace(topic(), full=reason, full_detail="It holds 10 of 10 GiB; ack or raise it.")
    store, catalog = FakeStore(), FakeCatalog(full)
    async with running(store, catalog) as forwarder:
        answer = await post(forwarder, b"x")
        assert answer.status == 507
        assert answer.json()["type"].endswith(f"/{reason}")
        assert answer.json()["detail"].startswith("It holds 10 of 10 GiB; ack or raise it.")
        catalog.cached[TENANT, "orders"] = topic()
        assert (await post(forwarder, b"x")).status == 201
