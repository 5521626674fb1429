"""Watches: the present state, then changes; over reconnects and leader changes."""

from __future__ import annotations

import asyncio

import pytest

from store_nodes.client import Receipt, StageExtras
from store_nodes.errors import QueueSealed
from store_nodes.queue_id import QueueId
from store_nodes.wire import QueueOffsets
from tests.unit.store_client.store_client_support import (
    GROUP,
    QUEUE,
    store_and_client,
    until,
)

OTHER = QueueId(bytes(16), 2)


class Seen:
    def __init__(self) -> None:
        self.ends: dict[bytes, int] = {}
        self.calls = 0

    def __call__(self, queues: list[QueueOffsets]) -> None:
        self.calls += 1
        for queue in queues:
            self.ends[queue.queue] = queue.end

    def end(self, queue: QueueId = QUEUE) -> int | None:
        return self.ends.get(queue.pack())


async def test_present_state_then_changes():
    async with store_and_client() as (_, client):
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"x", 4)
        seen = Seen()
        watch = client.watch(GROUP, seen)
        watch.add(QUEUE)
        await until(lambda: seen.end() == 4)
        await appender.append(b"y", 1)
        await until(lambda: seen.end() == 5)


async def test_changes_of_one_iteration_are_one_call():
    async with store_and_client() as (_, client):
        seen = Seen()
        client.watch(GROUP, seen).add(QUEUE)
        await until(lambda: seen.end() == 0)
        appender = client.appender(GROUP, QUEUE)
        await asyncio.gather(*(appender.append(b"x", 1) for _ in range(50)))
        await until(lambda: seen.end() == 50)
        assert seen.calls < 20


async def test_removed_queue_is_silent():
    async with store_and_client([QUEUE, OTHER]) as (_, client):
        seen = Seen()
        watch = client.watch(GROUP, seen)
        watch.add(QUEUE)
        watch.add(OTHER)
        await until(lambda: len(seen.ends) == 2)
        watch.remove(QUEUE)
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        await client.appender(GROUP, OTHER).append(b"x", 1)
        await until(lambda: seen.end(OTHER) == 1)
        assert seen.end() == 0


async def test_watch_follows_the_leader():
    async with store_and_client() as (store, client):
        seen = Seen()
        client.watch(GROUP, seen).add(QUEUE)
        await until(lambda: seen.end() == 0)
        store.elect(2)
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        await until(lambda: seen.end() == 1)
        store.elect(3, announce=False)
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        await until(lambda: seen.end() == 2)
        assert len(store.log.watchers) == 1


async def test_reconnect_tells_what_was_missed():
    async with store_and_client() as (store, client):
        seen = Seen()
        watch = client.watch(GROUP, seen)
        watch.add(QUEUE)
        await until(lambda: seen.end() == 0)
        appender = client.appender(GROUP, QUEUE)
        for end in range(1, 4):
            store.leader.cut()
            await appender.append(b"x", 1)
            await until(lambda end=end: seen.end() == end)
        await store.leader.kill()
        await until(lambda: not watch.following)
        store.elect(3)
        await until(lambda: watch.following)


async def test_closed_watch_is_closed_at_the_node():
    async with store_and_client() as (store, client):
        seen = Seen()
        watch = client.watch(GROUP, seen)
        watch.add(QUEUE)
        await until(lambda: seen.end() == 0)
        watch.close()
        await until(lambda: not store.log.watchers)
        await client.appender(GROUP, QUEUE).append(b"x", 1)
        assert seen.end() == 0


async def test_own_appends_are_told_once_they_are_stored():
    async with store_and_client([QUEUE, OTHER]) as (_, client):
        told: list[tuple[bytes, int, bytes]] = []

        def on_append(queue: bytes, receipt: Receipt, batch: bytes) -> None:
            assert not receipt.duplicate
            told.append((queue, receipt.base_offset, batch))

        watch = client.watch(GROUP, Seen(), on_append)
        watch.add(QUEUE)
        appender, other = client.appender(GROUP, QUEUE), client.appender(GROUP, OTHER)
        await asyncio.gather(
            appender.append(b"a", 2),
            appender.append(b"staged", 1, StageExtras(None)),
            other.append(b"elsewhere", 1),
            appender.append(b"b", 1),
        )
        assert told == [(QUEUE.pack(), 0, b"a"), (QUEUE.pack(), 2, b"b")]
        watch.remove(QUEUE)
        watch.add(OTHER)
        await appender.append(b"c", 1)
        await other.append(b"d", 1)
        assert told[2:] == [(OTHER.pack(), 1, b"d")]
        watch.close()
        await other.append(b"e", 1)
        assert len(told) == 3


async def test_an_append_that_is_refused_is_not_told():
    async with store_and_client() as (_, client):
        told: list[bytes] = []
        watch = client.watch(GROUP, Seen(), lambda queue, receipt, batch: told.append(batch))
        watch.add(QUEUE)
        appender = client.appender(GROUP, QUEUE)
        await appender.append(b"x", 1)
        await client.seal(GROUP, QUEUE)
        with pytest.raises(QueueSealed):
            await appender.append(b"y", 1)
        assert told == [b"x"]
