"""Acks, nacks, releases and deadlines: each item's rule, and what a flush wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge.message_id import MessageId
from edge.problem import TYPE_BASE
from metadata.types import Counters, Epoch
from subscribe_forwarder.delivery.ack_id import Head, Minter
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    SUBSCRIPTION_UID,
    TOPIC_UID,
    FakeMetadata,
    subscription,
    topic,
    world,
)


def minted(offset: int = 0, **changes: Any) -> str:
    fields: dict[str, Any] = {
        "subscription_uid": SUBSCRIPTION_UID,
        "generation": 1,
        "partition": 0,
        "lane": 0,
        "epoch": Epoch(0, 1),
    }
    return Minter(Head(**(fields | changes)), ACK_KEY).mint(offset, 1).decode()


def slugs(answer: Any) -> list[tuple[int, str]]:
    return [(r["index"], r["type"].removeprefix(TYPE_BASE)) for r in answer.json()["results"]]


@pytest.mark.parametrize("by", ["ack_id", "message_id"])
async def test_an_answered_ack_is_committed(by: str) -> None:
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        messages = await w.pulled()
        answer = await w.ack(messages[0], messages[2], by=by)
        assert (answer.status, answer.json()) == (200, {"acked": 2, "results": []})
        row = w.metadata.row()
        assert (row.floor, row.read_to, row.acked) == (1, 3, ((2, 3),))
        assert row.counters == Counters(acked=2)


@pytest.mark.parametrize("by", ["ack_id", "message_id"])
async def test_a_single_id(by: str) -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        answer = await w.post("ack", {by: message[by]})
        assert answer.json() == {"acked": 1, "results": []}


async def test_an_acked_message_counts_again_and_changes_nothing() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        await w.ack(message)
        flushes = len(w.metadata.flushes)
        for by in ("ack_id", "message_id"):
            assert (await w.ack(message, message, by=by)).json()["acked"] == 2
        assert len(w.metadata.flushes) == flushes
        assert w.metadata.row().counters.acked == 1


async def test_an_ack_after_the_deadline_counts() -> None:
    async with world(ack_deadline_s=1) as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        w.clock.added_s += 1.5
        assert (await w.ack(message)).json()["acked"] == 1
        assert await w.pulled() == []


async def test_acks_of_one_flush_share_one_statement() -> None:
    async with world() as w:
        w.store.publish(*[b"x"] * 30)
        messages = await w.pulled(30)
        await asyncio.sleep(0.01)
        w.metadata.flush_gate = asyncio.Event()
        first = asyncio.create_task(w.ack(messages[0]))
        await asyncio.sleep(0.01)
        rest = [asyncio.create_task(w.ack(m)) for m in messages[1:]]
        await asyncio.sleep(0.01)
        assert not first.done()
        before = len(w.metadata.flushes)
        w.metadata.flush_gate.set()
        assert [(await t).json()["acked"] for t in [first, *rest]] == [1] * 30
        assert len(w.metadata.flushes) == before + 1
        assert w.metadata.row().floor == 30


async def test_foreign_stale_and_broken_ack_ids_fail_alone() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        ids = [
            "nonsense",
            minted(subscription_uid=b"o" * 16),
            minted(generation=2),
            minted(partition=7),
            message["ack_id"][:-1] + ("A" if message["ack_id"][-1] != "A" else "B"),
            message["ack_id"],
        ]
        answer = await w.post("ack", {"ack_ids": ids})
        assert answer.json()["acked"] == 1
        assert slugs(answer) == [
            (0, "bad-ack-id"),
            (1, "bad-ack-id"),
            (2, "stale-ack-id"),
            (3, "stale-ack-id"),
            (4, "bad-ack-id"),
        ]
        assert answer.json()["results"][0]["ack_id"] == "nonsense"
        assert {r["status"] for r in answer.json()["results"]} == {400, 409}


async def test_message_ids_that_were_not_delivered_fail_alone() -> None:
    metadata = FakeMetadata(topic(), subscription())
    metadata.add_rows(subscription(), topic(), floor=2)
    async with world(metadata=metadata) as w:
        await w.ready()
        w.store.publish(*[b"x"] * 6)
        assert len(await w.pulled(2)) == 2
        names = [
            MessageId(1, TOPIC_UID, 0, 0, 1),
            MessageId(1, TOPIC_UID, 0, 0, 2),
            MessageId(1, TOPIC_UID, 0, 0, 4),
            MessageId(1, b"x" * 16, 0, 0, 2),
            MessageId(2, TOPIC_UID, 0, 0, 2),
            MessageId(1, TOPIC_UID, 9, 0, 2),
        ]
        answer = await w.post("ack", {"message_ids": [*map(str, names), "junk"]})
        assert answer.json()["acked"] == 1
        assert slugs(answer) == [
            *[(i, "not-delivered") for i in (0, 2, 3, 4, 5)],
            (6, "bad-message-id"),
        ]


async def test_a_nack_brings_it_back_at_once_and_before_newer_ones() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        first, _ = await w.pulled(2)
        answer = await w.post("nack", {"ack_id": first["ack_id"], "delay_seconds": 0})
        assert answer.json() == {"done": 1, "results": []}
        again = await w.pulled()
        assert [(m["data"], m["attempt"]) for m in again] == [("a", 2), ("c", 1)]
        assert again[0]["ack_id"] != first["ack_id"]


async def test_a_nack_with_a_delay() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        await w.post("nack", {"message_id": message["message_id"], "delay_seconds": 5})
        assert await w.pulled() == []
        w.clock.added_s += 5
        assert [m["attempt"] for m in await w.pulled()] == [2]


async def test_a_delay_that_ends_wakes_a_long_poll() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        await w.post("nack", {"ack_id": message["ack_id"], "delay_seconds": 0.05})
        assert len(await w.pulled(wait_s=20)) == 1


async def test_a_deadline_that_passes_wakes_a_long_poll() -> None:
    async with world(ack_deadline_s=0.05) as w:
        w.store.publish(b"a")
        await w.pulled()
        assert [m["attempt"] for m in await w.pulled(wait_s=20)] == [2]


async def test_release_counts_no_attempt() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        assert (await w.post("release", {"ack_ids": [message["ack_id"]]})).json()["done"] == 1
        assert [m["attempt"] for m in await w.pulled()] == [1]


async def test_a_longer_deadline() -> None:
    async with world(ack_deadline_s=2) as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        body = {"ack_id": message["ack_id"], "deadline_seconds": 60}
        assert (await w.post("modify_ack_deadline", body)).json()["done"] == 1
        w.clock.added_s += 3
        assert await w.pulled() == []
        w.clock.added_s += 60
        assert len(await w.pulled(wait_s=5)) == 1


async def test_a_deadline_of_zero_is_a_nack() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        body = {"ack_id": message["ack_id"], "deadline_seconds": 0}
        await w.post("modify_ack_deadline", body)
        assert [m["attempt"] for m in await w.pulled()] == [2]


@pytest.mark.parametrize("action", ["nack", "release", "modify_ack_deadline"])
async def test_what_needs_the_present_lease(action: str) -> None:
    extra = {"deadline_seconds": 9} if action == "modify_ack_deadline" else {}
    async with world(ack_deadline_s=1) as w:
        w.store.publish(b"a", b"b")
        old, acked = await w.pulled()
        await w.ack(acked)
        w.clock.added_s += 1.1
        ids = [old["ack_id"], acked["ack_id"]]
        answer = await w.post(action, {"ack_ids": ids} | extra)
        assert slugs(answer) == [(0, "lease-expired"), (1, "lease-expired")]
        (new,) = await w.pulled(wait_s=5)
        ids = [old["ack_id"], new["ack_id"], minted(0, epoch=Epoch(0, 99))]
        answer = await w.post(action, {"ack_ids": ids} | extra)
        assert answer.json()["done"] == 1
        assert slugs(answer) == [(0, "lease-expired"), (2, "lease-expired")]


async def test_the_same_attempt_under_another_owner_is_not_the_present_lease() -> None:
    """Attempts that were not committed are counted anew by the next owner."""
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        ids = [minted(0, epoch=Epoch(0, 99)), message["ack_id"]]
        answer = await w.post("nack", {"ack_ids": ids})
        assert slugs(answer) == [(0, "lease-expired")]


@pytest.mark.parametrize(
    ("action", "body", "status", "field"),
    [
        ("ack", b"not json", 400, None),
        ("ack", b"", 400, None),
        ("ack", b"{}", 422, "ack_ids"),
        ("ack", b'{"ack_id":"a","ack_ids":["b"]}', 422, "ack_ids"),
        ("ack", b'{"ack_ids":[]}', 422, "ack_ids"),
        ("ack", b'{"ack_ids":[1]}', 422, "ack_ids[0]"),
        ("ack", b'{"ack_id":"a","more":1}', 422, "more"),
        ("nack", b'{"ack_id":"a","delay_seconds":-1}', 422, "delay_seconds"),
        ("nack", b'{"ack_id":"a","delay_seconds":50000}', 422, "delay_seconds"),
        ("modify_ack_deadline", b'{"ack_id":"a"}', 422, "deadline_seconds"),
        ("modify_ack_deadline", b'{"ack_id":"a","deadline_seconds":"1"}', 422, "deadline_seconds"),
    ],
)
async def test_bodies_that_do_not_fit(
    action: str, body: bytes, status: int, field: str | None
) -> None:
    async with world() as w:
        answer = await w.post(action, body)
        assert answer.status == status
        if field is not None:
            assert [e["field"] for e in answer.json()["errors"]] == [field]


async def test_too_many_ids() -> None:
    async with world() as w:
        assert (await w.post("ack", {"ack_ids": ["x"] * 1001})).status == 422


async def test_acking_an_unknown_subscription_is_404() -> None:
    async with world() as w:
        assert (await w.post("ack", {"ack_id": "x"}, name="nobody")).status == 404


async def test_what_was_handed_out_is_written_within_a_moment() -> None:
    async with world(lazy_flush_s=0.02) as w:
        w.store.publish(b"a", b"b")
        await w.pulled()
        await asyncio.sleep(0.1)
        assert w.metadata.row().read_to == 2
        assert w.metadata.row().floor == 0
