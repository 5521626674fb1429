"""Delayed messages of a sealed queue are cancelled or rescheduled while they are forwarded. Each
change that is answered holds, in any order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from unittest.mock import ANY

import msgspec
import pytest

from appending.writer import Writer, successor_of
from edge import message_id
from edge.problem import Problem
from metadata.delivery.due import Progress, QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.types import Partition, SealedPartition, Topic
from outbox import delayed
from publish_forwarder.scheduled import ScheduledMessages
from scheduler.forwarding import Forwarding
from scheduler.pending import StagedQueue
from store_nodes import commands as c
from store_nodes.client import Location, QueueOffsets
from store_nodes.errors import StoreError, Unavailable
from store_nodes.machine.outcomes import StagedChanged
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from tests.unit.publish_forwarder.publish_support import TENANT, FakeCatalog, topic
from tests.unit.scheduler.scheduler_support import FakeAppender, FakeIndex, FakeStore

ORDERS = topic(partitions=2)
OLD = QueueId(ORDERS.uid, 1)
KEY = QueueKey(TENANT, ORDERS.uid, 1, 0, 0)
NEW = (1, OLD._replace(generation=1))
GROWN = (NEW, (0, QueueId(ORDERS.uid, 3)))
"""The queues that follow OLD where its topic grew: one in each group. A change begins with the
last."""
POINTS = ["before the log is asked", "after it was asked, before the copy", "after the copy"]

T = TypeVar("T")


class Api:
    """Call the publish forwarder's handlers, whose catalog knows of no seal yet, or the topic as it
    is given.
    """

    def __init__(self, store: FakeStore, index: FakeIndex, known: Topic | None = None) -> None:
        partitions = (Partition(0, group=0), Partition(1, group=0))
        catalog = FakeCatalog(known or replace(ORDERS, partitions=partitions))
        self._handlers: Any = ScheduledMessages(catalog, ClientStore(store), index)

    async def cancel(self, number: int) -> int:
        return await self._call(self._handlers.cancel, number, b"")

    async def cancel_once(self, number: int) -> int:
        """Return 503 where the store cannot tell, as the edge answers then."""
        try:
            return await self.cancel(number)
        except StoreError:
            return 503

    async def reschedule(self, number: int, after_s: float) -> tuple[int, int]:
        """Return the status, and the earliest time that was asked for."""
        least_us = time.time_ns() // 1000 + int(after_s * 1e6)
        body = msgspec.json.encode({"delay_seconds": after_s})
        return await self._call(self._handlers.reschedule, number, body), least_us

    async def _call(self, handler: Callable[..., Awaitable[None]], number: int, body: bytes) -> int:
        status = 0

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)

        text = str(message_id.staged(ORDERS.uid, 1, 0, number))
        path = {"topic": ORDERS.name, "id": text}
        scope = {"packetboat.tenant": TENANT, "path_params": path, "headers": []}
        try:
            await handler(scope, receive, send)
        except Problem as problem:
            return problem.status
        return status


class ClientStore:
    """The calls of a client that the handlers use."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.appender, self.discard = store.appender, store.discard

    async def reschedule(
        self, group: int, queue: QueueId, numbers: Sequence[int], due_us: Sequence[int]
    ) -> int:
        await self._store._call("reschedule", group)
        command = c.Reschedule(queue.pack(), tuple(numbers), tuple(due_us))
        outcome = self._store.do(group, c.encode(command))
        assert isinstance(outcome, StagedChanged)
        return outcome.changed

    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location:
        return await self._store.locate(group, queue, stage_number)

    async def offsets(self, group: int, queue: QueueId) -> QueueOffsets:
        await self._store._call("offsets", group)
        return self._store._offsets(group, queue.pack())


def sealed_store(
    store: FakeStore,
    count: int = 1,
    due_s: float = 0.0,
    successors: Sequence[tuple[int, QueueId]] = (NEW,),
    keys: Sequence[str] = (),
) -> FakeStore:
    """Put messages into a queue, due after `due_s`, and seal it. Log time is as our clock."""
    store.ahead_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
    store.create(0, OLD)
    keys = keys or [f"k{n}" for n in range(count)]
    messages = [Message(str(n).encode(), key=key) for n, key in enumerate(keys)]
    store.stage(0, OLD, *[due_s] * count, messages=messages)
    end = store.seal(0, OLD, *successors)
    for each in successors:
        store.create(*each, end if each == NEW else 0)
    return store


def key_of(successor: tuple[int, QueueId]) -> str:
    """Return a key whose messages go on to that queue of GROWN."""
    keys = (f"k{n}" for n in itertools.count())
    return next(key for key in keys if successor_of(key, OLD, packed(GROWN)) == successor)


