"""Every active topic with its limits and its queues, as last read from Postgres."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

import structlog

from metadata.delivery.due import QueueKey
from metadata.errors import MetadataError
from metadata.topics.retention import Generation, LaneKey, RetentionRepository, TopicLimits
from metadata.types import Change, ChangeKind
from store_nodes.queue_id import QueueId

REREAD_EVERY_S = 30.0
"""Seconds after which topics are read again without a change, for rows that no change tells of."""
LEAST_PAUSE_S = 0.1
PAUSE_PER_READING = 5.0
"""Times the last reading took: many topics are read less often."""
_log = structlog.get_logger("packetboat.scheduler")

Queues = dict[bytes, tuple[QueueKey, int]]
"""The key and the group of each queue, by packed id."""


class TopicMap:
    """The topics, read again when the change feed tells of one; `on_change` follows each reading.

    One term of leadership uses it at a time.
    """

    def __init__(self, repository: RetentionRepository) -> None:
        self._repository = repository
        self._dirty = asyncio.Event()
        self.topics: dict[tuple[bytes, bytes], TopicLimits] = {}
        self.lanes: dict[LaneKey, list[Generation]] = {}
        self.lane_counts: Counter[tuple[bytes, bytes]] = Counter()
        """The number of lanes by topic."""
        self.queues: Queues = {}

    async def on_feed(self, changes: Sequence[Change]) -> None:
        """Learn of changes from the change feed."""
        if any(change.kind in (ChangeKind.TOPIC, ChangeKind.RESET) for change in changes):
            self._dirty.set()

    async def read(self) -> None:
        """Read all topics. Raises MetadataError."""
        self._dirty.clear()
        topics, self.lanes = await self._repository.topics()
        self.topics = {(topic.tenant_id, topic.uid): topic for topic in topics}
        self.lane_counts = Counter((key.tenant_id, key.topic_uid) for key in self.lanes)
        self.queues = {
            QueueId(key.topic_uid, key.partition, key.lane, each.number).pack(): (
                QueueKey(*key, each.number),
                each.group,
            )
            for key, generations in self.lanes.items()
            for each in generations
        }

    async def follow(self, on_change: Callable[[Queues], None]) -> None:
        """Keep the topics fresh until this is cancelled."""
        while True:
            try:
                async with asyncio.timeout(REREAD_EVERY_S):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            began_s = time.monotonic()
            try:
                await self.read()
            except MetadataError as error:
                _log.info("topics not read", error=f"{error.code}: {error}")
                self._dirty.set()
            else:
                on_change(self.queues)
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(LEAST_PAUSE_S, PAUSE_PER_READING * took_s))
