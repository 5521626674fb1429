"""Lanes, positions and ranges between runners and the rows."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from metadata.exports.types import Lane, LanePosition, LaneRange
from openapi.export_runners import ExportLanePosition, ExportLaneRange
from openapi.export_runs import ExportLaneKey


def stored(positions: Iterable[ExportLanePosition]) -> list[LanePosition]:
    """Return positions as they are stored."""
    return [LanePosition(_lane(each.key), each.offset) for each in positions]


def ranges_for_runner(ranges: Iterable[LaneRange]) -> list[ExportLaneRange]:
    """Return ranges as runners get them."""
    return [
        ExportLaneRange(
            key_of(each.lane),
            each.start,
            each.end,
            UNSET if each.position is None else each.position,
        )
        for each in ranges
    ]


def key_of(lane: Lane) -> ExportLaneKey:
    """Return a lane as runners name it."""
    return ExportLaneKey(lane.topic, lane.topic_uid.hex(), lane.partition, lane.lane)


def _lane(key: ExportLaneKey) -> Lane:
    return Lane(key.topic, bytes.fromhex(key.topic_uid), key.partition, key.lane)
