"""Positions that people name, as offsets: of a seek, and of where a subscription starts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from edge.problem import FieldError, Problem, invalid
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.types import Topic
from subscribe_forwarder.reading.places import Bounds, OffsetStore, at_time, bounds

MAX_OFFSET = 2**53
MAX_ASKED = 64
"""Questions to the store at once."""
_PLACE = re.compile(r"(?P<partition>0|[1-9][0-9]{0,3})(/(?P<lane>[0-9]))?")


class Time(NamedTuple):
    """The first message that is not older."""

    time_us: int


class Offsets(NamedTuple):
    """By partition, all its lanes, or by `partition/lane`; what is not named stays."""

    by_name: Mapping[str, int]


class SnapshotOf(NamedTuple):
    """What was unacked when it was taken, and what came after."""

    name: str


To = Literal["earliest", "latest"] | int | Time | Offsets | SnapshotOf
"""An int is an offset, in each partition."""


class Targets:
    """Raises Problems, StoreError, MetadataError."""

    def __init__(self, store: OffsetStore, snapshots: SnapshotRepository) -> None:
        self._store = store
        self._snapshots = snapshots

    async def find(self, topic: Topic, to: To) -> tuple[dict[LaneOf, Bounds], dict[LaneOf, Target]]:
        """What is stored of each partition and lane, and where those go that are to be moved; not
        below or above what is stored."""
        places = [(each.number, each.lane) for each in topic.partitions]
        if isinstance(to, Offsets):
            named = _named(to, places)
        elif isinstance(to, SnapshotOf):
            held = await self._of_snapshot(topic, to.name)
        asking = asyncio.Semaphore(MAX_ASKED)

        async def one(place: LaneOf) -> tuple[Bounds, Target | None]:
            async with asking:
                found = await bounds(self._store, topic, *place)
                if isinstance(to, Offsets):
                    at = named.get(place)
                    return found, None if at is None else Target(found.clamp(at))
                if isinstance(to, SnapshotOf):
                    # A partition that the topic had not then: all of it came after.
                    return found, held.get(place, Target(found.first))
                if isinstance(to, Time):
                    at = await at_time(self._store, topic, *place, to.time_us)
                    return found, Target(found.clamp(at))
            if isinstance(to, int):
                return found, Target(found.clamp(to))
            if to == "latest":
                return found, Target(found.end, passes_open=True)
            return found, Target(found.first)

        async with asyncio.TaskGroup() as tasks:
            asked = {place: tasks.create_task(one(place)) for place in places}
        results = {place: task.result() for place, task in asked.items()}
        return (
            {place: found for place, (found, _) in results.items()},
            {place: target for place, (_, target) in results.items() if target is not None},
        )

    async def _of_snapshot(self, topic: Topic, name: str) -> dict[LaneOf, Target]:
        snapshot = await self._snapshots.get(topic.tenant_id, name)
        if snapshot.topic_uid != topic.uid:
            raise Problem(
                409,
                "snapshot-of-another-topic",
                "Snapshot of another topic",
                f"The snapshot {name!r} was taken of the topic {snapshot.topic_name!r}.",
            )
        return await self._snapshots.targets(snapshot)


def _named(to: Offsets, places: list[LaneOf]) -> dict[LaneOf, int]:
    """Raises a 422 Problem for what names no partition."""
    found: dict[LaneOf, int] = {}
    errors = []
    for name, offset in to.by_name.items():
        match = _PLACE.fullmatch(name)
        number = int(match["partition"]) if match else -1
        lane = int(match["lane"]) if match and match["lane"] else None
        named = [each for each in places if each[0] == number and lane in (None, each[1])]
        if not named:
            errors.append(FieldError("to.offsets", f"{name[:40]!r} is no partition of this topic"))
        found.update((each, offset) for each in named)
    if errors:
        raise invalid("The body does not fit.", errors[:100])
    return found
