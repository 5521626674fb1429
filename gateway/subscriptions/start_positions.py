"""Where the cursors of a new subscription begin."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from edge.problem import FieldError
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.types import Topic
from subscribe_forwarder.reading.places import OffsetStore
from subscribe_forwarder.reading.targets import MAX_OFFSET, SnapshotOf, Targets, Time, To


class StartAt(msgspec.Struct, forbid_unknown_fields=True):
    """A start position other than the two named ones: exactly one of its fields."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] | None = None
    snapshot: Annotated[str, msgspec.Meta(max_length=128)] | None = None


Start = Literal["latest", "earliest"] | StartAt


def start_errors(start: Start) -> list[FieldError]:
    if isinstance(start, StartAt):
        given = [each for each in (start.time, start.offset, start.snapshot) if each is not None]
        if len(given) != 1:
            return [FieldError("start", "one of time, offset and snapshot, and only one")]
    return []


def start_spec(start: Start) -> str | Mapping[str, object]:
    """As the subscription keeps it."""
    if isinstance(start, str):
        return start
    if start.time is not None:
        return {"time": start.time.isoformat()}
    if start.snapshot is not None:
        return {"snapshot": start.snapshot}
    return {"offset": start.offset}


class StartPositions:
    """Finds them in the store and in snapshots; raises Problems, StoreError, MetadataError."""

    def __init__(self, store: OffsetStore, snapshots: SnapshotRepository) -> None:
        self._targets = Targets(store, snapshots)

    async def floors(self, topic: Topic, start: Start) -> dict[LaneOf, Target]:
        """Where the cursor of each partition and lane begins."""
        _, targets = await self._targets.find(topic, _position(start))
        return targets


def _position(start: Start) -> To:
    if isinstance(start, str):
        return start
    if start.time is not None:
        return Time(max(0, int(start.time.timestamp() * 1_000_000)))
    if start.snapshot is not None:
        return SnapshotOf(start.snapshot)
    return start.offset or 0
