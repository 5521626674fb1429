"""Subscriptions in order: what may be out at once, what unblocks a key, what is parked."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from metadata.delivery.deliveries import Reason
from metadata.types import ChangeKind, Counters, RetryPolicy, Subscription
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.order import hash_of
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_generations import grown, tell


def in_order(**changes: Any) -> Subscription:
    return replace(subscription(), ordered=True, **changes)


PARKING = RetryPolicy(min_backoff_s=0.0, max_backoff_s=0.0, max_attempts=2)


@asynccontextmanager
async def ordered(
    store: FakeStore | None = None,
    metadata: FakeMetadata | None = None,
    partitions: int = 1,
    changes: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    metadata = metadata or FakeMetadata(topic(partitions), in_order(**(changes or {})))
    async with world(store or FakeStore(), metadata, **settings) as w:
        await w.ready()
        yield w


def keyed(*texts: str, **fields: Any) -> list[Message]:
    """`k1` is message 1 of key k."""
    return [Message(text.encode(), "text/plain", key=text[0], **fields) for text in texts]


def reader(w: World, partition: int = 0) -> Reader:
    found = w.forwarder.reader(SUBSCRIPTION_UID, Lane(partition))
    assert found is not None
    return found


async def data(w: World, wait_s: float = 0) -> list[str]:
    return [m["data"] for m in await w.pulled(wait_s=wait_s)]


async def nack(w: World, *messages: dict[str, Any], delay_s: float = 0) -> None:
    ids = [m["ack_id"] for m in messages]
    answer = await w.post("nack", {"ack_ids": ids, "delay_seconds": delay_s})
    assert answer.json()["done"] == len(ids), answer.body


async def changed(w: World, after: Subscription) -> None:
    w.metadata.subscriptions[after.name] = replace(after, version=after.version + 1)
    await w.metadata.changed(ChangeKind.SUBSCRIPTION, after.uid)


async def test_of_a_key_one_message_is_out_and_keys_go_side_by_side() -> None:
    async with ordered() as w:
        w.store.publish(*keyed("a1", "a2", "b1", "a3", "b2"), b"-", b"-")
        first = await w.pulled()
        assert [m["data"] for m in first] == ["a1", "b1", "-", "-"]
        assert await w.pulled() == []
        assert reader(w).ledger.leases.outstanding == 7
        await w.ack(first[0])
        (second,) = await w.pulled()
        assert second["data"] == "a2"
        await w.ack(second, first[1])
        assert sorted(await data(w)) == ["a3", "b2"]


async def test_a_waiting_pull_gets_the_next_of_a_key_with_the_ack() -> None:
    async with ordered() as w:
        w.store.publish(*keyed("a1", "a2"))
        (first,) = await w.pulled()
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        await w.ack(first)
        assert [m["data"] for m in await pull] == ["a2"]


async def test_a_redelivery_blocks_its_key_only() -> None:
    async with ordered() as w:
        w.store.publish(*keyed("a1", "a2", "b1", "b2"))
        a1, b1 = await w.pulled()
        await nack(w, a1, delay_s=100)
        await w.ack(b1)
        assert await data(w) == ["b2"]
        w.clock.added_s += 29
        assert await data(w) == []
        w.clock.added_s += 72
        (again,) = [m for m in await w.pulled(wait_s=5) if m["data"] == "a1"]
        assert again["attempt"] == 2
        await w.ack(again)
        assert "a2" in await data(w, wait_s=5)


async def test_what_is_released_or_expired_keeps_its_turn() -> None:
    async with ordered(changes={"retry": RetryPolicy(0.0, 0.0)}) as w:
        w.store.publish(*keyed("a1", "a2"))
        (first,) = await w.pulled()
        assert (await w.post("release", {"ack_id": first["ack_id"]})).json()["done"] == 1
        assert await data(w) == ["a1"]
        w.clock.added_s += 31
        assert await data(w, wait_s=5) == ["a1"]
        assert await data(w) == []


async def test_an_ack_by_message_id_of_one_that_is_held() -> None:
    async with ordered() as w:
        w.store.publish(*keyed("a1", "a2", "a3"))
        (first,) = await w.pulled()
        held = {"message_id": _sibling(first["message_id"], 1)}
        assert (await w.ack(held, by="message_id")).json()["acked"] == 1
        await w.ack(first)
        assert await data(w) == ["a3"]


def _sibling(message_id: str, offset: int) -> str:
    from edge.message_id import parse

    return str(parse(message_id)._replace(number=offset))


async def test_a_head_in_back_off_whose_time_is_over_unblocks_its_key() -> None:
    async with ordered() as w:
        soon = time.time_ns() // 1000 + 400_000
        w.store.publish(*keyed("a1", ttl_ms=1, deliver_at_us=soon), *keyed("a2", "b1"))
        a1, b1 = await w.pulled()
        await nack(w, a1, delay_s=3000)
        assert b1["data"] == "b1"
        assert await data(w) == []
        assert await data(w, wait_s=20) == ["a2"]
        assert reader(w).cursor.counters().expired == 1


async def test_after_a_takeover_nothing_of_a_key_is_overtaken() -> None:
    store = FakeStore()
    async with ordered(store) as first:
        store.publish(*keyed("a1", "b1", "a2", "b2", "c1", "a3"))
        a1, b1, c1 = await first.pulled()
        await nack(first, a1, delay_s=50)
        await first.ack(c1)
        metadata = first.metadata
        await nack(first, b1, delay_s=0)
    row = metadata.row()
    assert {d.offset: d.key_hash for d in row.stepped_over} == {0: hash_of("a"), 1: hash_of("b")}
    async with ordered(store, metadata) as w:
        (b1,) = await w.pulled()
        assert (b1["data"], b1["attempt"]) == ("b1", 2)
        await w.ack(b1)
        (b2,) = await w.pulled()
        assert b2["data"] == "b2"
        await w.ack(b2)
        w.clock.added_s += 51
        assert await data(w, wait_s=5) == ["a1"]
        assert await data(w) == []


async def test_after_a_takeover_a_failed_message_without_its_key_is_not_overtaken() -> None:
    """The lease of the message was handed to an owner, where it ended: so the row of the failure
    lacks the key, and the next owner delivered later messages of the key.
    """
    store = FakeStore()
    async with ordered(store) as first:
        store.publish(*keyed("a1", "a2", "b1"))
        a1, b1 = await first.pulled()
        await first.ack(b1)
        await nack(first, a1, delay_s=50)
        metadata = first.metadata
    row = metadata.row()
    (failed,) = row.stepped_over
    assert failed.reason is Reason.FAILED
    keyless = dataclasses.replace(failed, key_hash=None)
    metadata.rows[row.key] = dataclasses.replace(row, stepped_over=(keyless,))
    async with ordered(store, metadata) as w:
        assert await data(w) == []
        w.clock.added_s += 51
        assert await data(w, wait_s=5) == ["a1"]
        assert await data(w) == []


async def test_a_time_to_live_is_known_after_a_takeover() -> None:
    store = FakeStore()
    soon = time.time_ns() // 1000 + 300_000
    async with ordered(store) as first:
        store.publish(*keyed("a1", ttl_ms=1, deliver_at_us=soon), *keyed("a2"))
        await nack(first, *await first.pulled(), delay_s=3000)
        metadata = first.metadata
    async with ordered(store, metadata) as w:
        assert await data(w, wait_s=20) == ["a2"]


async def test_too_many_held_messages_stop_the_scan_and_the_status_says_why() -> None:
    async with ordered(changes={"max_outstanding": 5}) as w:
        w.store.publish(*keyed("a1", "a2", "a3", "a4", "a5", "a6", "b1"))
        (first,) = await w.pulled()
        assert await w.pulled() == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["paused"] == "blocked_by_keys"
        got = [first["data"]]
        await w.ack(first)
        while messages := await w.pulled():
            got += [m["data"] for m in messages]
            await w.ack(*messages)
        assert sorted(got) == ["a1", "a2", "a3", "a4", "a5", "a6", "b1"]
        assert [text for text in got if text[0] == "a"] == sorted(got)[:6]


async def fail_twice(w: World, text: str) -> None:
    for _ in range(2):
        (message,) = [m for m in await w.pulled(wait_s=5) if m["data"] == text]
        await nack(w, message)


def parking(**changes: Any) -> dict[str, Any]:
    return {"retry": PARKING, "on_exhausted": "park"} | changes


async def test_a_poisoned_key_is_parked_and_holds_up_nothing() -> None:
    async with ordered(changes=parking()) as w:
        w.store.publish(*keyed("a1", "a2"))
        await fail_twice(w, "a1")
        w.store.publish(*keyed("a3", "b1"))
        (b1,) = await w.pulled(wait_s=5)
        assert b1["data"] == "b1"
        await w.ack(b1)
        ((key, head, behind),) = reader(w).parked()
        assert (key, head.offset, head.attempts, behind) == (hash_of("a"), 0, 2, 2)
        row = w.metadata.row()
        assert (row.floor, row.read_to, row.exceptions) == (4, 4, 3)
        assert [d.reason for d in row.stepped_over] == [Reason.PARKED] + [Reason.BEHIND_PARKED] * 2


async def test_a_parked_key_resumes_and_its_attempts_start_again() -> None:
    async with ordered(changes=parking()) as w:
        w.store.publish(*keyed("a1", "a2", "a3"))
        await fail_twice(w, "a1")
        assert await data(w) == []
        held = reader(w)
        assert held.resume_key(hash_of("a"))
        assert not held.resume_key(hash_of("a"))
        await w.forwarder.flusher.commit([held])
        for text in ("a1", "a2", "a3"):
            (message,) = await w.pulled(wait_s=5)
            assert (message["data"], message["attempt"]) == (text, 1)
            await w.ack(message)
        assert w.metadata.row().counters == Counters(acked=3)
        assert not w.metadata.row().exceptions


async def test_a_parked_head_is_skipped_and_the_next_goes_out_also_after_a_takeover() -> None:
    store = FakeStore()
    async with ordered(store, changes=parking()) as first:
        store.publish(*keyed("a1", "a2", "a3"))
        await fail_twice(first, "a1")
        assert await data(first) == []
        metadata = first.metadata
    async with ordered(store, metadata) as w:
        store.publish(*keyed("a4"))
        assert await data(w) == []
        held = reader(w)
        assert [(p.head.offset, p.behind) for p in held.parked()] == [(0, 3)]
        assert held.skip_head(hash_of("a"))
        await w.forwarder.flusher.commit([held])
        got = []
        for _ in range(3):
            messages = await w.pulled(wait_s=5)
            got += [m["data"] for m in messages]
            await w.ack(*messages)
        assert got == ["a2", "a3", "a4"]
        assert w.metadata.row().counters == Counters(acked=3, skipped=1)


async def resumed_and_leased(w: World) -> dict[str, Any]:
    """Return a1, delivered again after its key was parked with a2 and a3 behind it."""
    w.store.publish(*keyed("a1", "a2", "a3"))
    await fail_twice(w, "a1")
    assert await data(w) == []
    held = reader(w)
    assert held.resume_key(hash_of("a"))
    await w.forwarder.flusher.commit([held])
    (message,) = await w.pulled(wait_s=5)
    return message


@pytest.mark.parametrize("died_again", [False, True])
async def test_an_ack_of_a_resumed_head_that_comes_first_after_a_takeover_leaves_nothing_parked(
    died_again: bool,
) -> None:
    """The message behind it became the head of a parked key, with no attempt of its own."""
    store = FakeStore()
    async with ordered(store, changes=parking()) as first:
        head = await resumed_and_leased(first)
        metadata = first.metadata
    async with ordered(store, metadata) as w:
        assert (await w.ack(head)).json()["acked"] == 1
        if not died_again:
            assert reader(w).parked() == []
            assert await data(w, wait_s=5) == ["a2"]
    if not died_again:
        return
    async with ordered(store, metadata) as w:
        got = []
        for _ in range(2):
            (message,) = await w.pulled(wait_s=5)
            got.append((message["data"], message["attempt"]))
            await w.ack(message)
        assert got == [("a2", 1), ("a3", 1)]
        assert w.metadata.row().counters == Counters(acked=3)
        assert not w.metadata.row().exceptions


async def test_too_many_parked_messages_pause_new_ones() -> None:
    async with ordered(changes=parking(), max_exceptions=3) as w:
        w.store.publish(*keyed("a1", "a2", "a3", "a4"))
        await fail_twice(w, "a1")
        assert await data(w) == []
        w.store.publish(*keyed("b1"))
        assert await data(w) == []
        answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
        assert answer.json()["paused"] == "too_many_exceptions"


async def test_after_a_growth_a_key_waits_until_what_is_older_is_settled() -> None:
    async with ordered() as w:
        w.store.publish(*keyed("a1", "b1"))
        old = await w.pulled()
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()}))
        w.store.publish(*keyed("a2"), partition=1)
        assert await data(w) == []
        await w.ack(old[0])
        assert await data(w) == []
        await w.ack(old[1])
        assert await data(w, wait_s=5) == ["a2"]


async def acking(w: World, *messages: dict[str, Any], by: str = "ack_id") -> asyncio.Task[Any]:
    """An ack whose commit does not come: Postgres does not answer until `flush_gate` is set."""
    w.metadata.flush_gate = asyncio.Event()
    acking = asyncio.create_task(w.ack(*messages, by=by))
    await asyncio.sleep(0.05)
    assert not acking.done()
    return acking


async def died(w: World, task: asyncio.Task[Any]) -> None:
    """Before Postgres had anything of what was acked last."""
    await _kill(w)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    w.metadata.flush_gate = None


async def test_a_later_message_of_a_key_is_not_out_before_the_ack_of_the_earlier_is_committed() -> (
    None
):
    store = FakeStore()
    async with ordered(store) as first:
        store.publish(*keyed("a1", "a2"))
        (a1,) = await first.pulled()
        task = await acking(first, a1)
        assert await data(first) == [], "the ack of a1 is not committed"
        metadata = first.metadata
        await died(first, task)
    assert metadata.row().floor == 0
    async with ordered(store, metadata) as w:
        (again,) = await w.pulled()
        assert again["data"] == "a1"
        task = await acking(w, again)
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        assert not pull.done()
        assert metadata.flush_gate is not None
        metadata.flush_gate.set()
        assert [m["data"] for m in await pull] == ["a2"], "the commit itself lets it go"
        await task


@pytest.mark.parametrize("stepped_over", [False, True])
async def test_an_ack_that_comes_first_after_a_takeover_frees_its_key_with_its_commit(
    stepped_over: bool,
) -> None:
    """The ack is of a message that the new owner has not read, or of one that has a row."""
    store = FakeStore()
    async with ordered(store) as first:
        store.publish(*keyed("a1", "a2", "b1"))
        a1, b1 = await first.pulled()
        if stepped_over:
            await nack(first, a1)
            (a1,) = await first.pulled(wait_s=5)
        await first.ack(b1)
        metadata = first.metadata
    assert bool(metadata.row().stepped_over) is stepped_over
    async with ordered(store, metadata) as w:
        task = await acking(w, a1, by="message_id")
        assert await data(w) == [], "the ack of a1 is not committed"
        await died(w, task)
    async with ordered(store, metadata) as w:
        assert await data(w) == ["a1"]


async def test_a_growth_is_passed_once_what_is_older_is_committed() -> None:
    store = FakeStore()
    async with ordered(store) as first:
        store.publish(*keyed("a1"))
        (a1,) = await first.pulled()
        metadata = first.metadata
        await tell(first, grown(metadata.topics[TOPIC_UID], 2, {0: store.seal()}))
        store.publish(*keyed("a2"), partition=1)
        assert await data(first) == []
        task = await acking(first, a1)
        assert await data(first) == [], "the ack of a1 is not committed"
        await died(first, task)
    async with ordered(store, metadata) as w:
        (again,) = await w.pulled(wait_s=5)
        assert again["data"] == "a1"
        await w.ack(again)
        assert await data(w, wait_s=5) == ["a2"]


async def test_expired_messages_hold_up_a_growth_no_longer_than_one_flush() -> None:
    """Nobody waits for the commit of what was expired but the barrier."""
    async with ordered(lazy_flush_s=60.0) as w:
        soon = time.time_ns() // 1000 + 200_000
        w.store.publish(*keyed("a1", ttl_ms=1, deliver_at_us=soon))
        await tell(w, grown(w.metadata.topics[TOPIC_UID], 2, {0: w.store.seal()}))
        w.store.publish(*keyed("a2"), partition=1)
        await asyncio.sleep(0.3)
        assert await data(w, wait_s=5) == ["a2"]


async def test_an_expired_message_keeps_its_place_until_that_is_committed() -> None:
    async with ordered(lazy_flush_s=60.0) as w:
        soon = time.time_ns() // 1000 + 200_000
        w.store.publish(*keyed("a1", ttl_ms=1, deliver_at_us=soon), *keyed("a2", "b1"))
        await asyncio.sleep(0.3)
        w.metadata.flush_gate = asyncio.Event()
        assert await data(w) == ["b1"]
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        assert not pull.done()
        w.metadata.flush_gate.set()
        assert [m["data"] for m in await pull] == ["a2"], "a flush comes at once: a2 waits for it"


async def test_acks_of_several_messages_of_a_key_before_one_commit() -> None:
    """Held ones may be acked by their message ids, also while an ack before is not committed."""
    async with ordered() as w:
        w.store.publish(*keyed("a1", "a2", "a3", "a4"))
        (a1,) = await w.pulled()
        task = await acking(w, a1)
        held = [{"message_id": _sibling(a1["message_id"], number)} for number in (1, 2)]
        more = asyncio.create_task(w.ack(*held, by="message_id"))
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.05)
        assert w.metadata.flush_gate is not None
        w.metadata.flush_gate.set()
        assert [m["data"] for m in await pull] == ["a4"]
        await asyncio.gather(task, more)


async def test_random_lives_never_overtake() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(8):
        await _random_life(rng)


async def _random_life(rng: random.Random) -> None:
    """Let consumers ack, nack, release and forget while forwarders come and go.

    For each key, only the oldest message that is not acked is ever delivered.
    """
    store = FakeStore()
    metadata = FakeMetadata(topic(), in_order(retry=RetryPolicy(0.0, 5.0)))
    acked: dict[str, int] = dict.fromkeys("abcde", 0)
    published: dict[str, int] = dict.fromkeys("abcde", 0)
    for _ in range(4):
        async with ordered(store, metadata, lazy_flush_s=0.01) as w:
            out: list[dict[str, Any]] = []
            for _ in range(40):
                for _ in range(rng.randrange(4)):
                    key = rng.choice("abcde")
                    published[key] += 1
                    store.publish(*keyed(f"{key}{published[key]}"))
                messages = await w.pulled(rng.randrange(1, 6))
                for message in messages:
                    key, number = message["data"][0], int(message["data"][1:])
                    assert number == acked[key] + 1, message
                out += messages
                rng.shuffle(out)
                while out and rng.random() < 0.6:
                    await _end_of(rng, w, out.pop(), acked)
                if rng.random() < 0.1:
                    w.clock.added_s += rng.choice((1, 31))
            if rng.random() < 0.5:
                await _kill(w)
    async with ordered(store, metadata) as w:
        while acked != published:
            w.clock.added_s += 40
            messages = await w.pulled(100)
            for message in messages:
                await _end_of(rng, w, message, acked)
        row = metadata.row()
        assert (row.floor, row.exceptions) == (sum(published.values()), 0)
        assert row.counters == Counters(acked=sum(published.values()))


async def _end_of(
    rng: random.Random, w: World, message: dict[str, Any], acked: dict[str, int]
) -> None:
    what = rng.random()
    if what < 0.6:
        by = rng.choice(("ack_id", "message_id"))
        if (await w.ack(message, by=by)).json()["acked"]:
            key, number = message["data"][0], int(message["data"][1:])
            acked[key] = max(acked[key], number)
    elif what < 0.75:
        body = {"ack_id": message["ack_id"], "delay_seconds": rng.choice((0, 3))}
        assert (await w.post("nack", body)).status == 200
    elif what < 0.9:
        assert (await w.post("release", {"ack_id": message["ack_id"]})).status == 200


async def _kill(w: World) -> None:
    """Nothing more is flushed, nothing released."""
    task = w.forwarder.flusher._task
    assert task is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
