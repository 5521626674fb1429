"""An ack that publishes, step by step, with a staging and rows of publications that are faked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
from msgspec.structs import replace

from edge.problem import Problem
from edge.quota import PUBLISH_MESSAGES, PUBLISH_QUOTAS, PUBLISHED_BYTES, PUBLISHED_MESSAGES
from gateway.configuration.settings import Role
from gateway.quotas.limiter import Limiter
from gateway.wiring.quotas import enforced
from metadata.delivery.deliveries import Publication, StagedOutputs
from metadata.types import CursorKey, CursorUpdate
from outbox import staging
from outbox.staging import Output, Plan, Staged
from store_nodes.errors import QueueSealed
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.api.items import LaneItems, Named
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.delivery import publishing
from subscribe_forwarder.delivery.publishing import AckPublisher, Published
from subscribe_forwarder.delivery.state.lanes import Lane
from tests.unit.publish_forwarder import publish_support
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_following import seek


class Publications(FakeMetadata):
    """Rows of `ack_publications`, and the flush that commits them."""

    def __init__(self) -> None:
        super().__init__(topic(), subscription())
        self.states: dict[bytes, str] = {}
        self.asked = 0

    async def open(self, publications: Sequence[Publication]) -> None:
        self.states.update(dict.fromkeys([p.tag for p in publications], "open"))

    async def released(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            assert self.states.pop(publication.tag) == "committed"

    async def states_of(self, publications: Sequence[Publication]) -> dict[bytes, str]:
        self.asked += 1
        return {p.tag: self.states[p.tag] for p in publications if p.tag in self.states}

    def abort(self) -> None:
        """Set open publications to aborted, as the sweep does."""
        self.states.update({t: "aborted" for t, how in self.states.items() if how == "open"})

    async def flush(self, updates: Sequence[CursorUpdate]) -> dict[CursorKey, int]:
        allowed = [
            update
            for update in updates
            if all(self.states[each.tag] == "open" for each in update.publications)
        ]
        written = await super().flush(allowed)
        for update in allowed:
            if update.key in written:
                self.states.update((each.tag, "committed") for each in update.publications)
        return written


class Staging:
    """Stages and releases in memory; `staged` is set, and `go` awaited, while one stages."""

    def __init__(self) -> None:
        self.released: list[int] = []
        self.sealed = 0
        self.staged = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self._next = 0

    async def stage(self, planned: Plan, tag: bytes) -> Staged:
        self.staged.set()
        await self.go.wait()
        if self.sealed:
            self.sealed -= 1
            raise QueueSealed(0)
        numbers = tuple(range(self._next, self._next + len(planned.outputs)))
        self._next += len(numbers)
        return Staged((StagedOutputs(0, b"queue", numbers),), [f"m{n}" for n in numbers])

    async def release(self, places: Sequence[StagedOutputs]) -> None:
        self.released += [number for place in places for number in place.numbers]


class StagingStore(publish_support.FakeStore):
    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float
    ) -> list[int | None]:
        return list(numbers)


class Bench:
    def __init__(self, w: World, metadata: Publications) -> None:
        self.w = w
        self.metadata = metadata
        self.staging = Staging()
        self.publisher = self.publishing_with(self.staging)
        self.checks = 0

    def publishing_with(self, staging: Any) -> AckPublisher:
        return AckPublisher(staging, self.metadata, self.w.forwarder.flusher)

    async def ack(self, *messages: dict[str, Any]) -> Published:
        reader = self.w.forwarder.reader(SUBSCRIPTION_UID, Lane(0, 0))
        assert reader is not None
        offsets = sorted(message["offset"] for message in messages)
        return await self.publisher.ack(TENANT, reader, offsets, self._read, self._check)

    async def _read(self) -> list[Output]:
        return [Output(topic(), Message(b"output", key="k"))]

    def _check(self) -> None:
        self.checks += 1


@pytest.fixture
async def bench() -> Any:
    metadata = Publications()
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b", b"c")
        yield Bench(w, metadata)


async def test_outputs_take_from_the_publish_rate_and_are_counted(bench: Bench) -> None:
    first, second, *_ = await bench.w.pulled()
    clock, used = [0.0], Counter[str]()
    bench.publisher.quotas = Limiter(PUBLISH_QUOTAS, {PUBLISH_MESSAGES: 1}, lambda: clock[0])
    bench.publisher.usage = cast(Any, Metered(used))
    assert not (await bench.ack(first)).duplicate
    with pytest.raises(Problem) as refused:
        await bench.ack(second)
    assert (refused.value.status, refused.value.extra["quota"]) == (429, PUBLISH_MESSAGES)
    assert bench.staging.released == [0], "nothing of it was done"
    assert (await bench.ack(first)).duplicate, "what was acked before takes nothing"
    clock[0] = 5.0
    assert not (await bench.ack(second)).duplicate
    assert used == {PUBLISHED_MESSAGES: 2, PUBLISHED_BYTES: 2 * len("outputk")}


@pytest.mark.parametrize("fate", ["committed", "released", "aborted"])
async def test_outputs_of_an_ack_whose_caller_goes_away_are_counted_if_it_was_made(
    bench: Bench, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the commit any more, and a sweep releases what it says; the row tells."""
    monkeypatch.setattr(publishing, "ASK_EVERY_S", 0.0)
    used = Counter[str]()
    bench.publisher.usage = cast(Any, Metered(used))
    (first, *_) = await bench.w.pulled()
    bench.metadata.flush_gate = asyncio.Event()
    ack = asyncio.create_task(bench.ack(first))
    while not bench.metadata.flushes:
        await asyncio.sleep(0)
    await gone(ack)
    while bench.metadata.asked < 3:
        await asyncio.sleep(0)
    assert not used, "nobody knows yet"
    if fate == "aborted":
        bench.metadata.abort()
    else:
        bench.metadata.flush_gate.set()
        while "committed" not in bench.metadata.states.values():
            await asyncio.sleep(0)
    if fate == "released":
        bench.metadata.states.clear()
    asked = bench.metadata.asked
    while bench.metadata.asked == asked if fate == "aborted" else not used:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bench.metadata.states or fate == "released"
    assert used == ({} if fate == "aborted" else {PUBLISHED_MESSAGES: 1, PUBLISHED_BYTES: 7})
    bench.metadata.flush_gate.set()


