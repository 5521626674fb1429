"""Lanes as runners name them, and as the API shows them to tenants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from gateway.exports.bodies import MAX_OFFSET, MAX_PARTITION
from metadata.exports.types import Lane, LanePosition, LaneRange

MAX_LANES = 100_000
MAX_LANE = 255


class LaneKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a runner. `topic_uid` is hex."""

    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    topic_uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    partition: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)]
    lane: Annotated[int, msgspec.Meta(ge=0, le=MAX_LANE)]


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All below `offset` is in the table."""

    key: LaneKey
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]


Positions = Annotated[list[Position], msgspec.Meta(max_length=MAX_LANES)]


def stored(positions: Iterable[Position]) -> list[LanePosition]:
    return [LanePosition(_lane(each.key), each.offset) for each in positions]


def ranges_for_runner(ranges: Iterable[LaneRange]) -> list[dict[str, Any]]:
    return [
        {"key": lane_view(each.lane), "start": each.start, "end": each.end}
        | ({} if each.position is None else {"position": each.position})
        for each in ranges
    ]


def lane_view(lane: Lane) -> dict[str, Any]:
    return {
        "topic": lane.topic,
        "topic_uid": lane.topic_uid.hex(),
        "partition": lane.partition,
        "lane": lane.lane,
    }


def _lane(key: LaneKey) -> Lane:
    return Lane(key.topic, bytes.fromhex(key.topic_uid), key.partition, key.lane)
