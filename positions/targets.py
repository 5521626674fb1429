"""Finds the offsets of the positions that people name in seeks and as starts of subscriptions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from msgspec import UNSET

from edge.problem import FieldError, Problem, invalid
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.types import Topic
from openapi.positions import SeekAt
from openapi.subscriptions import NamedStart, StartAt
from positions.places import Bounds, at_time, bounds
from store_nodes.client import StoreClient

MAX_ASKED = 64
"""The most questions to the store at the same time."""
_PLACE = re.compile(r"(?P<partition>0|[1-9][0-9]{0,3})(/(?P<lane>[0-9]))?")


To = NamedStart | StartAt
"""A `SeekAt` may also name an offset of each partition."""


class Targets:
    """The positions of topics. Raise Problems, StoreError and MetadataError."""

    def __init__(self, store: StoreClient, snapshots: SnapshotRepository) -> None:
        self._store = store
        self._snapshots = snapshots

    async def find(self, topic: Topic, to: To) -> tuple[dict[LaneOf, Bounds], dict[LaneOf, Target]]:
        """Return the bounds of what is stored of each partition and lane, and the targets of those
        that are to be moved. A target is within the bounds."""
        places = [(each.number, each.lane) for each in topic.partitions]
        named: dict[LaneOf, int] | None = None
        held: dict[LaneOf, Target] | None = None
        if isinstance(to, SeekAt) and to.offsets is not UNSET:
            named = _named(to.offsets, places)
        elif isinstance(to, StartAt) and to.snapshot is not UNSET:
            held = await self._of_snapshot(topic, to.snapshot)
        asking = asyncio.Semaphore(MAX_ASKED)

        async def one(place: LaneOf) -> tuple[Bounds, Target | None]:
            async with asking:
                found = await bounds(self._store, topic, *place)
                if named is not None:
                    at = named.get(place)
                    return found, None if at is None else Target(found.clamp(at))
                if held is not None:
                    # All of a partition that the topic did not have then came after.
                    return found, held.get(place, Target(found.first))
                if isinstance(to, StartAt) and to.time is not UNSET:
                    time_us = max(0, int(to.time.timestamp() * 1_000_000))
                    at = await at_time(self._store, topic, *place, time_us)
                    return found, Target(found.clamp(at))
            if isinstance(to, StartAt):
                return found, Target(found.clamp(to.offset or 0))
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
            raise Problem.of(
                "snapshot-of-another-topic",
                f"The snapshot {name!r} was taken of the topic {snapshot.topic_name!r}.",
            )
        return await self._snapshots.targets(snapshot)


def _named(offsets: Mapping[str, int], places: list[LaneOf]) -> dict[LaneOf, int]:
    """Return the offsets by lane. Raise a 422 Problem for a name of no partition."""
    found: dict[LaneOf, int] = {}
    errors = []
    for name, offset in offsets.items():
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
