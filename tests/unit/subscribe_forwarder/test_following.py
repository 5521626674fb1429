"""Test what a reader delivers, and how it follows its subscription: filters, rules, states,
moves.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from msgspec import structs

from metadata.delivery.deliveries import Reason
from metadata.types import (
    ChangeKind,
    Counters,
    CursorKey,
    Epoch,
    RetryPolicy,
    SkipRule,
    Subscription,
    Unit,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.ownership import Owned
from subscribe_forwarder.delivery.reading.batch import ORIGIN_ONLY
from subscribe_forwarder.fleet.announcement import Announcement
from tests.unit.subscribe_forwarder.subscribe_support import (
    NO_OUTBOX,
    NOW,
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    doomed,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_ordered import changed, nack

KIND_A = 'attributes.kind == "a"'


def kinds(*texts: str, **fields: Any) -> list[Message]:
    return [Message(t.encode(), "text/plain", attributes={"kind": t[0]}, **fields) for t in texts]


def of(w: World) -> Subscription:
    return w.metadata.subscriptions["reader"]


def filtered(**changes: Any) -> FakeMetadata:
    return FakeMetadata(topic(), structs.replace(subscription(), filter=KIND_A, **changes))


async def test_what_a_filter_leaves_out_is_settled_and_counted() -> None:
    async with world(FakeStore(), filtered()) as w:
        await w.ready()
        w.store.publish(*kinds("a1", "b1", "b2", "a2", "b3"))
        messages = await w.pulled()
        assert [m["data"] for m in messages] == ["a1", "a2"]
        await w.ack(*messages)
        row = w.metadata.row()
        assert (row.floor, row.read_to) == (5, 5)
        assert row.counters == Counters(acked=2, filtered=3)


async def test_one_in_a_hundred_thousand_is_found_by_a_waiting_pull_and_the_loop_has_turns() -> (
    None
):
    store, turns = FakeStore(), 0
    for _ in range(100):
        store.publish(*[Message(b"", attributes={"kind": "b"})] * 1000)
    store.publish(*kinds("a1"))

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with world(store, filtered()) as w:
        await w.ready()
        ticking = asyncio.create_task(tick())
        (found,) = await w.pulled(wait_s=20)
        ticking.cancel()
        assert found["offset"] == 100_000
        assert turns > 20
        await w.ack(found)
        assert w.metadata.row().counters == Counters(acked=1, filtered=100_000)
        assert not w.metadata.row().acked


async def test_a_pull_that_waits_for_nothing_goes_through_the_filtered_too() -> None:
    store = FakeStore()
    for _ in range(10):
        store.publish(*[Message(b"", attributes={"kind": "b"})] * 1000)
    store.publish(*kinds("a1"))
    async with world(store, filtered()) as w:
        await w.ready()
        assert [m["data"] for m in await w.pulled()] == ["a1"]


async def test_filtered_progress_is_written_without_an_ack() -> None:
    async with world(FakeStore(), filtered(), lazy_flush_s=0.01) as w:
        await w.ready()
        w.store.publish(*kinds("b1", "b2", "b3"))
        assert await w.pulled() == []
        async with asyncio.timeout(5):
            while w.metadata.row().floor < 3:
                await asyncio.sleep(0.01)
        assert w.metadata.row().counters == Counters(filtered=3)


async def test_a_filter_changes_in_place_also_for_what_is_to_go_out_again() -> None:
    async with world() as w:
        w.store.publish(*kinds("a1", "b1"))
        messages = await w.pulled()
        await nack(w, *messages)
        await changed(w, structs.replace(of(w), filter=KIND_A))
        w.store.publish(*kinds("b2", "a2"))
        got = [*await w.pulled(wait_s=5), *await w.pulled(wait_s=5)]
        assert [m["data"] for m in got] == ["a1", "a2"]
        await changed(w, structs.replace(of(w), filter=None))
        w.store.publish(*kinds("b3"))
        assert [m["data"] for m in await w.pulled()] == ["b3"]


async def test_a_skip_rule_settles_as_skipped() -> None:
    rule = SkipRule(bytes(16), 'attributes.kind == "b"', "poison", "me", NOW)
    async with world() as w:
        w.store.publish(*kinds("b1"))
        (poison,) = await w.pulled()
        await changed(w, structs.replace(of(w), skip_rules=(rule,)))
        await nack(w, poison)
        w.store.publish(*kinds("b2", "a1"))
        messages = await w.pulled(wait_s=5)
        assert [m["data"] for m in messages] == ["a1"]
        await w.ack(*messages)
        assert w.metadata.row().counters == Counters(acked=1, skipped=2)


async def test_a_message_for_one_subscription_is_given_to_no_other() -> None:
    other = subscription("other", uid=bytes(15) + b"x")
    async with world(FakeStore(), FakeMetadata(topic(), subscription(), other)) as w:
        await w.ready()
        mine = Message(b"mine", "text/plain", origin={ORIGIN_ONLY: SUBSCRIPTION_UID.hex()})
        w.store.publish(b"all", mine)
        assert [m["data"] for m in await w.pulled()] == ["all", "mine"]
        theirs = (await w.pull(name="other")).json()["messages"]
        assert [m["data"] for m in theirs] == ["all"]
        await w.forwarder.flusher.commit(
            list((await w.forwarder.hub(TENANT, "other")).readers.values())
        )
        assert w.metadata.row(uid=other.uid).counters == Counters(filtered=1)


async def test_order_and_filter_together() -> None:
    metadata = filtered(ordered=True)
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(*kinds("a1", "b1", "a2", "b2", key="k"))
        (first,) = await w.pulled()
        await w.ack(first)
        (second,) = await w.pulled()
        assert (first["data"], second["data"]) == ("a1", "a2")
        await w.ack(second)
        assert w.metadata.row().counters == Counters(acked=2, filtered=2)


async def test_a_paused_subscription_hands_out_nothing_and_goes_on_when_resumed() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        (first,) = await w.pulled(1)
        await changed(w, structs.replace(of(w), state="paused"))
        await nack(w, first)
        assert await w.pulled() == []
        backlog = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert backlog.json()["paused"] == "paused"
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        assert not pull.done()
        await changed(w, structs.replace(of(w), state="active"))
        assert [m["data"] for m in await pull] == ["a", "b"]


async def test_a_draining_subscription_hands_out_only_what_was_out_before() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        first, second = await w.pulled(2)
        await changed(w, structs.replace(of(w), state="draining"))
        await nack(w, second)
        assert [m["data"] for m in await w.pulled()] == ["b"]
        await w.ack(first)
        assert await w.pulled() == []
        await changed(w, structs.replace(of(w), state="active"))
        assert [m["data"] for m in await w.pulled()] == ["c"]


def seek(w: World, to: int) -> Subscription:
    """Seek as a commit of a seek does it; return the moved subscription."""
    moved = structs.replace(of(w), generation=of(w).generation + 1, version=of(w).version + 1)
    w.metadata.subscriptions["reader"] = moved
    key = CursorKey(TENANT, moved.uid, 0)
    row = w.metadata.rows[key]
    w.metadata.rows[key] = replace(
        row,
        generation=moved.generation,
        start=to,
        floor=to,
        read_to=to,
        acked=(),
        counters=Counters(),
        exceptions=0,
        stepped_over=(),
    )
    return moved


async def test_a_reload_goes_on_from_the_committed_rows() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        before = await w.pulled()
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await w.forwarder.reload(seek(w, 1))
        assert [m["offset"] for m in await pull] == [1, 2]
        answer = (await w.ack(before[0])).json()
        assert answer["results"][0]["type"].endswith("stale-ack-id")
        assert w.metadata.row().counters == Counters()


async def test_a_move_that_is_told_twice_is_taken_in_once() -> None:
    """The move is told by the caller and by the feed; messages delivered in between stay leased."""
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        await w.pulled()
        moved = seek(w, 1)
        await w.forwarder.reload(moved)
        messages = await w.pulled()
        await w.forwarder.reload(moved)
        await w.metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID)
        assert await w.pulled() == []
        assert (await w.ack(*messages)).json()["acked"] == 2


async def test_another_generation_is_found_by_the_feed_and_by_the_next_use() -> None:
    for tell in (True, False):
        async with world() as w:
            w.store.publish(b"a", b"b", b"c")
            await w.pulled()
            seek(w, 2)
            if tell:
                await w.metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID)
            assert [m["offset"] for m in await w.pulled(wait_s=5)] == [2]


async def test_an_older_view_of_a_subscription_changes_nothing() -> None:
    async with world() as w:
        before = of(w)
        await w.pulled()
        await changed(w, structs.replace(before, filter=KIND_A))
        w.metadata.subscriptions["reader"] = before
        w.store.publish(*kinds("b1", "a1"))
        assert [m["data"] for m in await w.pulled()] == ["a1"]


async def test_what_is_doomed_is_told_to_the_undertaker() -> None:
    retry = RetryPolicy(0.0, 0.0, max_attempts=1)
    metadata = FakeMetadata(
        topic(), structs.replace(subscription(), retry=retry, dead_letter_topic="dead")
    )
    with doomed() as told:
        async with world(FakeStore(), metadata, outbox=NO_OUTBOX) as w:
            await w.ready()
            w.store.publish(b"a")
            (message,) = await w.pulled()
            await nack(w, message)
            async with asyncio.timeout(5):
                while not told:
                    await w.pulled()
                    await asyncio.sleep(0.01)
            ((reader, dead),) = told
            assert reader.cursor.key.subscription_uid == SUBSCRIPTION_UID
            assert (dead.offset, dead.attempts, dead.reason) == (0, 1, Reason.EXHAUSTED)


async def test_an_open_delivery_that_is_kept_below_the_first_offset_goes_out_again() -> None:
    store = FakeStore()
    async with world(store, cache_bytes=1600) as w:
        for text in (b"a", b"b", b"c", b"d"):
            store.publish(text)
        messages = []
        while len(messages) < 4:
            messages += await w.pulled(wait_s=5)
        await nack(w, *messages[:2])
        await w.ack(*messages[2:])
        assert w.metadata.row().floor == 4
        store.truncate(4, keep=(1,))
        store.tell(QueueId(TOPIC_UID, 0))
        (kept,) = await w.pulled(wait_s=5)
        assert (kept["data"], kept["attempt"]) == ("b", 2)
        await w.ack(kept)
        assert w.metadata.row().counters == Counters(acked=3, expired=1)


async def test_a_message_without_a_key_is_not_parked() -> None:
    metadata = FakeMetadata(
        topic(),
        structs.replace(
            subscription(),
            ordered=True,
            retry=RetryPolicy(0.0, 0.0, max_attempts=1),
            on_exhausted="park",
        ),
    )
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(b"a")
        for attempt in (1, 2, 3):
            (message,) = await w.pulled(wait_s=5)
            assert message["attempt"] == attempt
            await nack(w, message)


async def test_an_owner_is_known_however_late_a_reading_of_a_topic_that_is_made_comes() -> None:
    """When a slow reading of a topic that was still being made came after another process had said
    that it owned a partition, the owner was forgotten, and was never told again.
    """
    async with world() as w:
        made, peer = bytes(15) + b"m", bytes(15) + b"p"
        unit = Unit(TENANT, made, 0)
        owned = Owned(unit, Epoch(0, 7))
        w.forwarder.directory.hear(peer, Announcement(owned=(owned,)))
        w.metadata.being_made.add(made)
        await w.metadata.changed(ChangeKind.TOPIC, made)
        assert w.forwarder.directory.owner_of(unit) == peer
        w.metadata.being_made.clear()
        await w.metadata.changed(ChangeKind.TOPIC, made)
        assert w.forwarder.directory.owner_of(unit) is None, "it is gone"
