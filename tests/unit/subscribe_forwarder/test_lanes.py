"""Priorities: the highest goes first, and none starves."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from store_nodes.queue_id import QueueId
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.lanes import AGING, MAX_TURNS, Lanes
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)


def pull(lanes: Lanes, waiting: dict[int, int], most: int) -> Counter[int]:
    """Take from queues of these lengths as the collector does; return the number taken of each."""
    ready = [lane for lane, count in waiting.items() if count]
    got: Counter[int] = Counter()
    for lane, share in lanes.plan(ready, most):
        took = min(share, waiting[lane], most - got.total())
        got[lane] += took
        waiting[lane] -= took
    lanes.delivered(got, ready)
    return got


@given(
    pulls=st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    priorities=st.integers(2, 10),
    rounds=st.integers(1, 20),
)
def test_every_lane_gets_its_share_while_all_are_full(
    pulls: list[int], priorities: int, rounds: int
) -> None:
    lanes, got = Lanes(), Counter[int]()
    for _ in range(rounds):
        for most in pulls:
            got += pull(lanes, dict.fromkeys(range(priorities), 10**9), most)
    total = got.total()
    # Each lane below has earned M/AGING after a pull of M that came all from the top. The lanes are
    # served in turn, and a later lane gets more: while the last one waits, M·(1 + 1/AGING)^others
    # are delivered. Rounding costs less than two messages a lane.
    waits = max(pulls) * (1 + 1 / AGING) ** (priorities - 2)
    slack = waits / (AGING + 1) + 2 * priorities
    for lane in range(priorities - 1):
        assert got[lane] >= total / (AGING + 1) - slack, got
        assert got[lane] <= total / AGING + slack, got
    assert got[priorities - 1] >= total * (1 - (priorities - 1) / AGING) - priorities * slack


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(0, 9), st.integers(1, 200)),
            st.tuples(st.just("pull"), st.integers(1, 300), st.just(0)),
        ),
        max_size=100,
    )
)
def test_a_pull_takes_what_is_there_and_the_top_waits_for_turns_only(
    steps: list[tuple[str, int, int]],
) -> None:
    lanes = Lanes()
    waiting = dict.fromkeys(range(10), 0)
    for what, first, second in steps:
        if what == "publish":
            waiting[first] += second
            continue
        before = dict(waiting)
        got = pull(lanes, waiting, first)
        assert got.total() == min(first, sum(before.values()))
        top = max((lane for lane, count in before.items() if count), default=None)
        if top is not None:
            others = sum(count for lane, count in got.items() if lane != top)
            if got[top] < before[top]:
                assert others <= MAX_TURNS * sum(1 for lane in before if before[lane])


def test_single_pulls_serve_the_lowest_once_in_seventeen() -> None:
    lanes, served = Lanes(), list[int]()
    for _ in range(3 * (AGING + 1)):
        served += pull(lanes, {0: 10**6, 9: 10**6}, 1).elements()
    assert served.count(0) == 3
    assert served[0] == 9


def test_what_is_published_on_top_goes_next() -> None:
    lanes = Lanes()
    waiting = {0: 10**6, 9: 0}
    for _ in range(100):
        pull(lanes, waiting, 1000)
    waiting[9] = 5
    assert pull(lanes, waiting, 10)[9] == 5


def test_a_lane_that_was_empty_has_earned_nothing() -> None:
    lanes = Lanes()
    for _ in range(100):
        pull(lanes, {0: 0, 9: 10**6}, 1000)
    assert pull(lanes, {0: 10**6, 9: 10**6}, 100) == Counter({9: 100})


async def prioritized(priorities: int = 10, partitions: int = 1) -> tuple[FakeStore, FakeMetadata]:
    return FakeStore(), FakeMetadata(topic(partitions, priorities=priorities), subscription())


async def lanes_of(w: World, most: int, pulls: int) -> Counter[int]:
    got: Counter[int] = Counter()
    for _ in range(pulls):
        messages = await w.pulled(most)
        got += Counter(int(m["data"]) for m in messages)
        await w.ack(*messages)
    return got


async def test_the_higher_priority_is_delivered_first() -> None:
    async with world(*await prioritized()) as w:
        await w.ready()
        for lane in (0, 9, 4):
            w.store.publish(*[b"%d" % lane] * 5, lane=lane)
        first = await w.pulled(5)
        second = await w.pulled(10)
        assert [m["data"] for m in first] == ["9"] * 5
        assert [m["data"] for m in second] == ["4"] * 5 + ["0"] * 5
        assert (await w.ack(*first, *second)).json()["acked"] == 15
        rows = {key.lane: row.floor for key, row in w.metadata.rows.items()}
        assert rows == {lane: 5 if lane in (0, 4, 9) else 0 for lane in range(10)}


async def test_the_lowest_priority_gets_its_share_of_every_kind_of_pull() -> None:
    for most, pulls in ((1, 340), (1000, 17)):
        store, metadata = await prioritized(2)
        for lane in (0, 1):
            for _ in range(20):
                store.publish(*[b"%d" % lane] * 1000, lane=lane)
        async with world(store, metadata) as w:
            await w.ready()
            while not await w.pulled(1, wait_s=5):
                pass
            got = await lanes_of(w, most, pulls)
            assert got.total() >= 0.9 * most * pulls
            assert got[0] >= 0.05 * got.total(), got
            assert got[1] >= 0.9 * got.total(), got


async def test_a_message_of_a_lane_has_its_lane_in_its_ids() -> None:
    async with world(*await prioritized(3)) as w:
        await w.ready()
        for lane in range(3):
            w.store.publish(b"%d" % lane, lane=lane)
        messages = await w.pulled()
        assert len({m["message_id"] for m in messages}) == 3
        assert {m["offset"] for m in messages} == {0}
        top, middle, low = messages
        assert (await w.ack(middle, by="message_id")).json()["acked"] == 1
        answer = await w.post("nack", {"ack_id": low["ack_id"], "delay_seconds": 0})
        assert answer.json()["done"] == 1
        again = await w.pulled(wait_s=5)
        assert [(m["data"], m["attempt"]) for m in again] == [("0", 2)]
        assert (await w.ack(top, *again)).json()["acked"] == 2
        backlog = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        shown = [(p["partition"], p["lane"], p["acked"]) for p in backlog.json()["partitions"]]
        assert shown == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]


async def test_an_expired_lease_of_a_quiet_lane_comes_again() -> None:
    async with world(*await prioritized(2)) as w:
        await w.ready()
        w.store.publish(b"0", lane=0)
        assert len(await w.pulled()) == 1
        w.clock.added_s += 31
        (again,) = await w.pulled(wait_s=5)
        assert again["attempt"] == 2
        assert w.metadata.row().key.subscription_uid == SUBSCRIPTION_UID


def backlog(store: FakeStore, batches: int) -> None:
    """Store `batches` thousand messages of priority 0, whose bytes are made only once."""
    store.publish(*[b"0"] * 1000)
    queue = store.queues[QueueId(TOPIC_UID, 0, 0)]
    one = queue.entries[0]
    queue.entries += [replace(one, base_offset=1000 * n) for n in range(1, batches)]
    queue.end = 1000 * batches


async def test_the_top_priority_behind_a_million_is_next() -> None:
    store, metadata = await prioritized()
    backlog(store, 1000)
    async with world(store, metadata) as w:
        await w.ready()
        for most in (1, 1000):
            assert [m["data"] for m in await w.pulled(most, wait_s=5)] == ["0"] * most
        w.store.publish(b"9", lane=9)
        got: list[str] = []
        for _ in range(2):  # the first asks the store for it
            got += [m["data"] for m in await w.pulled(1000, wait_s=5)]
            await asyncio.sleep(0.01)
        assert "9" in got


async def test_a_long_backlog_costs_neither_memory_nor_more_for_each_pull() -> None:
    store, metadata = await prioritized(1)
    backlog(store, 5000)
    async with world(store, metadata, cache_bytes=8_000_000) as w:
        await w.ready()
        hub = await w.forwarder.hub(TENANT, "reader")
        (reader,) = hub.readers.values()
        for low in (0, 4_990_000):
            reader.ledger.cursor.settle(0, low, Settled.ACKED)
            before = len(store.fetches)
            for _ in range(10):
                messages = await w.pulled(1000, wait_s=5)
                assert (await w.ack(*messages)).json()["acked"] == len(messages)
            assert len(store.fetches) - before <= 12, "each chunk is read once, ahead of its need"
            assert w.forwarder._tails.cached_bytes <= 8_000_000
            assert (reader.ledger.leases.outstanding, reader.cursor.range_count) == (0, 0)