async def test_what_is_not_decided_at_the_end_is_counted(bench: Bench) -> None:
    used = Counter[str]()
    bench.publisher.usage = cast(Any, Metered(used))
    (first, *_) = await bench.w.pulled()
    bench.metadata.flush_gate = asyncio.Event()
    ack = asyncio.create_task(bench.ack(first))
    while not bench.metadata.flushes:
        await asyncio.sleep(0)
    await gone(ack)
    await bench.publisher.close()
    assert used == {PUBLISHED_MESSAGES: 1, PUBLISHED_BYTES: 7}
    bench.metadata.flush_gate.set()


class Metered:
    """Counts what is metered."""

    def __init__(self, used: Counter[str]) -> None:
        self._used = used

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        assert tenant_id == TENANT
        self._used[metric] += int(value)


def test_every_process_that_takes_acks_holds_tenants_to_their_publish_rate() -> None:
    assert set(PUBLISH_QUOTAS) <= set(enforced(Role.SUBSCRIBE))


async def test_outputs_are_released_once_the_ack_is_committed(bench: Bench) -> None:
    (first, *_) = await bench.w.pulled()
    bench.metadata.flush_gate = asyncio.Event()
    ack = asyncio.create_task(bench.ack(first))
    while not bench.metadata.flushes:
        await asyncio.sleep(0)
    assert bench.staging.released == []
    bench.metadata.flush_gate.set()
    assert await ack == Published(["m0"], duplicate=False)
    assert bench.staging.released == [0]
    assert bench.metadata.states == {}
    assert bench.checks == 1
    assert bench.metadata.row().counters.acked == 1


async def test_every_output_of_an_ack_is_staged(bench: Bench) -> None:
    """The staging is that of the product, over a store in memory."""
    store = StagingStore()
    bench.publisher = bench.publishing_with(staging.Staging(store))
    (first, *_) = await bench.w.pulled()
    answer = await bench.ack(first)
    assert len(answer.message_ids) == 1
    (queue,) = store.queues.values()
    assert [message.data for message, _ in queue.staged] == [b"output"]


async def test_an_ack_sent_again_publishes_nothing(bench: Bench) -> None:
    (first, *_) = await bench.w.pulled()
    await bench.ack(first)
    assert await bench.ack(first) == Published([], duplicate=True)
    assert bench.staging.released == [0]


async def test_two_at_once_publish_one_of_them(bench: Bench) -> None:
    (first, *_) = await bench.w.pulled()
    answers = await asyncio.gather(bench.ack(first), bench.ack(first))
    assert sorted(answer.duplicate for answer in answers) == [False, True]
    assert len(bench.staging.released) == 1
    assert list(bench.metadata.states.values()) == ["open"]  # the sweep takes the other back


