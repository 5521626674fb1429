"""The repair of a Postgres that went back in time, from what the store has.

    topics made and deleted meanwhile → placements played again → floors lifted → what is orphaned

Nothing is deleted in the store, but for topics whose deletion had begun. Every step can be
repeated, and leads to the same. Publishers go on meanwhile: they have what they need in their
caches, and from the queues themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from edge import failpoints
from gateway.recovery.history import Found, Queues, Step, first_offset, is_deleted, next_step
from gateway.topics.placement import STORE_TIMEOUT_S, queue_meta, queue_of, successors
from metadata.database import Database
from metadata.eras import Lift
from metadata.errors import NotFound
from metadata.recovery import Reach, RecoveryRepository
from metadata.topics.placements import LaneOf, PlacementRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Partition, Placement, Topic, TopicState
from store_nodes.admin.inventory import queue_inventory
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId

MAX_STEPS = 1000
"""Placements of one topic that are played again."""
_log = structlog.get_logger("packetboat.recovery")


@dataclass(slots=True)
class Report:
    """The findings of a rebuild; names are for people."""

    lifts: list[Lift] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    """Topics whose creation had been finished."""
    deleted: list[str] = field(default_factory=list)
    """Topics whose deletion had begun."""
    placements: int = 0
    kept: int = 0
    """Messages below where the store begins that are delivered all the same."""
    damaged: list[str] = field(default_factory=list)
    """Topics in a state that is impossible unless the store has lost something; they are
    left as they are.
    """
    orphans: int = 0
    """Topics that only the store knows."""


class Rebuild:
    """One repair. `database` lets us in while it is closed to all others."""

    def __init__(self, database: Database, store: StoreClient) -> None:
        self._store = store
        self._rows = RecoveryRepository(database)
        self._topics = TopicRepository(database)
        self._placements = PlacementRepository(database)
        self._kept: dict[tuple[bytes, LaneOf], list[int]] = {}
        self._deleted: set[bytes] = set()
        self.progress = "reading the store's queues"
        """The progress, for people, and for callers that wait only as long as something moves."""

    async def run(self) -> Report:
        """Raises StoreError and MetadataError; then it is to be run again."""
        report = Report()
        queues = await self._look()
        self.progress = "reading Postgres"
        topics = await self._rows.topics()
        reach = await self._rows.reach()
        known = {topic.uid for topic in topics}
        report.orphans = len(queues.keys() - known)
        for done, topic in enumerate(topics):
            self.progress = f"{done} of {len(topics)} topics are repaired"
            found = queues.get(topic.uid, Queues(()))
            await self._mend(topic, found, reach.get(topic.uid, {}), report)
            failpoints.reach("recovery.mended")
        self.progress = f"{len(topics)} topics are repaired"
        return report

    async def _look(self) -> dict[bytes, Queues]:
        """Return every queue of the store, by topic."""
        found: dict[bytes, list[Found]] = {}
        for group in self._store.groups:
            self.progress = f"reading the store's queues, group {group}"
            counted = await queue_inventory(self._store, group)
            self._deleted |= counted.deleted
            for info, kept in counted.queues:
                name = QueueId.unpack(info.queue)
                found.setdefault(name.topic_uid, []).append(Found(group, name, info))
                if kept:
                    place = name.topic_uid, (name.partition, name.lane)
                    self._kept.setdefault(place, []).extend(kept)
        return {uid: Queues(some) for uid, some in found.items()}

    async def _mend(
        self, topic: Topic, queues: Queues, reach: dict[LaneOf, Reach], report: Report
    ) -> None:
        if topic.state is TopicState.DELETING:
            return  # its repair goes on with that
        if topic.state is TopicState.CREATING:
            if any(queues.of(part) is None for part in topic.partitions):
                return  # so nobody was told that it exists
            topic = await self._topics.activate(topic.tenant_id, topic.uid)
            report.finished.append(topic.name)
        elif is_deleted(topic, queues, self._deleted):
            await self._topics.mark_deleting(topic.tenant_id, topic.name)
            report.deleted.append(topic.name)
            return
        topic = await replay(topic, queues, self._placements, self._store, report)
        report.damaged += lost(topic, queues)
        before = self.progress
        for done, part in enumerate(topic.partitions):
            self.progress = f"{before}, {done} of {len(topic.partitions)} partitions of the next"
            place = part.number, part.lane
            chain = queues.chain(*place)
            if chain:
                await self._lift(topic, place, chain, reach.get(place), report)

    async def _lift(
        self,
        topic: Topic,
        place: LaneOf,
        chain: Sequence[Found],
        reach: Reach | None,
        report: Report,
    ) -> None:
        first, end = first_offset(chain), chain[-1].info.end
        if first > 0:
            report.lifts.append(Lift(topic.tenant_id, topic.uid, *place, first))
        if reach is None:
            return
        if reach.read_to > end:
            report.damaged.append(
                f"{topic.name}/{place[0]}: read to {reach.read_to}, and the store ends at {end}"
            )
        kept = self._kept.get((topic.uid, place), [])
        if reach.floor < first and kept:
            report.kept += await self._rows.step_over(topic, place, first, kept)


async def replay(
    topic: Topic,
    queues: Queues,
    placements: PlacementRepository,
    store: StoreClient,
    report: Report,
) -> Topic:
    """Return the topic once its rows agree with its queues."""
    for _ in range(MAX_STEPS):
        open_one = await placements.get(topic.tenant_id, topic.uid)
        wished = () if open_one is None else _groups(open_one)
        step = next_step(topic, queues, wished)
        if step is None:
            break
        try:
            topic = await _play(topic, queues, step, placements, store)
        except NotFound as error:
            report.damaged.append(f"{topic.name}: {error}, and nothing follows it")
            break
        report.placements += 1
    return topic


async def _play(
    topic: Topic, queues: Queues, step: Step, placements: PlacementRepository, store: StoreClient
) -> Topic:
    """Repeat one placement as it was made; its missing parts are done now."""
    placement = await placements.replay(topic, step.kind, step.partition, step.groups)
    following = successors(placement)
    ends: dict[LaneOf, int] = {}
    for part in placement.sealing:
        place, found, later = (part.number, part.lane), queues.of(part), queues.after(part)
        if found is None and later is None:
            raise NotFound("queue", str(queue_of(topic.uid, part)))
        if found is None:
            assert later is not None
            ends[place] = later.info.base
        elif found.info.sealed:
            ends[place] = found.info.end
        else:
            ends[place] = await store.seal(
                found.group, found.queue, following[place], timeout_s=STORE_TIMEOUT_S
            )
    for part in placement.opening:
        if queues.of(part) is None and queues.after(part) is None:
            base = ends.get((part.number, part.lane), 0)
            await _open(topic, part, base, store)
    return await placements.finish(placement, ends)


async def _open(topic: Topic, part: Partition, base: int, store: StoreClient) -> None:
    await store.create(
        part.group,
        queue_of(topic.uid, part),
        base,
        queue_meta(topic),
        timeout_s=STORE_TIMEOUT_S,
    )


def lost(topic: Topic, queues: Queues) -> list[str]:
    """Open partitions whose queue the store does not have, for people."""
    return [
        f"{topic.name}/{part.number}: there is no queue {queue_of(topic.uid, part)}"
        for part in topic.partitions
        if queues.of(part) is None
    ]


def _groups(placement: Placement) -> list[int]:
    return [part.group for part in placement.opening if not part.lane]
