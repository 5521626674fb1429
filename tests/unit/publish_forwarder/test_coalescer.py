from __future__ import annotations

import asyncio

import pytest

from edge.partition import partition_of
from edge.problem import Problem
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outcomes import Outcome, StoredRange
from store_nodes.client.appender import Receipt
from store_nodes.errors import (
    DiskFull,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    QueueSealed,
    StoreError,
    TooLarge,
    Unavailable,
)
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeStore,
    run_ready,
    running,
    topic,
)

KEY = "customer-17"
HOME = partition_of(KEY, 4)


async def publish(
    forwarder: PublishForwarder,
    data: bytes,
    key: str | None = None,
    durability: Durability = Durability.QUORUM,
) -> asyncio.Future[Outcome]:
    """Publish a message, which is accepted; return the future of its outcome."""
    routes = await forwarder.routes_of(TENANT, "orders")
    share = forwarder.budget.share(TENANT)
    request = forwarder.publish_nowait(routes, share, Message(data, key=key), durability)
    assert request.future is not None
    return request.future


def slug(future: asyncio.Future[Outcome]) -> str:
    outcome = future.result()
    assert isinstance(outcome, Problem), outcome
    return outcome.slug


def one_partition() -> FakeCatalog:
    return FakeCatalog(topic(partitions=1))


async def test_a_lone_message_goes_at_once() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        placed = await publish(forwarder, b"a", KEY)
        await run_ready(2)
        result = await placed
        assert isinstance(result, StoredRange)
        assert (result.partition, result.base_offset) == (HOME, 0)


async def test_what_arrives_in_one_turn_of_the_loop_goes_together() -> None:
    store = FakeStore()
    async with running(store, one_partition()) as forwarder:
        futures = [await publish(forwarder, b"%d" % n) for n in range(5)]
        await asyncio.gather(*futures)
        assert store.partition(0).appends == 1


async def test_what_arrives_while_an_append_is_in_flight_goes_in_the_next() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, one_partition()) as forwarder:
        first = await publish(forwarder, b"first")
        await run_ready()
        rest = [await publish(forwarder, b"%d" % n) for n in range(50)]
        await run_ready()
        queue = store.partition(0)
        assert [len(sent.messages) for sent in queue.sent] == [1]
        queue.answer()
        await run_ready()
        assert [len(sent.messages) for sent in queue.sent] == [50]
        queue.release()
        placed = [await future for future in (first, *rest)]
        assert [p.base_offset for p in placed if isinstance(p, StoredRange)] == list(range(51))


async def test_an_append_is_bounded_in_bytes_and_messages() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, one_partition(), max_append_bytes=10_000) as forwarder:
        await publish(forwarder, b"first")
        await run_ready()
        for _ in range(4):
            await publish(forwarder, bytes(4000))
        await publish(forwarder, bytes(20_000))
        sizes = []
        queue = store.partition(0)
        while queue.sent:
            sizes.append(len(queue.sent[0].messages))
            queue.answer()
            await run_ready()
        assert sizes == [1, 2, 2, 1]


async def test_no_append_has_more_than_a_thousand_messages() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, one_partition()) as forwarder:
        await publish(forwarder, b"")
        await run_ready()
        for _ in range(1500):
            await publish(forwarder, b"")
        store.partition(0).answer()
        await run_ready()
        assert len(store.partition(0).sent[0].messages) == 1000
        store.partition(0).release()
        await run_ready()


async def test_durabilities_are_not_mixed_in_an_append() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, one_partition()) as forwarder:
        await publish(forwarder, b"0")
        await run_ready()
        for durability in (
            Durability.QUORUM,
            Durability.QUORUM,
            Durability.ALL,
            Durability.LEADER,
            Durability.QUORUM,
        ):
            await publish(forwarder, b"x", None, durability)
        asked = []
        queue = store.partition(0)
        while queue.sent:
            asked.append((queue.sent[0].durability, len(queue.sent[0].messages)))
            queue.answer()
            await run_ready()
        quorum = Durability.QUORUM
        assert asked == [
            (quorum, 1),
            (quorum, 2),
            (Durability.ALL, 1),
            (Durability.LEADER, 1),
            (quorum, 1),
        ]