async def test_what_is_acked_in_part_is_refused_whole(bench: Bench) -> None:
    first, second, _ = await bench.w.pulled()
    await bench.w.ack(first)
    with pytest.raises(Problem) as refused:
        await bench.ack(first, second)
    assert (refused.value.status, refused.value.slug) == (409, "already-acked")
    assert bench.metadata.row().counters.acked == 1
    assert bench.metadata.states == {}


async def test_an_ack_whose_row_was_aborted_is_not_made_and_its_message_comes_again(
    bench: Bench,
) -> None:
    first, second, third = await bench.w.pulled()
    await bench.w.ack(second, third)
    bench.staging.go.clear()
    ack = asyncio.create_task(bench.ack(first))
    await bench.staging.staged.wait()
    while not bench.metadata.states:
        await asyncio.sleep(0)
    bench.metadata.abort()
    bench.staging.go.set()
    with pytest.raises(Problem) as refused:
        await ack
    assert (refused.value.status, refused.value.slug) == (503, "ack-not-durable")
    (again,) = await bench.w.pulled(wait_s=20)
    assert again["offset"] == first["offset"]
    assert bench.staging.released == []
    assert await bench.ack(again) == Published(["m1"], duplicate=False)
    assert bench.metadata.row().counters.acked == 3


async def test_nothing_is_acked_of_a_subscription_that_was_moved_meanwhile(bench: Bench) -> None:
    """The test moves a reader that is reset in its place, and one that is dropped."""
    for reload in (False, True):
        (first, *_) = await bench.w.pulled()
        bench.staging.go.clear()
        bench.staging.staged.clear()
        ack = asyncio.create_task(bench.ack(first))
        await bench.staging.staged.wait()
        moved = seek(bench.w, 0)
        if reload:
            await bench.w.forwarder.reload(moved)
        else:
            reader = bench.w.forwarder.reader(SUBSCRIPTION_UID, Lane(0, 0))
            assert reader is not None
            reader.reset(bench.metadata.row(), reader.cursor.epoch)
        bench.staging.go.set()
        with pytest.raises(Problem) as refused:
            await ack
        assert refused.value.status == 503
        assert bench.metadata.row().counters.acked == 0
        assert [m["offset"] for m in await bench.w.pulled()] == [0, 1, 2]
        await bench.w.forwarder.reload(seek(bench.w, 0))


async def test_a_caller_that_goes_away_leaves_the_ack_whole(bench: Bench) -> None:
    first, second, _ = await bench.w.pulled()
    bench.staging.go.clear()
    ack = asyncio.create_task(bench.ack(first))
    await bench.staging.staged.wait()
    await gone(ack)
    assert list(bench.metadata.states.values()) == ["open"]
    assert bench.metadata.row().counters.acked == 0
    bench.metadata.abort()

    bench.staging.go.set()
    bench.metadata.flush_gate = asyncio.Event()
    flushes = len(bench.metadata.flushes)
    ack = asyncio.create_task(bench.ack(second))
    while len(bench.metadata.flushes) == flushes:
        await asyncio.sleep(0)
    await gone(ack)
    bench.metadata.flush_gate.set()
    assert await bench.ack(second) == Published([], duplicate=True)
    assert bench.metadata.row().counters.acked == 1
    assert sorted(bench.metadata.states.values()) == ["aborted", "committed"]  # for the sweep


async def test_a_queue_that_is_sealed_meanwhile_is_looked_for_again_and_not_for_ever(
    bench: Bench,
) -> None:
    first, second, _ = await bench.w.pulled()
    bench.staging.sealed = 1
    assert await bench.ack(first) == Published(["m0"], duplicate=False)
    bench.staging.sealed = 100
    with pytest.raises(Problem) as refused:
        await bench.ack(second)
    assert refused.value.status == 503
    assert bench.metadata.row().counters.acked == 1


async def test_at_most_once_has_no_acks_that_publish(bench: Bench) -> None:
    """Messages of such a subscription are acked already, so the publication would be a
    duplicate.
    """
    hub = await bench.w.forwarder.hub(TENANT, "reader")
    hub.subscription = replace(hub.subscription, delivery="at_most_once")
    named = Named({Lane(0, 0): [LaneItems([0], [0])]}, [], [])
    acks = TaskAcks(bench.publisher, cast(Any, None))
    with pytest.raises(Problem) as refused:
        await acks.ack(TENANT, hub, hub.readers, named, b"[]", bench.w.forwarder.now)
    assert refused.value.status == 422


async def gone(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
