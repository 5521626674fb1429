"""The listing of delayed messages: complete, paged, and bounded in what it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edge import message_id
from edge.problem import Problem
from gateway.topics import delayed
from gateway.topics.delayed import StagedPosition, delayed_page
from metadata.types import SealedPartition
from openapi.topics import DelayedMessage
from store_nodes import record_batch
from store_nodes.client import StagedEntry, StagedPage
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import StagedInfo
from tests.unit.publish_forwarder.publish_support import topic

TOPIC = topic(partitions=2, priorities=1)
TIME_US = 1_700_000_000_000_000


class Store:
    """Staged batches by partition and generation; each message is due, or None: it has no time."""

    def __init__(self) -> None:
        self.batches: dict[tuple[int, int], list[tuple[list[Message], list[int | None]]]] = {}
        self.gone: set[tuple[int, int, int]] = set()
        self.fetches = 0

    def stage(self, partition: int, *keys: str, generation: int = 0, timed: bool = True) -> None:
        messages = [Message(b"body", "text/plain", key) for key in keys]
        due = [TIME_US + number if timed else None for number in range(len(keys))]
        self.batches.setdefault((partition, generation), []).append((messages, due))

    async def staged(
        self, group: int, queue: QueueId, after: int = -1, limit: int = 1000
    ) -> StagedPage:
        place = queue.partition, queue.generation
        if queue.generation and place not in self.batches:
            raise QueueNotFound(str(queue))
        due = [at for _, times in self.batches.get(place, []) for at in times]
        rows = [
            StagedInfo(number, at, TIME_US)
            for number, at in enumerate(due)
            if number > after and (*place, number) not in self.gone
        ]
        return StagedPage(tuple(rows[:limit]), 0, False)

    async def fetch_staged(
        self, group: int, queue: QueueId, stage_number: int, max_bytes: int
    ) -> list[StagedEntry]:
        self.fetches += 1
        base = 0
        for messages, _ in self.batches.get((queue.partition, queue.generation), []):
            if base + len(messages) > stage_number:
                raw = memoryview(record_batch.encode(messages, TIME_US))
                return [StagedEntry(base, len(messages), TIME_US, raw)]
            base += len(messages)
        return []


async def every(store: Store, size: int, of: Any = TOPIC) -> list[DelayedMessage]:
    found: list[DelayedMessage] = []
    start: StagedPosition | None = None
    while True:
        page, then = await delayed_page(store, of, size, start)
        assert len(page) <= size
        found += page
        if then is None:
            return found
        start = delayed._place_of(str(then))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_pages_have_each_message_once(size: int) -> None:
    store = Store()
    store.stage(0, "a", "b")
    store.stage(0, "c")
    store.stage(1, "d", "e", "f")
    found = await every(store, size)
    assert [one.key for one in found] == ["a", "b", "c", "d", "e", "f"]
    third = message_id.parse(found[2].message_id)
    assert (third.form, third.partition, third.stage_number) == (message_id.FORM_STAGE, 0, 2)
    assert found[0] == DelayedMessage(
        message_id=found[0].message_id,
        partition=0,
        key="a",
        scheduled_for="2023-11-14T22:13:20.000000Z",
        accepted_time="2023-11-14T22:13:20.000000Z",
        content_type="text/plain",
        size_bytes=4,
        priority=0,
    )


async def test_what_is_staged_without_a_time_or_gone_is_not_listed() -> None:
    store = Store()
    store.stage(0, "a", "b", "c")
    store.stage(0, "of an ack", timed=False)
    store.stage(0, "d")
    store.gone = {(0, 0, 1)}
    assert [one.key for one in await every(store, 2)] == ["a", "c", "d"]


async def test_sealed_queues_are_listed_too_and_one_that_is_gone_ends_nothing() -> None:
    sealed = [SealedPartition(0, 0, 0, generation, 0, 9, 0, 2) for generation in (1, 2)]
    moved = replace(TOPIC, sealed=tuple(sealed))
    store = Store()
    store.stage(0, "old", generation=2)
    store.stage(1, "new")
    assert [one.key for one in await every(store, 1, moved)] == ["old", "new"]


async def test_a_page_ends_where_it_has_read_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed, "MAX_FETCHED_BYTES", 1)
    store = Store()
    for key in "abc":
        store.stage(0, key)
    page, then = await delayed_page(store, TOPIC, 100)
    assert ([one.key for one in page], store.fetches) == (["a"], 1)
    assert then is not None
    assert [one.key for one in await every(store, 100)] == ["a", "b", "c"]


@pytest.mark.parametrize("token", ["x", "1.2.3", "1.2.3.4.5", "-1.0.0.0", "9" * 400])
def test_a_token_of_another_listing_is_400(token: str) -> None:
    with pytest.raises(Problem) as refused:
        delayed._place_of(token)
    assert refused.value.status == 400