def packed(queues: Sequence[tuple[int, QueueId]]) -> list[tuple[int, bytes]]:
    return [(group, queue.pack()) for group, queue in queues]


async def forward(
    store: FakeStore,
    index: FakeIndex,
    *numbers: int,
    successors: Sequence[tuple[int, QueueId]] = (NEW,),
) -> None:
    forwarding = Forwarding(store, index, timeout_s=1.0)
    queue = StagedQueue(KEY, 0, Progress())
    await forwarding.forward(queue, numbers or [0], packed(successors))


def published(store: FakeStore, *queues: tuple[int, QueueId]) -> list[tuple[int, int]]:
    """Return the number and the time of each copy."""
    return [
        (int(message.data), each.log_time_us)
        for _, queue in queues or (NEW,)
        for each in store.batches.get(queue.pack(), [])
        for message in decode(each.batch)
    ]


def interrupt(
    store: FakeStore, index: FakeIndex, point: str, change: Callable[[], Awaitable[None]]
) -> None:
    """Has `change` happen once, at that point of the forwarding."""
    fetch, record = store.fetch_staged, index.record
    left = [change]

    async def now() -> None:
        while left:
            await left.pop()()

    if point == POINTS[0]:

        async def fetched_before(*args: Any, **more: Any) -> Any:
            found = await fetch(*args, **more)
            await now()
            return found

        store.fetch_staged = fetched_before  # type: ignore[method-assign]
    elif point == POINTS[1]:

        class Late(FakeAppender):
            async def _append(self, *args: Any) -> Any:
                await now()
                return await super()._append(*args)

        store.appender = lambda *target: Late(store, *target)  # type: ignore[method-assign]
    else:

        async def recorded_late(*args: Any) -> None:
            await now()
            await record(*args)

        index.record = recorded_late  # type: ignore[method-assign]


@pytest.mark.parametrize("point", POINTS)
async def test_what_was_cancelled_is_never_published(point: str) -> None:
    store, index, answers = sealed_store(FakeStore()), FakeIndex(), []
    api = Api(store, index)

    async def cancel() -> None:
        answers.extend([await api.cancel(0), await api.cancel(0)])

    interrupt(store, index, point, cancel)
    await forward(store, index)
    await forward(store, index)
    copies = len(published(store))
    assert (answers, copies) == (([409, 409], 1) if point == POINTS[2] else ([204, 204], 0))
    assert await api.cancel(0) == answers[0]
    assert store.where(0, OLD, 0)[0] == "discarded"
    assert (KEY, 0) in index.moved or not copies


@pytest.mark.parametrize("point", POINTS)
async def test_what_was_rescheduled_is_not_published_before_its_new_time(point: str) -> None:
    store, index, answers = sealed_store(FakeStore(), 2), FakeIndex(), []
    api = Api(store, index)

    async def reschedule() -> None:
        answers.append((await api.reschedule(0, 3600))[0])

    interrupt(store, index, point, reschedule)
    await forward(store, index, 0, 1)
    await forward(store, index, 0, 1)
    numbers = [number for number, _ in published(store)]
    assert (answers, numbers) == (([409], [0, 1]) if point == POINTS[2] else ([200], [1]))
    store.ahead_us += 2 * 3600 * 1_000_000
    await forward(store, index, 0)
    assert sorted(number for number, _ in published(store)) == [0, 1]
    assert store.where(0, OLD, 0)[0] == "discarded"


@pytest.mark.parametrize("recorded", [True, False])
async def test_what_is_to_be_sent_at_once_may_be_forwarded_before_that_is_answered(
    recorded: bool,
) -> None:
    """The answer was 409, though the copy was made because of the change."""
    store, index = FakeStore(), FakeIndex()
    sealed_store(store, due_s=3600.0)
    api = Api(store, index)
    record, offsets = index.record, ClientStore.offsets

    async def dies(*_: Any) -> None:
        raise Unavailable("killed here")

    async def forwarded_before(self: ClientStore, *queue: Any) -> QueueOffsets:
        if not published(store):
            if not recorded:
                index.record = dies  # type: ignore[method-assign]
            with contextlib.suppress(StoreError):
                await forward(store, index)
            index.record = record  # type: ignore[method-assign]
        return await offsets(self, *queue)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ClientStore, "offsets", forwarded_before)
        status, least_us = await api.reschedule(0, 0)
    ((number, published_us),) = published(store)
    assert (status, number) == (200, 0)
    assert published_us >= least_us
    assert (KEY, 0) in index.moved
    assert store.where(0, OLD, 0)[0] == "discarded"
    assert await api.cancel(0) == 409


