"""Partitions that were moved or whose topic grew: one sequence of offsets, and no key overtaken."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from metadata.types import ChangeKind, Counters, Partition, SealedPartition, Topic
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.growth import Barrier, barriers
from tests.unit.subscribe_forwarder.subscribe_support import (
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)


def moved(before: Topic, number: int, end: int, group: int = 9) -> Topic:
    """Return the topic after a partition was sealed at `end`."""
    return _followed(before, {number: end}, len(before.partitions), {number: group})


def grown(before: Topic, partitions: int, ends: dict[int, int]) -> Topic:
    return _followed(before, ends, partitions, {})


def _followed(before: Topic, ends: dict[int, int], count: int, groups: dict[int, int]) -> Topic:
    open_now = {partition.number: partition for partition in before.partitions}
    sealed = [
        SealedPartition(n, p.group, 0, p.generation, p.base, ends[n], 0, len(before.partitions))
        for n, p in open_now.items()
        if n in ends
    ]
    following = []
    for number in range(count):
        old = open_now.get(number)
        if old is not None and number not in ends:
            following.append(old)
        else:
            group = groups.get(number, number if old is None else old.group)
            generation = 0 if old is None else old.generation + 1
            following.append(Partition(number, group, 0, generation, ends.get(number, 0)))
    return replace(
        before,
        partitions=tuple(following),
        sealed=tuple(sorted([*before.sealed, *sealed], key=lambda s: (s.number, s.generation))),
        version=before.version + 1,
    )


async def tell(w: World, changed: Topic) -> None:
    """As the change feed does once the placement is committed."""
    w.metadata.topics[TOPIC_UID] = changed
    known = {key.partition for key in w.metadata.rows}
    new = [p for p in changed.partitions if p.number not in known]
    w.metadata.add_rows(w.metadata.subscriptions["reader"], replace(changed, partitions=tuple(new)))
    await w.metadata.changed(ChangeKind.TOPIC, TOPIC_UID)


async def drained(w: World, step: int = 100) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = []
    while batch := await w.pulled(step):
        got += batch
    return got


async def test_a_moved_partition_goes_on_where_it_ended() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        first = await w.pulled()
        w.store.publish(b"c")
        end = w.store.seal()
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, end))
        w.store.publish(b"d", b"e", generation=1)
        rest = await drained(w)
        assert [(m["offset"], m["data"]) for m in rest] == [(2, "c"), (3, "d"), (4, "e")]
        assert (await w.ack(*first, *rest, by="message_id")).json()["acked"] == 5
        assert w.metadata.row().counters == Counters(acked=5)
        assert w.metadata.row().floor == 5


async def test_a_long_poll_over_a_move_gets_what_comes_after_it() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        w.store.publish(b"after", generation=1)
        assert [m["data"] for m in await pull] == ["after"]


async def test_a_pull_that_waits_for_nothing_finds_the_next_queue_before_the_feed_tells() -> None:
    async with world() as w:
        w.store.publish(b"a")
        assert len(await w.pulled()) == 1
        w.store.silent = True
        end = w.store.seal()
        w.metadata.topics[TOPIC_UID] = moved(w.metadata.topics[TOPIC_UID], 0, end)
        w.store.publish(b"b", generation=1)
        assert [m["data"] for m in await w.pulled()] == ["b"]


async def test_a_forwarder_that_starts_later_reads_every_generation() -> None:
    store = FakeStore()
    changed = topic()
    for generation in range(4):
        store.publish(b"%d" % generation, generation=generation)
        end = store.seal(generation=generation)
        changed = moved(changed, 0, end, group=generation)
    store.publish(b"4", generation=4)
    async with world(store, FakeMetadata(changed, subscription())) as w:
        await w.ready()
        got = await drained(w, step=2)
        assert [(m["offset"], m["data"]) for m in got] == [(n, str(n)) for n in range(5)]


async def test_an_older_view_of_the_topic_changes_nothing() -> None:
    async with world() as w:
        before = w.metadata.topics[TOPIC_UID]
        w.store.publish(b"a")
        await tell(w, moved(before, 0, w.store.seal()))
        await tell(w, before)
        w.store.publish(b"b", generation=1)
        assert [m["data"] for m in await drained(w)] == ["a", "b"]


async def test_queues_that_are_gone_are_watched_no_more() -> None:
    async with world() as w:
        w.store.publish(b"a")
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        watched = {queue for watch in w.store.watches for queue in watch.queues}
        assert watched == {QueueId(TOPIC_UID, 0, 0, 0), QueueId(TOPIC_UID, 0, 0, 1)}
        now = w.metadata.topics[TOPIC_UID]
        await tell(w, replace(now, sealed=(), version=now.version + 1))
        watched = {queue for watch in w.store.watches for queue in watch.queues}
        assert watched == {QueueId(TOPIC_UID, 0, 0, 1)}


@pytest.mark.parametrize("ordered", [False, True])
async def test_offsets_that_a_restore_left_out_are_passed_at_once(ordered: bool) -> None:
    """The queue that follows begins further on, while what is before it is stored still."""
    left_out = 1 << 24
    reader = structs.replace(subscription(), ordered=ordered)
    async with world(FakeStore(), FakeMetadata(topic(), reader)) as w:
        await w.ready()
        w.store.publish(Message(b"a", "text/plain", "k"), Message(b"b", "text/plain", "l"))
        end = w.store.seal()
        following = w.store.queues[QueueId(TOPIC_UID, 0, 0, 1)]
        following.first = following.end = end + left_out
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, end))
        w.store.publish(Message(b"c", "text/plain", "m"), generation=1)
        got = await drained(w)
        assert [(m["offset"], m["data"]) for m in got] == [
            (0, "a"),
            (1, "b"),
            (end + left_out, "c"),
        ]
        assert len(w.store.fetches) < 10
        assert (await w.ack(*got)).json()["acked"] == 3
        row = w.metadata.row()
        assert (row.floor, row.counters) == (
            end + left_out + 1,
            Counters(acked=3, expired=left_out),
        )


async def test_truncation_goes_through_the_generations_and_the_books_balance() -> None:
    async with world(fetch_bytes=10) as w:
        w.store.publish(b"a", b"b")
        w.store.publish(b"c")
        (leased,) = await w.pulled(1)
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        w.store.publish(b"d", b"e", generation=1)
        w.store.truncate(2)
        w.store.tell(QueueId(TOPIC_UID, 0))
        backlog = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert backlog.json()["leased"] == 0, "what is no longer stored is nobody's"
        assert backlog.json()["partitions"][0]["expired"] == 2
        assert [m["data"] for m in await w.pulled(1)] == ["c"]
        w.store.truncate(3)
        w.store.truncate(4, generation=1)
        w.store.tell(QueueId(TOPIC_UID, 0, 0, 1))
        w.store.tell(QueueId(TOPIC_UID, 0))
        (last,) = await drained(w)
        assert last["data"] == "e"
        assert (await w.ack(leased, last)).json()["acked"] == 2
        row = w.metadata.row()
        assert (row.floor, row.counters) == (5, Counters(acked=1, expired=4))


async def test_expiry_by_truncation_is_written_without_a_pull() -> None:
    async with world(lazy_flush_s=0.01) as w:
        w.store.publish(b"a", b"b", b"c")
        await w.pulled()
        w.store.truncate(2)
        w.store.tell(QueueId(TOPIC_UID, 0))
        async with asyncio.timeout(5):
            while w.metadata.row().floor < 2:
                await asyncio.sleep(0.01)
        assert w.metadata.row().counters == Counters(expired=2)


async def test_a_queue_that_does_not_answer_not_found_is_no_truncation() -> None:
    """Absence proves nothing: only the partitions table takes a generation away."""
    async with world() as w:
        w.store.publish(b"a")
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        gone = w.store.queues.pop(QueueId(TOPIC_UID, 0))
        async with asyncio.timeout(5):
            # A pull that does not wait may end before the reading does that fails.
            while (answer := await w.pull()).status == 200:
                assert answer.json()["messages"] == []
        assert answer.status == 503
        w.store.queues[QueueId(TOPIC_UID, 0)] = gone
        pull = await w.pulled(wait_s=20)
        assert [m["data"] for m in pull] == ["a"]


async def test_after_a_growth_nothing_new_of_a_key_overtakes_what_is_older() -> None:
    async with world() as w:
        w.store.publish(*[b"old"] * 10)
        await drained(w, 4)
        w.store.publish(*[b"old"] * 6)
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()}))
        w.store.publish(b"new", partition=0, generation=1)
        w.store.publish(b"new", partition=1)
        got = []
        while len(got) < 8:
            got += await w.pulled(2, wait_s=20)
        assert [m["data"] for m in got] == ["old"] * 6 + ["new"] * 2
        assert {m["partition"] for m in got[6:]} == {0, 1}
        assert (await w.ack(*got)).json()["acked"] == 8


async def test_a_waiting_pull_takes_part_in_a_growth() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 3, {0: w.store.seal()}))
        w.store.publish(b"here", partition=2)
        assert [m["data"] for m in await pull] == ["here"]


async def test_two_waiting_pulls_share_what_is_on_both_sides_of_a_growth() -> None:
    async with world() as w:
        pulls = [asyncio.create_task(w.pulled(wait_s=2)) for _ in range(2)]
        await asyncio.sleep(0.01)
        w.store.delay_s = 0.1
        w.store.publish(b"old")
        await asyncio.sleep(0.01)
        w.store.delay_s = 0
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()}))
        w.store.publish(b"new", partition=1)
        async with asyncio.timeout(1):
            assert [[m["data"] for m in await pull] for pull in pulls] == [["old"], ["new"]]


async def test_what_is_truncated_holds_nobody_up() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()}))
        w.store.publish(b"new", partition=1)
        w.store.truncate(2)
        w.store.tell(QueueId(TOPIC_UID, 0))
        assert [m["data"] for m in await w.pulled(wait_s=20)] == ["new"]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (3, 5), (4, 6), (6, 9), (4, 7)])
def test_the_barriers_are_those_of_the_keys(before: int, after: int) -> None:
    """Against the definition: q waits for p just where some hash is in p before and q after."""
    changed = grown(topic(before), after, {number: 10 + number for number in range(before)})
    found = {barrier.number: {p for p, _ in barrier.behind} for barrier in barriers(changed)}
    for q in range(after):
        sharing = {h % before for h in range(math.lcm(before, after)) if h % after == q}
        assert found.get(q, set()) == sharing - {q}
    assert all(end == 10 + p for barrier in barriers(changed) for p, end in barrier.behind)


def test_barriers_of_growths_and_moves_one_after_the_other() -> None:
    changed = grown(topic(1), 2, {0: 5})
    changed = moved(changed, 1, 7)
    changed = grown(changed, 4, {0: 8, 1: 9})
    assert barriers(changed) == [
        Barrier(1, 0, ((0, 5),)),
        Barrier(1, 9, ((0, 5),)),
        Barrier(2, 0, ((0, 8),)),
        Barrier(3, 0, ((0, 5), (1, 9))),
    ]
    trimmed = replace(changed, sealed=tuple(s for s in changed.sealed if s.number == 1))
    assert barriers(trimmed) == [Barrier(3, 0, ((1, 9),))]
    assert barriers(topic(3)) == []


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("removed", [False, True])
async def test_a_key_is_not_overtaken_over_two_growths_with_nothing_between(
    ordered: bool, removed: bool
) -> None:
    """The key was in partition 0, then in 1, which got nothing of it, and is in 3 now."""
    reader = structs.replace(subscription(), ordered=ordered)
    async with world(FakeStore(), FakeMetadata(topic(), reader)) as w:
        await w.ready()
        w.store.publish(Message(b"old", "text/plain", "k"), Message(b"other", "text/plain", "l"))
        w.metadata.topics[TOPIC_UID] = grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()})
        ends = {0: w.store.seal(generation=1), 1: w.store.seal(1)}
        now = grown(w.metadata.topics[TOPIC_UID], 4, ends)
        if removed:  # nothing was in it, so that nothing held it
            gone = tuple(one for one in now.sealed if one.of_partitions == 1)
            now = replace(now, sealed=gone)
        await tell(w, now)
        w.store.publish(Message(b"new", "text/plain", "k"), partition=3)
        got = [*await w.pulled(1), *await w.pulled(1)]
        assert [m["data"] for m in got] == ["old", "other"]
        if ordered:
            assert await w.pulled() == [], "what is older is not acked"
            await w.ack(*got)
        assert [m["data"] for m in await w.pulled(wait_s=5)] == ["new"]


async def test_random_moves_and_growths_keep_every_key_in_order() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(10):
        await _random_life(rng)


async def _random_life(rng: random.Random) -> None:
    """Messages say their key and number; one consumer must see each key's numbers in order."""
    counts = [0] * 12
    seen: dict[int, list[int]] = {key: [] for key in range(12)}

    async def take(w: World, most: int) -> None:
        messages = await w.pulled(most)
        for message in messages:
            key, number = map(int, message["data"].split("/"))
            seen[key].append(number)
        if messages:
            assert (await w.ack(*messages)).json()["acked"] == len(messages)

    async with world(partitions=rng.randrange(1, 3)) as w:
        for _ in range(40):
            now = w.metadata.topics[TOPIC_UID]
            at = {p.number: p.generation for p in now.partitions}
            for _ in range(rng.randrange(10)):
                key = rng.randrange(12)
                number = key * 7919 % len(at)
                body = b"%d/%d" % (key, counts[key])
                w.store.publish(body, partition=number, generation=at[number])
                counts[key] += 1
            event = rng.random()
            if event < 0.15:
                number = rng.choice(list(at))
                end = w.store.seal(number, at[number])
                await tell(w, moved(now, number, end, group=rng.randrange(4)))
            elif event < 0.22 and len(at) < 9:
                ends = {
                    number: w.store.seal(number, generation) for number, generation in at.items()
                }
                await tell(w, grown(now, len(at) + rng.randrange(1, 4), ends))
            await take(w, rng.randrange(1, 5))
        while sum(map(len, seen.values())) < sum(counts):
            await take(w, 50)
        assert seen == {key: list(range(count)) for key, count in enumerate(counts)}
        for row in w.metadata.rows.values():
            assert row.key.tenant_id == TENANT
            assert row.pending() == 0
            assert row.read_to - row.start == row.counters.total()
