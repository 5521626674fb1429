"""A message that the process of a tail appends itself is delivered without a fetch."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import REGISTRY

from store_nodes.client import Receipt
from subscribe_forwarder.delivery.reading import tail
from tests.unit.subscribe_forwarder.subscribe_support import world


def cached_bytes() -> float:
    found = REGISTRY.get_sample_value("packetboat_subscribe_cache_bytes")
    assert found is not None
    return found


async def test_a_waiting_pull_gets_it_without_a_fetch() -> None:
    async with world() as w:
        await w.pulled()
        w.store.silent = True
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        w.store.publish(b"a", b"b", here=True)
        assert [m["data"] for m in await pull] == ["a", "b"]
        w.store.publish(b"c", here=True)
        assert [m["data"] for m in await w.pulled()] == ["c"]
        assert not w.store.fetches


async def test_it_is_rendered_as_it_is_stored() -> None:
    async with world() as w:
        fields = {"key": "k", "attributes": {"a": "1"}, "ttl_ms": 3_600_000, "priority": 1}
        w.store.publish(b"one", here=True, **fields)
        kept = await w.pulled()
        assert not w.store.fetches
    async with world() as w:
        w.store.publish(b"one", **fields)
        fetched = await w.pulled()
        assert w.store.fetches
    for message in (*kept, *fetched):
        del message["ack_id"]
    assert kept == fetched


async def test_what_others_appended_before_it_is_fetched() -> None:
    async with world() as w:
        await w.pulled()
        w.store.silent = True
        w.store.publish(b"theirs")
        w.store.publish(b"ours", here=True)
        w.store.publish(b"theirs again")
        assert [m["data"] for m in await w.pulled()] == ["theirs", "ours", "theirs again"]


async def test_it_is_kept_once_where_it_was_fetched_before() -> None:
    async with world() as w:
        pull = asyncio.create_task(w.pulled(wait_s=20))
        await asyncio.sleep(0.01)
        w.store.publish(b"a")
        await pull
        used = cached_bytes()
        [(queue, stored)] = [(each, of.entries[-1]) for each, of in w.store.queues.items()]
        for watch in w.store.watches:
            receipt = Receipt(stored.base_offset, stored.log_time_us, duplicate=False)
            assert watch.on_append is not None
            watch.on_append(queue.pack(), receipt, stored.batch)
        assert cached_bytes() == used


async def test_readers_that_are_far_behind_fetch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_UNREAD_BYTES", 1000)
    async with world() as w:
        await w.pulled()
        bodies = [b"%d" % number * 100 for number in range(30)]
        for body in bodies:
            w.store.publish(body, here=True)
        assert cached_bytes() < 30 * 700 / 2
        got: list[str] = []
        while page := await w.pulled(7):
            got += [message["data"] for message in page]
        assert got == [body.decode() for body in bodies]
        w.store.fetches.clear()
        w.store.publish(b"caught up", here=True)
        assert [m["data"] for m in await w.pulled()] == ["caught up"]
        assert not w.store.fetches
