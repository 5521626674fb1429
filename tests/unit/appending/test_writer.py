"""Appends and stages for callers that wait, over a queue that a test answers for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from appending import writer as writing
from appending.chunks import chunks
from appending.sender import Name
from appending.writer import Batch, Target, Writer
from edge.partition import partition_of
from store_nodes.client import Receipt
from store_nodes.errors import (
    DedupKnown,
    Known,
    NotDone,
    OutcomeUnknown,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.unit.publish_forwarder.publish_support import FakeQueue, FakeStore, run_ready

UID = bytes(range(16))
HERE = Target(0, QueueId(UID, 0))


def batch(*texts: str, accepted_us: int = 0) -> Batch:
    """Each text is the name of its message as well."""
    names = [Name(at, text.encode().ljust(16), at) for at, text in enumerate(texts)]
    return Batch([Message(text.encode()) for text in texts], names, accepted_us)


class PutCaller:
    """Texts `key:anything`, and where they came to."""

    def __init__(self) -> None:
        self.at: dict[str, tuple[int, int]] = {}
        self.twice: list[str] = []

    def route(self, entry: str) -> str:
        return entry.split(":")[0]

    def batch(self, entries: Sequence[str]) -> Batch:
        return batch(*entries)

    def stored(self, target: Target, entries: Sequence[str], base_offset: int) -> None:
        for offset, entry in enumerate(entries, base_offset):
            self.at[entry] = (target.queue.partition, offset)

    async def known(
        self, target: Target, entries: Sequence[str], known: dict[int, Known]
    ) -> list[str]:
        self.twice += [entries[at] for at in known]
        return [entry for at, entry in enumerate(entries) if at not in known]


def held(store: FakeStore, target: Target = HERE) -> FakeQueue:
    queue = store.appender(*target)
    queue.held = True
    return queue


def texts(queue: FakeQueue) -> list[str]:
    return [message.data.decode() for message in queue.log]


async def begun(*calls: asyncio.Task[Receipt]) -> None:
    await run_ready()
    assert not any(call.done() for call in calls)


def append(writer: Writer, *of: str, accepted_us: int = 0) -> asyncio.Task[Receipt]:
    return asyncio.create_task(writer.append(HERE, batch(*of, accepted_us=accepted_us)))


async def test_what_comes_while_an_append_is_out_goes_in_the_next_and_each_learns_its_place() -> (
    None
):
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    calls = [append(writer, "a"), append(writer, "b", "c"), append(writer, "d")]
    await begun(*calls)
    assert [len(sent.messages) for sent in queue.sent] == [4]
    more = [append(writer, "e"), append(writer, "f")]
    await begun(*calls, *more)
    assert len(queue.sent) == 1
    queue.release()
    assert [receipt.base_offset for receipt in await asyncio.gather(*calls, *more)] == [
        0,
        1,
        3,
        4,
        5,
    ]
    assert (texts(queue), queue.appends) == (list("abcdef"), 2)


async def test_no_append_has_a_name_twice_and_the_second_is_told_of_the_first() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    calls = [append(writer, "a", "b"), append(writer, "c"), append(writer, "x", "b")]
    await begun(*calls)
    assert [len(sent.messages) for sent in queue.sent] == [3]
    queue.release()
    first = await calls[0]
    with pytest.raises(DedupKnown) as known:
        await calls[2]
    assert {at: one.position for at, one in known.value.known.items()} == {1: 1}
    assert (first.base_offset, texts(queue)) == (0, ["a", "b", "c"])


async def test_what_is_known_of_one_batch_keeps_no_other_out() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    queue.held = False
    await append(writer, "a")
    queue.held = True
    calls = [append(writer, "b"), append(writer, "a"), append(writer, "c")]
    await begun(*calls)
    queue.release()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(result, "base_offset", type(result)) for result in results] == [
        1,
        DedupKnown,
        2,
    ]
    assert texts(queue) == ["a", "b", "c"]


async def test_the_time_of_acceptance_is_that_of_every_message_in_an_append() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    calls = [append(writer, "a", accepted_us=5), append(writer, "b", accepted_us=5)]
    calls.append(append(writer, "c", accepted_us=6))
    await begun(*calls)
    assert [len(sent.messages) for sent in queue.sent] == [2]
    queue.release()
    await asyncio.gather(*calls)


async def test_a_cancelled_batch_that_waits_is_not_sent_and_a_sent_one_is_stored() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    sent = append(writer, "sent")
    await begun(sent)
    waits, after = append(writer, "waits"), append(writer, "after")
    await begun(waits, after)
    for call in (sent, waits):
        call.cancel()
    await run_ready()
    queue.release()
    assert (await after).base_offset == 1
    assert texts(queue) == ["sent", "after"]


async def test_only_so_many_batches_wait_for_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING", 2)
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    calls = [append(writer, "a")]
    await begun(*calls)
    calls += [append(writer, "b"), append(writer, "c")]
    await begun(*calls)
    with pytest.raises(Overloaded):
        await append(writer, "d")
    queue.release()
    await asyncio.gather(*calls)
    assert texts(queue) == ["a", "b", "c"]


async def test_stages_go_side_by_side_and_each_has_its_own_tag() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    calls = [
        asyncio.create_task(writer.stage(HERE, Batch([Message(b"x")]), b"tag%d" % n))
        for n in range(writing.STAGES_IN_FLIGHT + 1)
    ]
    await begun(*calls)
    assert len(queue.sent) == writing.STAGES_IN_FLIGHT
    queue.release()
    numbers = [receipt.base_offset for receipt in await asyncio.gather(*calls)]
    assert numbers == list(range(len(calls)))


@pytest.mark.parametrize("error", [Unavailable("no leader"), OutcomeUnknown("silence")])
async def test_what_failed_is_told_at_once_and_is_the_callers_to_repeat(
    error: NotDone | OutcomeUnknown,
) -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    failed = append(writer, "failed")
    await begun(failed)
    after = append(writer, "after")
    await begun(failed, after)
    queue.fail(error)
    with pytest.raises(type(error)):
        await failed
    queue.release()
    await after
    assert texts(queue) == ["after"]


async def test_what_waits_behind_a_silent_append_is_told_at_its_deadline() -> None:
    store = FakeStore()
    queue, writer = held(store), Writer(store, timeout_s=0.3)
    silent = append(writer, "silent")
    await begun(silent)
    with pytest.raises(Unavailable, match="in time"):
        await append(writer, "waits")
    queue.release()
    await silent
    assert texts(queue) == ["silent"]


async def test_before_the_open_queue_sealed_ones_are_asked() -> None:
    store, course = FakeStore(), PutCaller()
    old, gone = Target(1, QueueId(UID, 0, generation=1)), Target(2, QueueId(UID, 1))
    writer = Writer(store)
    await writer.append(old, batch("k:a"))
    store.appender(*old).successors = ((HERE.group, HERE.queue.pack()),)
    store.appender(*gone).refusal = QueueNotFound("gone")
    await writer.put((old, gone, HERE), ["k:b", "k:a", "k:c"], course)
    assert (course.twice, course.at) == (["k:a"], {"k:b": (0, 0), "k:c": (0, 1)})


async def test_a_sealed_queue_leads_on_each_message_by_its_key_and_in_order() -> None:
    store, course = FakeStore(), PutCaller()
    writer = Writer(store)
    of = [QueueId(UID, number, generation=1) for number in range(3)]
    store.appender(*HERE).successors = tuple((q.partition, q.pack()) for q in of)
    last = QueueId(UID, 1, generation=2)
    store.appender(1, of[1]).successors = ((4, last.pack()),)
    entries = [f"k{n % 12}:{n}" for n in range(60)]
    await writer.put((HERE,), entries, course)
    assert {entry: partition for entry, (partition, _) in course.at.items()} == {
        entry: partition_of(entry.split(":")[0], 3) for entry in entries
    }
    found = [texts(store.queues[queue]) for queue in (of[0], last, of[2])]
    for number, stored in enumerate(found):
        assert stored == [e for e in entries if partition_of(e.split(":")[0], 3) == number]
    assert texts(store.queues[of[1]]) == []


async def test_a_queue_that_is_sealed_for_good_and_one_that_leads_back_to_itself_refuse() -> None:
    store = FakeStore()
    writer, queue = Writer(store), store.appender(*HERE)
    queue.successors = ((HERE.group, HERE.queue.pack()),)
    with pytest.raises(Unavailable, match="no end"):
        await writer.put((HERE,), ["k:a"], PutCaller())
    queue.refusal = QueueSealed(0)
    with pytest.raises(QueueSealed):
        await writer.put((HERE,), ["k:a"], PutCaller())


async def test_senders_are_kept_while_anything_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "MAX_SENDERS", 2)
    store = FakeStore()
    queue, writer = held(store), Writer(store)
    call = append(writer, "a")
    await begun(call)
    for number in range(1, 6):
        await writer.append(Target(0, QueueId(UID, number)), batch(f"x{number}"))
    after = append(writer, "b")
    await begun(call, after)
    assert len(queue.sent) == 1, "a second sender to the queue"
    queue.release()
    await asyncio.gather(call, after)


def test_chunks_are_bounded() -> None:
    small = [Message(b"x")] * 2001
    assert [len(chunk) for chunk in chunks(small, lambda m: m)] == [1000, 1000, 1]
    large = [Message(bytes(700_000))] * 3
    assert [len(chunk) for chunk in chunks(large, lambda m: m)] == [1, 1, 1]
    assert list(chunks([], lambda m: m)) == []
