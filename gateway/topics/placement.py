"""Moving a partition to another group and growing a topic, under load.

    intent in Postgres → each old queue sealed, naming what follows it → each new queue created,
    beginning where the old one ended → one transaction makes the new generations the open ones

Between the seal and the end, publishers to those partitions wait: they are told of the successors
and look the topic up until it has them. So nothing is sealed before every group that must answer
has a leader. Each step can be repeated and leads to the same, by any process, also by several at
once: what a dead process left is taken up by the others within a second or two (`repair`).

A sealed generation keeps its queue until all of it is trimmed, nothing staged is left in it, and
the time in which its ids are known is over; then `repair` deletes queue and row.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import msgspec
import structlog

from gateway.topics.group_choice import GroupChoice
from metadata.errors import MetadataError
from metadata.idle_poll import IdlePoll
from metadata.topics.placements import LaneOf, PlacementRepository
from metadata.types import Partition, Placement, SealedPartition, Topic
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, StoreError, Unavailable
from store_nodes.queue_id import QueueId

REPAIR_EVERY_S = 1.0
COLLECT_EVERY_S = 30.0
STORE_TIMEOUT_S = 5.0
_log = structlog.get_logger("packetboat.placement")


class Mover:
    """Carries placements out. One per process that has the control plane."""

    def __init__(
        self,
        placements: PlacementRepository,
        store: StoreClient,
        choice: GroupChoice,
        version: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Create the part; `version` is that of the change feed; without it `repair` looks
        each second.
        """
        self._poll = IdlePoll(version)
        self._placements = placements
        self._store = store
        self._choice = choice
        self._busy: set[bytes] = set()

    async def move(self, tenant_id: bytes, name: str, partition: int, group: int) -> bool:
        """Return whether the partition has moved by now; False when the rest is left to `repair`.

        Raises NotFound, Conflict, MetadataUnavailable: then nothing is done, now or later.
        """
        started = await self._placements.start_move(tenant_id, name, partition, group)
        return isinstance(started, Topic) or await self._try(started)

    async def grow(self, tenant_id: bytes, name: str, partitions: int) -> bool:
        """Return whether the topic has that many partitions now; raises as `move` does."""
        groups = self._choice.choose(partitions)
        started = await self._placements.start_grow(tenant_id, name, groups)
        return isinstance(started, Topic) or await self._try(started)

    async def carry_out(self, placement: Placement) -> Topic:
        """Carry out a placement from its present step to its end.

        Raises StoreError and MetadataError, alone or in groups; then it is unfinished, or its topic
        is going.
        """
        store, topic = self._store, placement.topic
        for group in sorted({p.group for p in (*placement.sealing, *placement.opening)}):
            if not store.has_leader(group):
                raise Unavailable(f"group {group} has no leader")
        following = successors(placement)
        async with asyncio.TaskGroup() as tasks:
            seals = {
                (sealing.number, sealing.lane): tasks.create_task(
                    store.seal(
                        sealing.group,
                        queue_of(topic.uid, sealing),
                        following[sealing.number, sealing.lane],
                        timeout_s=STORE_TIMEOUT_S,
                    )
                )
                for sealing in placement.sealing
            }
        ends = {place: seal.result() for place, seal in seals.items()}
        async with asyncio.TaskGroup() as tasks:
            for opening in placement.opening:
                tasks.create_task(
                    store.create(
                        opening.group,
                        queue_of(topic.uid, opening),
                        ends.get((opening.number, opening.lane), 0),
                        queue_meta(topic),
                        timeout_s=STORE_TIMEOUT_S,
                    )
                )
        done = await self._placements.finish(placement, ends)
        _log.info(
            "placement done",
            kind=placement.kind,
            topic=topic.name,
            partitions=[p.number for p in placement.opening if not p.lane],
            groups=[p.group for p in placement.opening if not p.lane],
        )
        return done

    async def repair(self) -> None:
        """Runs for the life of the process: finishes what is unfinished, removes what is over."""
        loop = asyncio.get_running_loop()
        collected_s = loop.time()
        while True:
            await asyncio.sleep(REPAIR_EVERY_S)
            try:
                await self._poll.look(self._finish)
                if loop.time() - collected_s >= COLLECT_EVERY_S:
                    collected_s = loop.time()
                    await self.collect()
            except (StoreError, MetadataError) as error:
                _log.info("repair of placements put off", error=str(error))
            except Exception:
                # A fault of ours in one placement must not end the care for all others.
                _log.exception("repair of placements failed")

    async def _finish(self) -> bool:
        """Return whether some placement was unfinished, here or elsewhere."""
        unfinished = await self._placements.unfinished()
        for placement in unfinished:
            if placement.uid not in self._busy:
                await self._try(placement, again=True)
        return bool(unfinished)

    async def collect(self) -> None:
        """Deletes the queues of sealed generations that nobody can want any more."""
        for found in await self._placements.collectable():
            sealed = found.sealed
            queue = queue_of(found.topic_uid, sealed)
            try:
                if (await self._store.staged(sealed.group, queue, limit=1)).staged:
                    continue
                await self._store.delete(sealed.group, queue, timeout_s=STORE_TIMEOUT_S)
            except QueueNotFound:
                pass  # by another process, which died before it could say so
            await self._placements.forget_generation(
                found.tenant_id, found.topic_uid, sealed.number, sealed.lane, sealed.generation
            )
            _log.info("sealed generation removed", queue=str(queue), group=sealed.group)

    async def _try(self, placement: Placement, *, again: bool = False) -> bool:
        """Return whether the placement is finished."""
        self._busy.add(placement.uid)
        done = False
        try:
            await self.carry_out(placement)
            done = True
        except* (StoreError, MetadataError) as errors:
            (_log.debug if again else _log.warning)(
                "placement left to repair",
                kind=placement.kind,
                topic=placement.topic.name,
                errors=str(errors.exceptions),
            )
        finally:
            self._busy.discard(placement.uid)
        return done


def successors(placement: Placement) -> dict[LaneOf, list[tuple[int, QueueId]]]:
    """Return the queues that take the keys of each sealed partition and lane, of the same lane.

    A key of hash h is in partition h mod n before a growth to m partitions, h mod m after: keys of
    p go to those q that equal p modulo the greatest common divisor of n and m.
    """
    uid = placement.topic.uid
    before = placement.topic.partition_count
    after = max(before, len(placement.opening) // placement.topic.priorities)
    step = math.gcd(before, after)
    return {
        (sealing.number, sealing.lane): [
            (opening.group, queue_of(uid, opening))
            for opening in placement.opening
            if opening.lane == sealing.lane and (opening.number - sealing.number) % step == 0
        ]
        for sealing in placement.sealing
    }


def queue_of(topic_uid: bytes, partition: Partition | SealedPartition) -> QueueId:
    """Return the queue of one generation."""
    return QueueId(topic_uid, partition.number, partition.lane, partition.generation)


def queue_meta(topic: Topic) -> bytes:
    """Return the topic's data in the store's listing of queues; the same for all its
    generations.
    """
    return msgspec.msgpack.encode((topic.tenant_id, topic.name))
