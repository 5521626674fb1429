"""Watches: the present state, then changes; over reconnects and leader changes."""

from __future__ import annotations

import asyncio

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
