"""A breaker before each group: what only a leader can do is refused while none answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edge.breaker import State
from gateway.breakers import GROUP, GroupBreakers
from store_nodes.client import StoreClient
from store_nodes.errors import QueueSealed, Unavailable
from tests.unit.store_client.store_client_support import GROUP as NUMBER
from tests.unit.store_client.store_client_support import QUEUE, FakeStore, until


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class World:
    def __init__(self, store: FakeStore, client: StoreClient, guard: GroupBreakers) -> None:
        self.store, self.client, self.guard = store, client, guard
        self.clock = Clock()

    async def go_silent(self) -> asyncio.Future[object]:
        """A call waits for longer than is reasonable, and that is seen."""
        waiting = asyncio.ensure_future(self.client.seal(NUMBER, QUEUE, timeout_s=30))
        await asyncio.sleep(0.05)
        self.clock.now_s += GROUP.silent_s + 0.1
        assert self.client.admits(NUMBER)
        self.clock.now_s += 0.1
        assert not self.client.admits(NUMBER)
        assert self.guard.of(NUMBER).breaker.state is State.OPEN
        return waiting


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store, clock = FakeStore(), Clock()
    await store.start()
    guard = GroupBreakers(clock)
    client = store.client(guard_of=guard.of)
    await client.start()
    await client.wait_ready(5)
    await client.create(NUMBER, QUEUE)
    world = World(store, client, guard)
    world.clock = clock
    yield world
    await client.close()
    await store.close()


async def without_leader(world: World) -> None:
    world.store.elect(None)
    await until(lambda: not world.client.has_leader(NUMBER))


async def test_a_group_without_a_leader_is_not_waited_for_and_comes_back_at_once(
    world: World,
) -> None:
    await without_leader(world)
    waiting = await world.go_silent()
    async with asyncio.timeout(2):
        with pytest.raises(Unavailable, match="not answered"):
            await world.client.offsets(NUMBER, QUEUE, timeout_s=60)
    world.store.elect(2)
    await waiting
    await world.client.offsets(NUMBER, QUEUE)
    assert world.guard.of(NUMBER).breaker.state is State.CLOSED


async def test_a_leader_that_never_answers_is_tried_now_and_then(world: World) -> None:
    mute = True
    world.store.leader.intercept = lambda node, group, raw, reply: mute
    waiting = await world.go_silent()
    sent = len(world.store.leader.commands)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await world.client.delete(NUMBER, QUEUE)
    assert len(world.store.leader.commands) == sent
    mute = False
    world.clock.now_s += GROUP.open_most_s
    await world.client.delete(NUMBER, QUEUE)  # the try
    assert world.guard.of(NUMBER).breaker.state is State.CLOSED
    waiting.cancel()


async def test_replicas_and_appends_are_not_held_up(world: World) -> None:
    await world.client.appender(NUMBER, QUEUE).append(b"a", 1)
    await without_leader(world)
    waiting = await world.go_silent()
    waiting.cancel()
    assert (await world.client.fetch(NUMBER, QUEUE, 0, 1000)).entries
    appending = asyncio.ensure_future(world.client.appender(NUMBER, QUEUE).append(b"b", 1))
    await asyncio.sleep(0.05)
    assert not appending.done()
    world.store.elect(3)
    assert (await appending).base_offset == 1


async def test_other_groups_have_their_own(world: World) -> None:
    world.store.add_group(7)
    await until(lambda: world.client.has_leader(7))
    await without_leader(world)
    waiting = await world.go_silent()
    waiting.cancel()
    assert world.client.admits(7)


async def test_a_refusal_is_an_answer(world: World) -> None:
    await world.client.seal(NUMBER, QUEUE)
    for _ in range(GROUP.failures + 1):
        with pytest.raises(QueueSealed):
            await world.client.appender(NUMBER, QUEUE).append(b"a", 1)
    assert world.guard.of(NUMBER).breaker.state is State.CLOSED


async def test_failures_that_took_no_time_do_not_count(world: World) -> None:
    await without_leader(world)
    for _ in range(GROUP.failures + 1):
        with pytest.raises(Unavailable):
            await world.client.seal(NUMBER, QUEUE, timeout_s=0.01)
    assert world.guard.of(NUMBER).breaker.state is State.CLOSED


async def test_slow_failures_in_a_row_open_it(world: World) -> None:
    await without_leader(world)
    for _ in range(GROUP.failures):
        call = asyncio.ensure_future(world.client.seal(NUMBER, QUEUE, timeout_s=0.1))
        await asyncio.sleep(0.01)
        world.clock.now_s += 3.5
        await asyncio.gather(call, return_exceptions=True)
    assert world.guard.of(NUMBER).breaker.state is State.OPEN


async def test_a_leader_that_is_heard_of_is_reason_enough(world: World) -> None:
    """Nothing waits whose answer could tell, and no time for a try has come."""
    await without_leader(world)
    waiting = await world.go_silent()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not world.client.admits(NUMBER)
    world.store.elect(2)
    await until(lambda: world.client.has_leader(NUMBER))
    assert world.guard.of(NUMBER).breaker.state is State.CLOSED
    assert world.client.admits(NUMBER)
