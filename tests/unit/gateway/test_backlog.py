"""Test how the remaining work of a subscription is counted before a deletion."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gateway.subscriptions.backlog import backlogs
from metadata.types import CursorKey, CursorState, Epoch
from store_nodes.queue_id import QueueId
from tests.unit.publish_forwarder.publish_support import TENANT, topic

TOPIC = topic(partitions=2, priorities=2)
READER, OTHER = b"r" * 16, b"o" * 16


class Ends(NamedTuple):
    end: int


class Store:
    """Every queue ends at 100, and 10 further for each lane."""

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5) -> Ends:
        return Ends(100 + 10 * queue.lane)


def cursor(uid: bytes, partition: int, lane: int, floor: int, read_to: int) -> CursorState:
    key = CursorKey(TENANT, uid, partition, lane)
    return CursorState(key, TOPIC.uid, Epoch(0, 1), 0, 0, floor, read_to)


async def test_all_lanes_count_and_what_was_stepped_over() -> None:
    cursors = [
        cursor(READER, 0, 0, 100, 100),
        cursor(READER, 0, 1, 90, 105),
        replace(cursor(READER, 1, 0, 100, 100), exceptions=3),
        replace(cursor(READER, 1, 1, 100, 110), acked=((104, 110),)),
        *(cursor(OTHER, n, lane, 110, 110) for n in range(2) for lane in range(2)),
    ]
    left = await backlogs(Store(), TOPIC, cursors)
    assert (left[READER], left[OTHER]) == (20 + 3 + 4, 0)
