"""Finds the offsets at which the cursors of a new subscription begin."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.types import Topic
from openapi.subscriptions import NamedStart, StartAt
from positions.places import OffsetStore
from positions.targets import Targets

Start = NamedStart | StartAt


def start_spec(start: Start) -> str | Mapping[str, object]:
    """Return a start as the subscription keeps it."""
    if isinstance(start, str):
        return start
    if start.time is not UNSET:
        return {"time": start.time.isoformat()}
    if start.snapshot is not UNSET:
        return {"snapshot": start.snapshot}
    return {"offset": start.offset}


class StartPositions:
    """Find the starts in the store and in snapshots. Raise Problems, StoreError, MetadataError."""

    def __init__(self, store: OffsetStore, snapshots: SnapshotRepository) -> None:
        self._targets = Targets(store, snapshots)

    async def floors(self, topic: Topic, start: Start) -> dict[LaneOf, Target]:
        """Return the start of the cursor of each partition and lane."""
        _, targets = await self._targets.find(topic, start)
        return targets