@pytest.mark.parametrize("error", [NotLeader(2), Unavailable("no leader"), DiskFull("full")])
async def test_unkeyed_messages_not_done_go_to_another_partition_at_once(
    error: StoreError,
) -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store) as forwarder:
        future = await publish(forwarder, b"a")
        await run_ready()
        (at,) = (n for n in range(4) if store.partition(n).sent)
        for n in {0, 1, 2, 3} - {at}:
            store.partition(n).held = False
        store.partition(at).fail(error)
        await run_ready()
        placed = future.result()
        assert isinstance(placed, StoredRange)
        assert placed.partition != at
        assert store.stored() == [b"a"]
        assert forwarder.metrics.rerouted == 1


async def test_keyed_messages_not_done_wait_in_front_for_their_own_partition() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        first = await publish(forwarder, b"1", KEY)
        await run_ready()
        second = await publish(forwarder, b"2", KEY)
        store.partition(HOME).fail(Unavailable("no leader"))
        third = await publish(forwarder, b"3", KEY)
        await run_ready()
        store.partition(HOME).release()
        for future in (first, second, third):
            assert isinstance(await future, StoredRange)
        assert [m.data for m in store.partition(HOME).log] == [b"1", b"2", b"3"]


async def test_a_mixed_append_is_taken_apart_when_it_fails() -> None:
    store = FakeStore()
    async with running(store, sticky_messages=10**9) as forwarder:
        routes = await forwarder.routes_of(TENANT, "orders")
        at = routes.partitioners[0].unkeyed(1, 1, 100).partition
        key = next(k for k in map(str, range(99)) if partition_of(k, 4) == at)
        store.hold(at)
        keyed = await publish(forwarder, b"keyed", key)
        unkeyed = await publish(forwarder, b"unkeyed")
        await run_ready()
        store.partition(at).fail(Unavailable("no leader"))
        placed = await unkeyed
        assert isinstance(placed, StoredRange)
        assert placed.partition != at
        assert not keyed.done()
        store.partition(at).held = False
        placed = await keyed
        assert isinstance(placed, StoredRange)
        assert placed.partition == at


async def test_an_unknown_outcome_is_told_and_not_sent_again() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, one_partition()) as forwarder:
        lost = await publish(forwarder, b"lost")
        await run_ready()
        after = await publish(forwarder, b"after")
        store.partition(0).fail(OutcomeUnknown("silence"))
        await run_ready()
        assert slug(lost) == "outcome-unknown"
        store.partition(0).release()
        assert isinstance(await after, StoredRange)
        assert store.stored() == [b"after"]
        assert forwarder.metrics.unknown == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [(TooLarge("x"), "message-too-large"), (QueueSealed(9), "topic-changed")],
)
async def test_a_lasting_refusal_is_told_at_once(error: StoreError, expected: str) -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        future = await publish(forwarder, b"a", KEY)
        await run_ready()
        store.partition(HOME).fail(error)
        await run_ready()
        assert slug(future) == expected


async def test_a_full_disk_is_told_to_keyed_messages_at_once() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        future = await publish(forwarder, b"a", KEY)
        await run_ready()
        store.partition(HOME).fail(DiskFull("full"))
        await run_ready()
        assert slug(future) == "storage-full"


async def test_a_refusal_raised_at_once_is_retried_within_the_deadline() -> None:
    store = FakeStore()
    store.partition(HOME).refusal = Overloaded("busy")
    async with running(store) as forwarder:
        future = await publish(forwarder, b"a", KEY)
        await asyncio.sleep(0.05)
        store.partition(HOME).refusal = None
        assert isinstance(await future, StoredRange)


