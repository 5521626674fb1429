"""Test what is committed before messages leave, by the subscription's guarantee."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from metadata.errors import MetadataUnavailable
from openapi.subscriptions import DeliveryValue
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import (
    FakeMetadata,
    World,
    subscription,
    topic,
    world,
)


@asynccontextmanager
async def guaranteed(delivery: DeliveryValue) -> AsyncIterator[World]:
    metadata = FakeMetadata(topic(), replace(subscription(), delivery=delivery))
    async with world(metadata=metadata) as w:
        await w.ready()
        yield w


async def test_at_most_once_is_acked_before_it_leaves() -> None:
    async with guaranteed("at_most_once") as w:
        w.store.publish(b"a", b"b")
        w.metadata.flush_gate = asyncio.Event()
        pull = asyncio.create_task(w.pulled())
        while not w.metadata.flushes:
            await asyncio.sleep(0.001)
        assert not pull.done()
        w.metadata.flush_gate.set()
        messages = await pull
        assert [(m["data"], m["ack_id"], m["attempt"]) for m in messages] == [
            ("a", None, 1),
            ("b", None, 1),
        ]
        assert w.metadata.row().floor == 2
        assert await w.pulled() == []


async def test_at_most_once_messages_whose_ack_failed_do_not_leave_and_never_will() -> None:
    async with guaranteed("at_most_once") as w:
        w.store.publish(b"a")
        w.metadata.flush_failure = MetadataUnavailable("gone")
        assert (await w.pull(wait_s=5)).status == 503
        w.metadata.flush_failure = None
        w.store.publish(b"b")
        assert [m["data"] for m in await w.pulled(wait_s=5)] == ["b"]


async def test_at_most_once_over_a_stream() -> None:
    async with guaranteed("at_most_once") as w, stream(w, "max_outstanding_messages=1") as s:
        w.store.publish(b"a", b"b", b"c")  # acked messages take no room
        assert [m["ack_id"] for m in await s.until(3)] == [None, None, None]
        assert w.metadata.row().floor == 3


async def test_exactly_once_leases_are_committed_before_they_leave() -> None:
    async with guaranteed("exactly_once") as w:
        w.store.publish(b"a", b"b")
        (first, second) = await w.pulled()
        leases = [lease for flush in w.metadata.flushes for one in flush for lease in one.leases]
        assert [lease.offsets for lease in leases] == [((0, 2),)]
        assert (await w.ack(first, second)).json()["acked"] == 2


async def test_exactly_once_leases_that_were_not_committed_are_no_leases() -> None:
    async with guaranteed("exactly_once") as w:
        w.store.publish(b"a")
        w.metadata.flush_failure = MetadataUnavailable("gone")
        assert (await w.pull(wait_s=5)).status == 503
        w.metadata.flush_failure = None
        assert [m["attempt"] for m in await w.pulled(wait_s=5)] == [1]


async def test_exactly_once_over_a_stream() -> None:
    async with guaranteed("exactly_once") as w, stream(w) as s:
        w.metadata.flush_failure = MetadataUnavailable("gone")
        w.store.publish(b"a")
        await asyncio.sleep(0.02)
        assert s.messages == []
        w.metadata.flush_failure = None
        messages = await s.until(1)
        assert (await w.ack(*messages)).json()["acked"] == 1