async def test_a_copy_that_a_dead_scheduler_did_not_record_is_recorded_by_who_would_cancel() -> (
    None
):
    store, index = sealed_store(FakeStore(), 2), FakeIndex()
    api = Api(store, index)

    async def dies(*_: Any) -> None:
        raise Unavailable("killed here")

    record, index.record = index.record, dies  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await forward(store, index, 0, 1)
    index.record = record  # type: ignore[method-assign]
    assert await api.cancel(0) == 409
    assert (await api.reschedule(1, 3600))[0] == 409
    assert index.moved == {(KEY, n): Forwarded(n, 1, n) for n in range(2)}
    assert {store.where(0, OLD, n)[0] for n in range(2)} == {"discarded"}
    assert len(published(store)) == 2


async def test_a_change_whose_process_dies_takes_no_message_along() -> None:
    """The process took the turn, and neither changed the message nor discarded its place."""
    store, index = sealed_store(FakeStore()), FakeIndex()
    discard = store.discard

    async def dies(*_: Any, **__: Any) -> int:
        raise Unavailable("killed here")

    store.discard = dies  # type: ignore[method-assign]
    for _ in range(2):
        taken = await delayed.take_turn(Writer(store), store, 0, OLD, 0, was_made=lambda _: False)
        assert taken is None
    assert len(store.machines[1].staged(NEW[1].pack(), -1, 10)) == 2
    store.discard = discard  # type: ignore[method-assign]
    await forward(store, index)
    assert [number for number, _ in published(store)] == [0]
    assert store.machines[1].staged(NEW[1].pack(), -1, 10) == []


