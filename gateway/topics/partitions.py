"""Control plane of a topic's partitions: list, grow, move."""

from __future__ import annotations

import asyncio

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, tenant_of
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.http.decoding import read_json
from gateway.topics.bodies import queue_errors
from gateway.topics.placement import Mover, queue_of
from metadata.errors import Conflict, NotFound
from metadata.topics.placements import PlacementRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Partition, Placement, SealedPartition, Topic, TopicState
from openapi import topics as contract
from store_nodes.client import QueueOffsets, StoreClient
from store_nodes.errors import QueueNotFound, StoreError

ASK_TIMEOUT_S = 2.0


class PartitionRoutes:
    """Handle the operations on partitions; Mover makes changes in Postgres and the store."""

    def __init__(
        self,
        topics: TopicRepository,
        placements: PlacementRepository,
        store: StoreClient,
        mover: Mover,
    ) -> None:
        self._topics = topics
        self._placements = placements
        self._store = store
        self._mover = mover

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listPartitions"], self.listing),
            Route(contract.OPERATIONS["growTopic"], self.grow),
            Route(contract.OPERATIONS["movePartition"], self.move),
        ]

    async def listing(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(scope, send, 200)

    async def grow(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 for a finished change, 202 for one that goes on."""
        body = await read_json(scope, receive, contract.TopicGrow)
        name = path_param(scope, "topic")
        topic = await self._topics.get(tenant_of(scope), name)
        errors = queue_errors(body.partitions, topic.priorities)
        if errors:
            raise invalid("The body does not fit.", errors)
        try:
            done = await self._mover.grow(tenant_of(scope), name, body.partitions)
        except Conflict as error:
            existing = error.existing
            if isinstance(existing, Topic) and existing.partition_count > body.partitions:
                count = existing.partition_count
                raise invalid(
                    "A topic only grows.",
                    [FieldError("partitions", f"at least the {count} there are")],
                ) from error
            raise _in_progress(name) from error
        await self._respond(scope, send, 200 if done else 202)

    async def move(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 for a finished change, 202 for one that goes on."""
        body = await read_json(scope, receive, contract.PartitionMove)
        name, number = path_param(scope, "topic"), path_param(scope, "partition")
        if body.group not in self._store.groups:
            known = f"a group of the store: 0 to {max(self._store.groups)}"
            raise invalid("The body does not fit.", [FieldError("group", known)])
        if not (number.isascii() and number.isdecimal() and len(number) <= 4):
            raise not_found("partition", number)
        try:
            done = await self._mover.move(tenant_of(scope), name, int(number), body.group)
        except Conflict as error:
            raise _in_progress(name) from error
        await self._respond(scope, send, 200 if done else 202)

    async def _respond(self, scope: Scope, send: Send, status: int) -> None:
        tenant_id, name = tenant_of(scope), path_param(scope, "topic")
        topic = await self._topics.get(tenant_id, name)
        if topic.state is not TopicState.ACTIVE:
            raise NotFound("topic", name)
        placement = await self._placements.get(tenant_id, topic.uid)
        generations = [
            generation
            for partition in topic.partitions
            for generation in topic.generations(partition.number, partition.lane)
        ]
        rows = await asyncio.gather(*(self._row(topic, each) for each in generations))
        body = contract.Partitions(rows, None if placement is None else view(placement))
        await respond(send, status, msgspec.json.encode(body))

    async def _row(
        self, topic: Topic, generation: SealedPartition | Partition
    ) -> contract.PartitionGeneration:
        """Return a generation; its numbers are null where the group does not answer now."""
        found: QueueOffsets | None = None
        try:
            queue = queue_of(topic.uid, generation)
            found = await self._store.offsets(generation.group, queue, timeout_s=ASK_TIMEOUT_S)
        except QueueNotFound:
            pass  # sealed, and being removed
        except StoreError:
            pass
        return contract.PartitionGeneration(
            partition=generation.number,
            lane=generation.lane,
            generation=generation.generation,
            group=generation.group,
            state="sealed" if isinstance(generation, SealedPartition) else "open",
            base=generation.base,
            first=None if found is None else found.first,
            end=None if found is None else found.end,
            stored_bytes=None if found is None else found.stored_bytes,
        )


def view(placement: Placement) -> contract.Placement:
    """Return an unfinished placement as the API shows it."""
    opening = [partition for partition in placement.opening if not partition.lane]
    return contract.Placement(
        kind=placement.kind,
        partitions=[partition.number for partition in opening],
        groups=[partition.group for partition in opening],
    )


def _in_progress(topic: str) -> Problem:
    return Problem.of(
        "placement-in-progress",
        f"Another move or growth of the topic {topic!r} is not finished; ask again when it is.",
        retry_after_s=1.0,
    )