async def test_past_its_deadline_a_message_is_told_not_done() -> None:
    store = FakeStore()
    store.partition(HOME).refusal = Unavailable("no leader")
    store.leaderless = {HOME}
    async with running(store, timeout_s=0.1) as forwarder:
        future = await publish(forwarder, b"a", KEY)
        await future
        assert slug(future) == "partition-unavailable"
        assert store.stored() == []


async def test_what_waits_behind_a_stalled_append_moves_on() -> None:
    store = FakeStore()
    async with running(store, stall_s=0.02, sticky_messages=10**9) as forwarder:
        at = 0  # where the first message without a key goes
        store.hold(at)
        stuck = await publish(forwarder, b"stuck")
        await run_ready()
        behind = await publish(forwarder, b"behind")
        placed = await behind
        assert isinstance(placed, StoredRange)
        assert placed.partition != at
        assert not stuck.done()
        fresh = await (await publish(forwarder, b"fresh"))
        assert isinstance(fresh, StoredRange)
        assert fresh.partition != at
        store.partition(at).release()
        assert isinstance(await stuck, StoredRange)


async def test_keyed_messages_stay_behind_a_stalled_append() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store, stall_s=0.02) as forwarder:
        futures = [await publish(forwarder, b"0", KEY)]
        await run_ready()
        futures.append(await publish(forwarder, b"1", KEY))
        await asyncio.sleep(0.1)
        store.partition(HOME).release()
        for future in futures:
            assert isinstance(await future, StoredRange)
        assert [m.data for m in store.partition(HOME).log] == [b"0", b"1"]


async def test_a_receipt_of_an_earlier_transmission_is_no_duplicate_to_the_publisher() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        future = await publish(forwarder, b"x", KEY)
        await run_ready()
        store.partition(HOME).sent[0].future.set_result(Receipt(17, 1, True))
        placed = await future
        assert isinstance(placed, StoredRange)
        assert (placed.base_offset, placed.duplicate) == (17, False)


async def test_nothing_is_held_once_all_is_answered() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store) as forwarder:
        futures = [await publish(forwarder, b"x", str(n)) for n in range(20)]
        await run_ready()
        assert forwarder.budget.held_messages == 20
        store.partition(0).fail(OutcomeUnknown("x"))
        for number in range(4):
            store.partition(number).release()
        await asyncio.gather(*futures)
        assert (forwarder.budget.held_messages, forwarder.budget.held_bytes) == (0, 0)


async def test_nothing_more_waits_for_a_group_that_does_not_answer() -> None:
    store = FakeStore()
    out: set[int] = set()
    async with running(store, stall_s=0.02, admits=lambda group: group not in out) as forwarder:
        group = topic().partitions[HOME].group
        store.hold(HOME)
        stuck = await publish(forwarder, b"stuck", KEY)
        await run_ready()
        behind = await publish(forwarder, b"behind", KEY)
        await asyncio.sleep(0.1)
        out.add(group)
        refused = await publish(forwarder, b"refused", KEY)
        assert slug(refused) == "partition-unavailable"
        elsewhere = await publish(forwarder, b"elsewhere")
        assert isinstance(await elsewhere, StoredRange)
        out.clear()
        tried = await publish(forwarder, b"tried", KEY)
        store.partition(HOME).release()
        placed = [await future for future in (stuck, behind, tried)]
        assert [p.base_offset for p in placed if isinstance(p, StoredRange)] == [0, 1, 2]


async def test_a_group_that_answers_is_not_asked_about() -> None:
    store = FakeStore()
    asked: list[int] = []

    def admits(group: int) -> bool:
        asked.append(group)
        return False

    async with running(store, admits=admits) as forwarder:
        futures = [await publish(forwarder, b"%d" % n, KEY) for n in range(20)]
        assert all(isinstance(outcome, StoredRange) for outcome in await asyncio.gather(*futures))
    assert asked == []
