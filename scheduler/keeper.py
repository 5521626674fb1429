"""Rounds of truncation, after which topics and tenants at their limits refuse publishes.

A lane is truncated only if every export that takes it has a hold on it: in each round, exports are
asked after the lanes were read, so they know every lane of the round.

Whether a topic is full is decided after everything that may be truncated was. The change feed tells
every process, and publish forwarders answer 507 from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

import structlog

from metadata.exports.pins import ExportPinRepository
from metadata.tenancy.quotas import TenantLimit
from metadata.topics.retention import FullFlag, LaneKey, RetentionRepository, TopicLimits
from scheduler import metrics
from scheduler.limits import Full, Plan, tenant_full, topic_full
from scheduler.sizes import Sizes, by_tenant
from scheduler.term import put_off
from scheduler.topic_map import TopicMap
from scheduler.truncator import Truncator

USAGE_EVERY_S = 15.0
PAUSE_PER_ROUND = 4.0
"""Times the last round took: a large installation is looked at less often."""
FLAGS_AT_ONCE = 100
TopicKey = tuple[bytes, bytes]
Totals = dict[TopicKey, tuple[int, int]]
"""Stored bytes and staged messages, by topic."""
_log = structlog.get_logger("packetboat.scheduler")


class Keeper:
    """Truncates, and marks full topics, in one term of leadership."""

    def __init__(
        self,
        topics: TopicMap,
        retention: RetentionRepository,
        truncator: Truncator,
        sizes: Sizes,
        *,
        every_s: float,
        stored_limits: TenantLimit,
        exports: ExportPinRepository,
    ) -> None:
        self._topics = topics
        self._retention = retention
        self._truncator = truncator
        self._sizes = sizes
        self._every_s = every_s
        self._stored_limits = stored_limits
        self._exports = exports
        self._topic_full: dict[TopicKey, Full] = {}
        self._tenant_full: set[bytes] = set()
        self._noted_s = 0.0
        self._noted: Totals = {}

    async def run(self) -> None:
        """Work regularly until this is cancelled."""
        while True:
            began_s = time.monotonic()
            await put_off("trim round", self.round())
            took_s = time.monotonic() - began_s
            metrics.trim_seconds.observe(took_s)
            await asyncio.sleep(max(self._every_s, PAUSE_PER_ROUND * took_s))

    async def round(self) -> None:
        """Look at all topics once.

        Raises MetadataError.

        The topics may be read again while it waits, so the whole round uses one reading: a topic
        that is deleted meanwhile is in it to the end.
        """
        topics, lanes, counts = self._topics.topics, self._topics.lanes, self._topics.lane_counts
        await self._exports.begin_in_new_lanes()
        holds = await self._retention.holds()
        await self._sizes.measure()
        totals = self._sizes.totals(lanes)
        plans = await self._truncator.trim(topics, lanes, holds, totals)
        if self._any_limit(topics, totals):
            await self._sizes.measure()
            totals = self._sizes.totals(lanes)
        await self._judge(topics, plans, counts, totals)
        if time.monotonic() - self._noted_s >= USAGE_EVERY_S:
            self._noted_s = time.monotonic()
            await self._note_usage(totals)

    async def _note_usage(self, totals: Totals) -> None:
        """Store the totals that this term has not stored yet."""
        changed = [(*key, *total) for key, total in totals.items() if self._noted.get(key) != total]
        await self._retention.note_usage(changed)
        self._noted = totals

    def _any_limit(self, topics: dict[TopicKey, TopicLimits], totals: Totals) -> bool:
        """Return whether a topic or tenant is so near a limit that the last truncation matters."""
        if any(
            topic.full is not None
            or (topic.retention.bytes is not None and totals[key][0] >= topic.retention.bytes)
            for key, topic in topics.items()
            if key in totals
        ):
            return True
        return self._stored_limits.any and any(
            0 < self._stored_limits.of(tenant_id) <= stored
            for tenant_id, stored in by_tenant(totals).items()
        )

    async def _judge(
        self,
        topics: dict[TopicKey, TopicLimits],
        plans: dict[LaneKey, Plan],
        counts: Mapping[TopicKey, int],
        totals: Totals,
    ) -> None:
        """Write the flags that changed; a topic with a group that did not answer keeps its own."""
        planned: Counter[TopicKey] = Counter()
        age_blocked: set[TopicKey] = set()
        bytes_blocked: set[TopicKey] = set()
        for lane, plan in plans.items():
            key = (lane.tenant_id, lane.topic_uid)
            planned[key] += 1
            if plan.age_blocked:
                age_blocked.add(key)
            if plan.bytes_blocked:
                bytes_blocked.add(key)
        over = {
            tenant_id: tenant_full(
                self._stored_limits.of(tenant_id), stored, before=tenant_id in self._tenant_full
            )
            for tenant_id, stored in by_tenant(totals).items()
        }
        self._tenant_full = {tenant_id for tenant_id, full in over.items() if full is not None}
        flags: list[FullFlag] = []
        for key, topic in topics.items():
            own = self._topic_full.get(key)
            if planned[key] and planned[key] == counts[key]:
                own = topic_full(
                    topic.retention,
                    totals[key][0],
                    age_blocked=key in age_blocked,
                    bytes_blocked=key in bytes_blocked,
                    before=own,
                )
            elif key not in self._topic_full and topic.full is not None:
                continue
            self._remember(key, own)
            full = over.get(topic.tenant_id) or own
            reason, detail = (full.reason, full.detail) if full is not None else (None, "")
            if (topic.full, topic.full_detail) != (reason, detail):
                flags.append(FullFlag(*key, reason, detail))
                _log.info("room in a topic", topic=topic.name, full=reason or "no")
        for at in range(0, len(flags), FLAGS_AT_ONCE):
            await self._retention.set_full(flags[at : at + FLAGS_AT_ONCE])
        metrics.full_topics.set(len(self._topic_full))

    def _remember(self, key: TopicKey, full: Full | None) -> None:
        if full is None:
            self._topic_full.pop(key, None)
        else:
            self._topic_full[key] = full