async def test_a_turn_is_known_to_later_successors_and_taken_in_each_of_several() -> None:
    """Changes take turns before the successor is sealed as well, and after; messages go to each
    queue that follows it."""
    store, index = sealed_store(FakeStore(), 6), FakeIndex()
    grown = [(n // 2, QueueId(ORDERS.uid, n, generation=2)) for n in (1, 3)]

    async def seal_and_change() -> None:
        assert await api.cancel(0) == 204
        end = store.seal(*NEW, *grown)
        for each in grown:
            store.create(*each, end)
        for number in later:
            assert (await api.reschedule(number, 3600))[0] == 200

    later = range(1, 6)
    api = Api(store, index)
    interrupt(store, index, POINTS[1], seal_and_change)
    await forward(store, index, 0, *later)
    assert published(store, NEW, *grown) == []
    store.ahead_us += 2 * 3600 * 1_000_000
    await forward(store, index, *later)
    assert sorted(number for number, _ in published(store, *grown)) == [*later]
    assert all(published(store, each) for each in grown)


async def test_a_copy_is_found_although_its_turn_was_taken_in_another_group() -> None:
    """A cancel finds the copy of a scheduler that died, takes the turn in the other group, and
    dies too. The group of the sealed queue then knows that turn; the next cancel must not take it
    for one that no copy has."""
    store, index = FakeStore(), FakeIndex()
    sealed_store(store, successors=GROWN, keys=[key_of(NEW)])
    api = Api(store, index)

    async def dies(*_: Any) -> None:
        raise Unavailable("killed here")

    record, index.record = index.record, dies  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await forward(store, index, successors=GROWN)
    with pytest.raises(StoreError):
        await api.cancel(0)
    index.record = record  # type: ignore[method-assign]
    assert await api.cancel(0) == 409
    assert published(store) == [(0, ANY)]


async def test_a_turn_that_was_taken_in_another_group_is_still_taken_in_this_one() -> None:
    """A change that dies has taken the turn in one group, when a scheduler that has asked the log
    before is about to copy the message to the other."""
    store, index, answers = FakeStore(), FakeIndex(), []
    sealed_store(store, successors=GROWN, keys=[key_of(NEW)])
    api = Api(store, index)

    async def change_and_cancel() -> None:
        store.down.add(NEW[0])
        with pytest.raises(StoreError):
            await api.reschedule(0, 3600)
        store.down.clear()
        answers.append(await api.cancel(0))

    interrupt(store, index, POINTS[1], change_and_cancel)
    await forward(store, index, successors=GROWN)
    assert answers == [204]
    assert published(store, *GROWN) == []


async def test_a_copy_is_found_under_a_later_turn_in_a_queue_that_was_sealed_after_it() -> None:
    """The turn before it was taken in the other group, so the sealed queue gave none under it."""
    store, index = sealed_store(FakeStore()), FakeIndex()
    api = Api(store, index)
    assert (await api.reschedule(0, 0))[0] == 200
    second, third = (0, OLD._replace(generation=2)), (1, OLD._replace(generation=3))
    store.create(*second, store.seal(*NEW, second))

    async def dies(*_: Any) -> None:
        raise Unavailable("killed here")

    record, index.record = index.record, dies  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await forward(store, index)
    index.record = record  # type: ignore[method-assign]
    store.create(*third, store.seal(*second, third))
    assert await api.cancel(0) == 409
    assert published(store, NEW, second, third) == [(0, ANY)]


@pytest.mark.parametrize("groups", [1, 2])
async def test_over_many_growths_each_queue_is_tried_once_for_a_turn(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue before a growth leads on to all that follow: there are 6! ways to the last."""
    store, index = FakeStore(), FakeIndex()
    store.create(0, OLD)
    store.stage(0, OLD, 0.0, 0.0, messages=[Message(b"0"), Message(b"1")])
    store.seal(0, OLD, NEW)
    store.create(*NEW)
    layers = [[(0, OLD)], [NEW]]
    for size in range(2, 7):
        layers.append([(n % groups, QueueId(ORDERS.uid, n, generation=size)) for n in range(size)])
        for sealed in layers[-2]:
            store.seal(*sealed, *layers[-1])
        for each in layers[-1]:
            store.create(*each)
    tried: list[object] = []
    original = Writer.stage

    async def stage(self: Writer, target: Any, *arguments: Any) -> Any:
        tried.append(target)
        return await original(self, target, *arguments)

    monkeypatch.setattr(Writer, "stage", stage)
    interrupt(store, index, POINTS[1], lambda: Api(store, index).cancel(0))
    await forward(store, index, 0, 1)
    assert sorted(tried) == sorted(each for layer in layers for each in layer)
    assert [number for number, _ in published(store, *layers[-1])] == [1]


async def test_a_successor_that_is_not_made_yet_is_not_passed_over() -> None:
    """Sealed, and the successor comes in a moment: who cancels can't be told that it is done."""
    store, index = FakeStore(), FakeIndex()
    store.create(0, OLD)
    store.stage(0, OLD, 0.0)
    end = store.seal(0, OLD, NEW)
    api = Api(store, index)
    with pytest.raises(StoreError):
        await api.cancel(0)
    store.create(*NEW, end)
    assert await api.cancel(0) == 204


async def test_a_cancel_that_is_asked_again_waits_for_a_successor_that_is_not_made_yet() -> None:
    """The first answer was 503, the second was 204, though the scheduler had asked the log before
    both and copied the message once the successor was there."""
    store, index = FakeStore(), FakeIndex()
    store.create(0, OLD)
    store.stage(0, OLD, 0.0, messages=[Message(b"0")])
    end = store.seal(0, OLD, NEW)
    api, answers = Api(store, index), []

    async def cancel_twice() -> None:
        answers.extend([await api.cancel_once(0), await api.cancel_once(0)])
        store.create(*NEW, end)

    interrupt(store, index, POINTS[1], cancel_twice)
    await forward(store, index)
    assert published(store) == [(0, ANY)]
    assert [*answers, await api.cancel_once(0)] == [503, 503, 409]


async def test_a_cancel_that_is_asked_again_waits_for_no_successor_that_was_deleted() -> None:
    """A deleted queue takes no copy. A catalog that knows a later generation tells that it is
    deleted; one that does not must not be taken to say so."""
    store, index = sealed_store(FakeStore()), FakeIndex()
    assert await Api(store, index).cancel(0) == 204
    latest = Partition(1, group=0, generation=2)
    end = store.seal(*NEW, (0, OLD._replace(generation=2)))
    store.create(0, OLD._replace(generation=2), end)
    await store.delete(*NEW)
    sealed = SealedPartition(1, 0, 0, 0, base=0, sealed_at=end, sealed_time_us=0, of_partitions=2)
    moved = replace(ORDERS, partitions=(Partition(0, group=0), latest), sealed=(sealed,))
    assert await Api(store, index, moved).cancel_once(0) == 204
    assert await Api(store, index).cancel_once(0) == 503


async def test_a_change_is_as_short_after_a_hundred_others() -> None:
    """Each try of a change takes a turn. When the next one asked for each of these by a call of its
    own, tries beside faults became ever longer, and none came to its end."""
    store, index = Chaotic(), FakeIndex()
    sealed_store(store, successors=GROWN, due_s=3600.0)
    store.dice = random.Random(1)
    api = Api(store, index)
    for _ in range(100):
        assert (await api.reschedule(0, 3600))[0] == 200
    store.calls.clear()
    assert (await api.reschedule(0, 3600))[0] == 200
    assert store.calls["stage"] <= 20
    store.faults = 0.1
    answers = [await api.cancel_once(0) for _ in range(100)]
    assert answers.count(204) >= 5
    store.faults = 0.0
    assert await api.cancel(0) == 204
    for group, queue in GROWN:
        assert store.machines[group].staged(queue.pack(), -1, 10) == []


def test_names_and_turns_are_frozen() -> None:
    """Logs have both. The name is the one that 0.2.0 gives a copy."""
    queue = QueueId(bytes(range(16)), 3, 1, 2)
    name, turn = c.DEDUP_ENTRY.iter_unpack(delayed.copy_ids(5, queue, 77, 1))
    assert name == (5, bytes.fromhex("1868b516362990b4a0b6345d8ea77e86"), 13010944635759323160)
    assert turn == (5, bytes.fromhex("c71bb4c526a145cda994f0db517a2956"), 14791405739066006471)


class Chaotic(FakeStore):
    """Everything takes a random while, and this share of calls (`faults`) fails."""

    dice: random.Random
    faults: float = 0.0

    async def _call(self, name: str, group: int) -> None:
        for _ in range(self.dice.choice((0, 0, 1, 2, 5, 9))):
            await asyncio.sleep(0)
        if self.dice.random() < self.faults:
            raise Unavailable("a random fault")
        await super()._call(name, group)

    def appender(self, group: int, queue: QueueId) -> FakeAppender:
        store = self

        class Slow(FakeAppender):
            async def _append(self, *args: Any) -> Any:
                await store._call("append", group)
                return await super()._append(*args)

        return Slow(self, group, queue)


class Forgetful(FakeIndex):
    """A share of the rows is not written."""

    def __init__(self, dice: random.Random, faults: float) -> None:
        super().__init__()
        self._dice, self._faults = dice, faults

    async def record(self, *args: Any) -> None:
        if self._dice.random() < self._faults:
            raise Unavailable("a random fault")
        await super().record(*args)


async def until_known(call: Callable[[], Awaitable[T]]) -> T:
    """Again and again, as a client whose call may or may not have been done."""
    while True:
        with contextlib.suppress(StoreError):
            return await call()


@pytest.mark.parametrize("faults", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(25))
async def test_schedulers_and_changes_at_random(seed: int, faults: float) -> None:
    """Two schedulers, changes of every message one after the other: each message is published once
    or was cancelled, and at no other time than the last change says."""
    dice, count = random.Random(seed), 12
    store, index = Chaotic(), Forgetful(dice, faults)
    store.dice, store.faults = dice, faults
    successors = GROWN if seed % 2 else (NEW,)
    sealed_store(store, count, successors=successors)
    api = Api(store, index)
    cancelled: set[int] = set()
    not_before_us = dict.fromkeys(range(count), 0)

    async def change(number: int) -> None:
        for _ in range(dice.randrange(4)):
            for _ in range(dice.randrange(30)):
                await asyncio.sleep(0)
            if dice.random() < 0.4:
                if await until_known(lambda: api.cancel(number)) == 204:
                    cancelled.add(number)
                continue
            after_s, first_us = dice.choice((0, 0.005, 0.02, 60)), time.time_ns() // 1000
            status, least_us = await until_known(partial(api.reschedule, number, after_s))
            if status == 200:
                assert number not in cancelled
                not_before_us[number] = least_us
            else:  # published: as it was before the change, or already as it is after it
                first_us += int(after_s * 1e6)
                not_before_us[number] = min(not_before_us[number], first_us)

    async def schedule() -> None:
        for _ in range(40):
            some = sorted(dice.sample(range(count), dice.randrange(1, count)))
            with contextlib.suppress(StoreError):
                await forward(store, index, *some, successors=successors)
            await asyncio.sleep(dice.choice((0, 0.001)))

    await asyncio.gather(*(change(number) for number in range(count)), schedule(), schedule())
    store.ahead_us += 120 * 1_000_000
    await until_known(lambda: forward(store, index, *range(count), successors=successors))
    copies = published(store, *successors)
    assert sorted(number for number, _ in copies) == sorted(set(range(count)) - cancelled)
    for number, at_us in copies:
        assert at_us >= not_before_us[number]
    if not faults:
        assert {number for _, number in index.moved} == {number for number, _ in copies}
        for group, queue in successors:
            assert store.machines[group].staged(queue.pack(), -1, 10) == []
