"""Stages messages that become readable together: the outputs of an ack that publishes.

A staged message is as durable as any other and has its id, but no offset before it is released. Its
tag names its ack. If a process dies between staging and the decision, a sweep asks for the tag's
state (`metadata/delivery/publications.py`). Messages are staged before their ack is committed, and
released only after the commit is durable in Postgres.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from appending.chunks import MESSAGE_OVERHEAD_BYTES, chunks, message_bytes
from appending.writer import Batch, Target, Writer
from edge import message_id
from edge.partition import partition_of
from metadata.delivery.deliveries import StagedOutputs
from metadata.types import Topic
from outbox.outbox import TopicFull
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message


class Output(NamedTuple):
    """A message and the topic that it goes to."""

    topic: Topic
    message: Message

    @property
    def size_bytes(self) -> int:
        """Bytes of its texts, which quotas and metering count."""
        return message_bytes(self.message) - MESSAGE_OVERHEAD_BYTES


class Plan(NamedTuple):
    """Outputs with their queues, in order."""

    outputs: Sequence[Output]
    by_target: dict[Target, list[int]]

    def targets(self) -> tuple[StagedOutputs, ...]:
        """Return the queues, before anything is staged."""
        return tuple(StagedOutputs(group, queue.pack()) for group, queue in self.by_target)


class Staged(NamedTuple):
    """Staged messages by queue, with the id of each message in the order planned."""

    places: tuple[StagedOutputs, ...]
    message_ids: list[str]


def plan(outputs: Sequence[Output]) -> Plan:
    """Return a plan: messages go by key, those without one to one partition per topic.

    Raises TopicFull.
    """
    by_target: dict[Target, list[int]] = {}
    spread = os.urandom(8).hex()
    for index, (topic, message) in enumerate(outputs):
        if topic.full is not None:
            raise TopicFull(topic.full, topic.full_detail)
        number = partition_of(spread if message.key is None else message.key, topic.partition_count)
        lane = min(message.priority, topic.priorities - 1)
        (here,) = (p for p in topic.partitions if p.number == number and p.lane == lane)
        queue = QueueId(topic.uid, here.number, here.lane, here.generation)
        by_target.setdefault(Target(here.group, queue), []).append(index)
    return Plan(outputs, by_target)


class Staging:
    """Stages outputs; one per process, used on one event loop."""

    def __init__(
        self,
        store: StoreClient,
        timeout_s: float = 5.0,
        *,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._writer = Writer(store, timeout_s, wall_us=wall_us)

    async def stage(self, planned: Plan, tag: bytes) -> Staged:
        """Stage all outputs of a plan, held until they are released by number.

        Raises StoreError: then some may be staged, and their tag must never be committed.
        """
        message_ids = [""] * len(planned.outputs)
        parts = await asyncio.gather(
            *(
                self._stage(planned, target, indices, tag, message_ids)
                for target, indices in planned.by_target.items()
            ),
            return_exceptions=True,
        )
        places = []
        for part in parts:
            if isinstance(part, BaseException):
                raise part
            places.append(part)
        return Staged(tuple(places), message_ids)

    async def release(self, places: Sequence[StagedOutputs]) -> None:
        """Make staged messages readable, those of one queue in the order staged.

        Raises StoreError; it can be repeated.
        """
        await asyncio.gather(
            *(
                self._store.release(
                    place.group,
                    QueueId.unpack(place.queue),
                    place.numbers,
                    timeout_s=self._timeout_s,
                )
                for place in places
            )
        )

    async def discard(self, places: Sequence[StagedOutputs]) -> None:
        """Discard staged messages, which will never be readable.

        Raises StoreError; it can be repeated.
        """
        await asyncio.gather(
            *(
                self._store.discard(
                    place.group,
                    QueueId.unpack(place.queue),
                    place.numbers,
                    timeout_s=self._timeout_s,
                )
                for place in places
            )
        )

    async def _stage(
        self,
        planned: Plan,
        target: Target,
        indices: Sequence[int],
        tag: bytes,
        message_ids: list[str],
    ) -> StagedOutputs:
        queue = target.queue
        numbers: list[int] = []
        for chunk in chunks(indices, lambda index: planned.outputs[index].message):
            batch = Batch([planned.outputs[index].message for index in chunk])
            receipt = await self._writer.stage(target, batch, tag)
            for at, index in enumerate(chunk):
                number = receipt.base_offset + at
                numbers.append(number)
                message_ids[index] = str(
                    message_id.staged(
                        queue.topic_uid, queue.partition, queue.generation, number, lane=queue.lane
                    )
                )
        return StagedOutputs(target.group, queue.pack(), tuple(numbers))
