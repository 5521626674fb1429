"""Lanes that the truncator takes for settled, and passes over."""

from __future__ import annotations

import random
from typing import Any

import pytest

from metadata.topics.retention import Generation, Holds, KeptSignature, LaneKey, TopicLimits
from metadata.types import Retention
from scheduler.sizes import Sizes
from scheduler.truncator import SETTLED, Truncator
from store_nodes.client import QueueInfo
from store_nodes.queue_id import QueueId

KEY = LaneKey(bytes(16), b"t" * 16, 3, 0)
GROUP = 5
NOW_US = 10**15


class Place:
    """The store and the retention repository, which note what a truncator asks of them."""

    now_us = staticmethod(lambda: NOW_US)

    def __init__(self, info: QueueInfo | None) -> None:
        self.info = info
        self.done: list[str] = []
        self.sizes = Sizes(self, 1.0)  # type: ignore[arg-type]

    groups = (GROUP,)

    def clock(self, group: int) -> Place:
        return self

    async def queues(self, group: int, *, timeout_s: float) -> list[QueueInfo]:
        return [] if self.info is None else [self.info]

    async def offset_at(self, *_: Any, timeout_s: float) -> int:
        assert self.info is not None
        return self.info.end

    async def offset_back(self, *_: Any, timeout_s: float) -> int:
        assert self.info is not None
        return self.info.end

    async def truncate(self, *_: Any, timeout_s: float) -> None:
        self.done.append("truncate")

    async def delete(self, *_: Any, timeout_s: float) -> None:
        self.done.append("delete")

    async def trim(self, *_: Any, past_pins: bool) -> None:
        self.done.append("trim")


def queue_info(generation: int, **fields: Any) -> QueueInfo:
    raw = QueueId(KEY.topic_uid, KEY.partition, KEY.lane, generation).pack()
    known: dict[str, Any] = {"queue": raw, "base": 0, "sealed": False, "meta": b""}
    return QueueInfo(**known | fields)


def truncator(place: Place) -> Truncator:
    store: Any = place
    return Truncator(store, store, store, store, place.sizes, age_every_s=60.0, timeout_s=1.0)


async def both_ways(
    retention: Retention, generation: Generation, info: QueueInfo | None, holds: Holds
) -> tuple[bool, list[str], bool]:
    """Return whether the lane is settled, the effects of its truncation if it is done all the same,
    and whether a hold is in the way of a limit."""
    place = Place(info)
    await place.sizes.measure()
    one = truncator(place)
    topic = TopicLimits(KEY.tenant_id, KEY.topic_uid, "t", retention, 60, None, "")
    settled = one._is_settled(KEY, [generation], holds)
    planned = await one._trim_lane(topic, KEY, [generation], holds, 0 if info is None else 10**9)
    return settled, place.done, planned.age_blocked or planned.bytes_blocked


async def test_truncating_a_settled_lane_would_do_nothing() -> None:
    rng = random.Random(7)
    count = dict.fromkeys((True, False), 0)
    for _ in range(5_000):
        end = rng.choice((0, 5, 9))
        trimmed_to = rng.choice((0, 5, 9))
        info = None
        if rng.random() < 0.8:
            stored = rng.choice((0, 0, 100))
            info = queue_info(0, first=rng.choice((0, end)), end=end, stored_bytes=stored)
        pinned = {KEY: rng.choice((0, 5, 9))} if rng.random() < 0.7 else {}
        kept = {KEY: KeptSignature(1, 4)} if rng.random() < 0.1 else {}
        retention = Retention(
            rng.choice(("consume", "retain")),
            rng.choice((60, None)),
            rng.choice((1_000, None)),
            rng.choice(("refuse", "expire_oldest")),
        )
        generation = Generation(0, GROUP, 0, None, trimmed_to)
        settled, done, blocked = await both_ways(
            retention, generation, info, Holds(pinned, kept, by_backup=False)
        )
        count[settled] += 1
        assert not (settled and (done or blocked)), (generation, info, pinned, kept, retention)
    assert min(count.values()) > 1_000


@pytest.mark.parametrize(
    ("info", "trimmed_to", "settled"),
    [
        (None, 0, True),
        (queue_info(0, first=9, end=9), 9, True),
        (queue_info(0, first=9, end=9, staged=3), 9, True),
        (queue_info(0, first=8, end=9), 8, False),
        (queue_info(0, first=9, end=9), 8, False),
        (queue_info(0, first=9, end=9, stored_bytes=1), 9, False),
    ],
)
async def test_a_lane_is_settled_when_all_of_it_is_truncated(
    info: QueueInfo | None, trimmed_to: int, *, settled: bool
) -> None:
    place = Place(info)
    await place.sizes.measure()
    lanes = {KEY: [Generation(0, GROUP, 0, None, trimmed_to)]}
    assert truncator(place)._is_settled(KEY, lanes[KEY], Holds({}, {})) == settled


async def test_a_settled_lane_has_a_plan_once_its_group_has_answered() -> None:
    place = Place(None)
    topic = TopicLimits(KEY.tenant_id, KEY.topic_uid, "t", Retention(), 60, None, "")
    topics, lanes = {KEY[:2]: topic}, {KEY: [Generation(0, GROUP, 0, None, 0)]}
    holds, totals = Holds({}, {}), {KEY[:2]: (0, 0)}
    assert await truncator(place).trim(topics, lanes, holds, totals) == {}
    await place.sizes.measure()
    assert await truncator(place).trim(topics, lanes, holds, totals) == {KEY: SETTLED}
    assert place.done == []


@pytest.mark.parametrize("kept", [KeptSignature(2, 7), None])
async def test_a_lane_that_keeps_or_kept_offsets_is_not_settled(kept: KeptSignature | None) -> None:
    place = Place(queue_info(0, first=9, end=9))
    await place.sizes.measure()
    one = truncator(place)
    one._sent[KEY] = KeptSignature(2, 7)
    holds = Holds({}, {} if kept is None else {KEY: kept})
    assert not one._is_settled(KEY, [Generation(0, GROUP, 0, None, 9)], holds)
