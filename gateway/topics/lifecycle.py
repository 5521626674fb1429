"""Making and removing a topic: an intent in Postgres, the queues in the store, the end in Postgres.

Each step is idempotent and the intent is durable first, so an unfinished topic can be finished: by
the caller, who repeats its request, or by `repair`, which any gateway process runs.

    create: row `creating` → every queue created → row `active` → 201
    delete: row `deleting` (name free, subscriptions gone) → queues sealed, deleted → row gone

A topic's queues are those of all its generations, and those that an unfinished placement may yet
create: deleting a queue that never was keeps it from ever being.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from gateway.resources import taken
from gateway.topics.bodies import spec_of
from gateway.topics.group_choice import GroupChoice
from gateway.topics.placement import STORE_TIMEOUT_S, queue_meta, queue_of
from metadata.catalog import Catalog
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.topics.placements import PlacementRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Partition, SealedPartition, Topic, TopicSpec, TopicState
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError

REPAIR_AFTER_S = 60.0
LOOKS = 4
"""Searches for unfinished topics in that time."""
QUEUES_AT_ONCE = 256
T = TypeVar("T")
_log = structlog.get_logger("packetboat.topics")


class TopicLifecycle:
    """Makes and removes topics; their partitions go to groups of `choice`. A topic that nobody has
    touched for `repair_after_s` is taken over: a creation that takes longer is undone, and its
    caller told so."""

    def __init__(
        self,
        topics: TopicRepository,
        catalog: Catalog,
        placements: PlacementRepository,
        store: StoreClient,
        choice: GroupChoice,
        *,
        repair_after_s: float = REPAIR_AFTER_S,
    ) -> None:
        self._topics = topics
        self._catalog = catalog
        self._placements = placements
        self._store = store
        self._choice = choice
        self._repair_after_s = repair_after_s

    async def create(self, tenant_id: bytes, spec: TopicSpec, partitions: int) -> Topic:
        """Return the active topic; a repeat finishes an interrupted creation. Raise a 409 Problem
        if the name is taken, and NotFound of its schema."""
        try:
            topic = await self._topics.create(tenant_id, spec, self._choice.choose(partitions))
        except Conflict as error:
            existing = error.existing
            if not isinstance(existing, Topic) or not _resumable(existing, spec, partitions):
                raise taken("topic")(spec.name) from error
            topic = existing
        for some in _slices(topic.partitions):
            async with asyncio.TaskGroup() as tasks:
                for partition in some:
                    tasks.create_task(self._create_queue(topic, partition))
        try:
            active = await self._catalog.made(topic, self._topics.finish)
            return active or await self._topics.get_by_uid(tenant_id, topic.uid)
        except NotFound as error:
            raise taken("topic")(spec.name) from error

    async def delete(self, tenant_id: bytes, name: str, if_version: int | None) -> None:
        """Once the intent is committed the name is free; `repair` finishes what fails after."""
        topic = await self._topics.mark_deleting(tenant_id, name, if_version=if_version)
        try:
            await self._finish_delete(topic)
        except* (StoreError, MetadataError) as errors:
            _log.warning("topic delete left to repair", topic=name, errors=str(errors.exceptions))

    async def repair(self) -> None:
        """Runs for the life of the process; a topic whose creation was given up is removed."""
        while True:
            await asyncio.sleep(self._repair_after_s / LOOKS)
            try:
                await self._repair_once()
            except* (StoreError, MetadataError) as errors:
                _log.info("repair of topics put off", errors=str(errors.exceptions))

    async def _repair_once(self) -> None:
        for topic in await self._topics.unfinished(older_than_s=self._repair_after_s):
            if topic.state is TopicState.CREATING:
                if await self._was_used(topic):
                    await self._topics.activate(topic.tenant_id, topic.uid)
                    continue
                topic = await self._topics.mark_deleting(
                    topic.tenant_id, topic.name, if_version=topic.version
                )
            await self._finish_delete(topic)
            _log.info("unfinished topic removed", topic=topic.name, uid=topic.uid.hex())

    async def _was_used(self, topic: Topic) -> bool:
        """Return whether it was published to: then it was active once, and Postgres forgot that."""
        for some in _slices(topic.partitions):
            async with asyncio.TaskGroup() as tasks:
                used = [tasks.create_task(self._holds(topic, partition)) for partition in some]
            if any(each.result() for each in used):
                return True
        return False

    async def _holds(self, topic: Topic, partition: Partition) -> bool:
        try:
            found = await self._store.offsets(
                partition.group, queue_of(topic.uid, partition), timeout_s=STORE_TIMEOUT_S
            )
        except QueueNotFound:
            return False
        return found.end > 0 or found.stage_end > 0

    async def _finish_delete(self, topic: Topic) -> None:
        placement = await self._placements.get(topic.tenant_id, topic.uid)
        generations: list[Partition | SealedPartition] = [*topic.partitions, *topic.sealed]
        if placement is not None:
            generations += placement.opening
        for some in _slices(generations):
            async with asyncio.TaskGroup() as tasks:
                for generation in some:
                    tasks.create_task(self._delete_queue(topic, generation))
        await self._topics.remove(topic.tenant_id, topic.uid)

    async def _create_queue(self, topic: Topic, partition: Partition) -> None:
        await self._store.create(
            partition.group,
            queue_of(topic.uid, partition),
            partition.base,
            queue_meta(topic),
            timeout_s=STORE_TIMEOUT_S,
        )

    async def _delete_queue(self, topic: Topic, partition: Partition | SealedPartition) -> None:
        queue = queue_of(topic.uid, partition)
        # Not found: never created, or deleted by an earlier try. Sealed: by a placement.
        with suppress(QueueNotFound, QueueSealed):
            await self._store.seal(partition.group, queue, timeout_s=STORE_TIMEOUT_S)
        with suppress(QueueNotFound):
            await self._store.delete(partition.group, queue, timeout_s=STORE_TIMEOUT_S)


def _resumable(existing: Topic, spec: TopicSpec, partitions: int) -> bool:
    return (
        existing.state is TopicState.CREATING
        and existing.partition_count == partitions
        and spec_of(existing) == spec
    )


def _slices(queues: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return few enough at a time that none of them waits out its timeout behind the others."""
    for at in range(0, len(queues), QUEUES_AT_ONCE):
        yield queues[at : at + QUEUES_AT_ONCE]
