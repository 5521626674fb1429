"""Truncates partitions up to what holds allow and limits demand: the scheduler's second job.

In each round the holds and the sizes in the store are read, and each partition is planned
(limits.py). If `trimmed_to` goes up, it is committed under the partition's row lock, and only then
is the store told to truncate, with the offsets to keep. A crash in between leaves `trimmed_to`
ahead of the store; the next round sees that and truncates. A lane with nothing to truncate costs
its share of the two readings and a look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence

import structlog

from metadata.delivery.forwarded import ForwardedRepository
from metadata.errors import LeaseLost, MetadataError, NotFound
from metadata.topics.placements import PlacementRepository
from metadata.topics.retention import (
    Generation,
    Holds,
    KeptSignature,
    LaneKey,
    RetentionRepository,
    TopicLimits,
    Trimmed,
)
from metadata.types import Retention
from scheduler import metrics
from scheduler.limits import DEFAULT_AGE_S, Plan, Wanted, plan
from scheduler.sizes import Sizes
from store_nodes.client import QueueInfo, StoreClient
from store_nodes.errors import QueueNotFound, StoreError
from store_nodes.queue_id import QueueId

PARTITIONS_AT_ONCE = 16
AGE_STEPS = 20
"""Times within its length that a short age limit is checked."""
MIN_AGE_EVERY_S = 0.5
LEAST_SEALED_S = 60.0
"""Least seconds that an empty sealed queue stays, because publishers may still ask it."""
SETTLED = Plan(0, past_pins=False, age_blocked=False, bytes_blocked=False)
"""The plan of a lane that has nothing to truncate, whatever holds and limits say."""
_log = structlog.get_logger("packetboat.scheduler")


class Truncator:
    """Truncates in one term of leadership."""

    def __init__(
        self,
        store: StoreClient,
        retention: RetentionRepository,
        placements: PlacementRepository,
        forwarded: ForwardedRepository,
        sizes: Sizes,
        *,
        age_every_s: float,
        timeout_s: float,
    ) -> None:
        self._store = store
        self._retention = retention
        self._placements = placements
        self._forwarded = forwarded
        self._sizes = sizes
        self._age_every_s = age_every_s
        self._timeout_s = timeout_s
        self._at_once = asyncio.Semaphore(PARTITIONS_AT_ONCE)
        self._ages: dict[LaneKey, tuple[float, int]] = {}
        self._sent: dict[LaneKey, KeptSignature | None] = {}
        self._led_to: set[bytes] = set()
        """Queues that delayed messages of others still go through."""

    async def trim(
        self,
        topics: dict[tuple[bytes, bytes], TopicLimits],
        lanes: dict[LaneKey, list[Generation]],
        holds: Holds,
        totals: Mapping[tuple[bytes, bytes], tuple[int, int]],
    ) -> dict[LaneKey, Plan]:
        """Truncate all partitions once; return the plans of those whose groups answered.

        `totals` are those of `Sizes`.
        """
        metrics.history_held.set(holds.by_backup)
        self._led_to = self._sizes.led_to()
        plans: dict[LaneKey, Plan] = {}

        async def one(key: LaneKey, generations: list[Generation]) -> None:
            topic = topics[key.tenant_id, key.topic_uid]
            stored, _ = totals[key.tenant_id, key.topic_uid]
            async with self._at_once:
                try:
                    plans[key] = await self._trim_lane(topic, key, generations, holds, stored)
                except (QueueNotFound, NotFound):
                    return  # its topic is being deleted
                except LeaseLost:
                    raise
                except (StoreError, MetadataError) as error:
                    metrics.failures.labels("trim").inc()
                    _log.info("trim put off", topic=topic.name, error=f"{error.code}: {error}")

        unsettled: list[tuple[LaneKey, list[Generation]]] = []
        for key, generations in lanes.items():
            if self._is_settled(key, generations, holds):
                plans[key] = SETTLED
            elif all(each.group in self._sizes.fresh for each in generations):
                unsettled.append((key, generations))
        await asyncio.gather(*(one(*each) for each in unsettled))
        for memory in (self._ages, self._sent):
            for key in memory.keys() - lanes.keys():
                del memory[key]
        return plans

    def _is_settled(self, key: LaneKey, generations: Sequence[Generation], holds: Holds) -> bool:
        """Return whether a lane, whose group answered, has one queue, which is empty and known to
        be truncated to its end, and no offsets that it keeps or kept.
        """
        if len(generations) > 1 or key in holds.kept or self._sent.get(key) is not None:
            return False
        only = generations[0]
        if only.group not in self._sizes.fresh:
            return False
        info = self._sizes.of(key, only)
        if info is None:
            return only.trimmed_to >= only.base
        return info.first == info.end <= only.trimmed_to and not info.stored_bytes

    async def _trim_lane(
        self,
        topic: TopicLimits,
        key: LaneKey,
        generations: list[Generation],
        holds: Holds,
        topic_bytes: int,
    ) -> Plan:
        wanted = Wanted(
            await self._too_old(topic.retention, key, generations),
            await self._too_much(topic.retention, key, generations, topic_bytes),
        )
        planned = plan(topic.retention, holds.pinned.get(key), wanted)
        end = generations[-1].base
        if (info := self._sizes.of(key, generations[-1])) is not None:
            end = info.end
        if holds.by_backup and not planned.past_pins:
            return planned
        target = min(planned.target, end)
        kept = holds.kept.get(key)
        before = max(each.trimmed_to for each in generations)
        if target > before or self._store_is_behind(key, generations, kept):
            trimmed = await self._retention.trim(key, target, past_pins=planned.past_pins)
            if trimmed is not None:
                if trimmed.trimmed_to > before:
                    metrics.trims.inc()
                await self._truncate(key, trimmed)
                self._sent[key] = kept
                generations[:] = [_after(each, trimmed.trimmed_to) for each in trimmed.generations]
                if len(generations) > 1 or generations[0].number > 0:
                    await self._forwarded.forget(*key, trimmed.trimmed_to)
        if len(generations) > 1 and kept is None:
            await self._drop_empty(topic, key, generations, holds.pinned.get(key))
        return planned

    def _store_is_behind(
        self, key: LaneKey, generations: Sequence[Generation], kept: KeptSignature | None
    ) -> bool:
        """Return whether a truncation was lost, or the offsets to keep differ from those last
        sent.
        """
        for each in generations:
            info = self._sizes.of(key, each)
            if info is not None and info.first < min(each.trimmed_to, info.end):
                return True
        if key in self._sent:
            return self._sent[key] != kept
        return kept is not None or any(
            info is not None and info.stored_bytes > 0 and each.trimmed_to > each.base
            for each in generations
            for info in [self._sizes.of(key, each)]
        )

    async def _truncate(self, key: LaneKey, trimmed: Trimmed) -> None:
        for each in trimmed.generations:
            upto = trimmed.trimmed_to
            if each.sealed_at is not None:
                upto = min(upto, each.sealed_at)
            if self._sizes.of(key, each) is None or upto < each.base:
                continue
            keep = [offset for offset in trimmed.kept if each.base <= offset < upto]
            await self._store.truncate(
                each.group, _queue(key, each), upto, keep, timeout_s=self._timeout_s
            )

    async def _drop_empty(
        self,
        topic: TopicLimits,
        key: LaneKey,
        generations: Sequence[Generation],
        pinned: int | None,
    ) -> None:
        """Delete empty queues of sealed generations that nothing needs any more.

        No cursor is below their end, no publisher may ask them whether they know an id, and no
        delayed message goes through them.
        """
        for each in generations:
            info = self._sizes.of(key, each)
            if each.sealed_at is None or each.trimmed_to < each.sealed_at:
                continue
            if pinned is not None and pinned < each.sealed_at:
                continue
            if each.sealed_time_us is None or (info is not None and info.staged):
                continue
            if _queue(key, each).pack() in self._led_to:
                continue
            wait_s = max(LEAST_SEALED_S, topic.dedup_window_s)
            if self._store.clock(each.group).now_us() < each.sealed_time_us + wait_s * 1e6:
                continue
            await self._store.delete(each.group, _queue(key, each), timeout_s=self._timeout_s)
            await self._placements.forget_generation(*key, each.number)

    async def _too_old(
        self, retention: Retention, key: LaneKey, generations: Iterable[Generation]
    ) -> int:
        """Return the offset below which everything is older than the topic's age limit."""
        seconds = retention.seconds if retention.seconds is not None else DEFAULT_AGE_S
        every_s = max(MIN_AGE_EVERY_S, min(self._age_every_s, seconds / AGE_STEPS))
        asked_s, target = self._ages.get(key, (-every_s, 0))
        now_s = time.monotonic()
        if now_s - asked_s < every_s:
            return target
        for each in generations:
            info = self._sizes.of(key, each)
            if info is None or info.first == info.end:
                continue
            before_us = self._store.clock(each.group).now_us() - seconds * 1_000_000
            offset = await self._store.offset_at(
                each.group, _queue(key, each), before_us, timeout_s=self._timeout_s
            )
            target = max(target, offset)
            if offset < info.end:
                break
        self._ages[key] = (now_s, target)
        return target

    async def _too_much(
        self,
        retention: Retention,
        key: LaneKey,
        generations: Sequence[Generation],
        topic_bytes: int,
    ) -> int:
        """Return the offset below which is more than the partition's share of the topic's byte
        limit.

        Shares are in proportion to the bytes.
        """
        if retention.bytes is None or topic_bytes <= retention.bytes:
            return 0
        infos: list[tuple[Generation, QueueInfo]] = []
        for each in generations:
            info = self._sizes.of(key, each)
            if info is not None:
                infos.append((each, info))
        share = retention.bytes * sum(info.stored_bytes for _, info in infos) // topic_bytes
        for each, info in reversed(infos):
            if info.stored_bytes > share:
                return await self._store.offset_back(
                    each.group, _queue(key, each), share, timeout_s=self._timeout_s
                )
            share -= info.stored_bytes
        return 0


def _after(generation: Generation, trimmed_to: int) -> Generation:
    """Return the row as the truncation left it."""
    if generation.sealed_at is not None:
        trimmed_to = min(trimmed_to, generation.sealed_at)
    if generation.base > trimmed_to:
        return generation
    return generation._replace(trimmed_to=max(generation.trimmed_to, trimmed_to))


def _queue(key: LaneKey, generation: Generation) -> QueueId:
    return QueueId(key.topic_uid, key.partition, key.lane, generation.number)
