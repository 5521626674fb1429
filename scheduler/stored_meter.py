"""What tenants store, counted for as long as they do, in byte hours.

By the sizes that the rounds of trimming measure, and beside these, which take as long as there is
to trim.
"""

from __future__ import annotations

import asyncio
import time

from edge.quota import STORED_BYTE_HOURS, Usage
from scheduler.sizes import Sizes, by_tenant
from scheduler.topic_map import TopicMap


class StoredMeter:
    """One term of leadership."""

    def __init__(self, topics: TopicMap, sizes: Sizes, usage: Usage, every_s: float) -> None:
        self._topics = topics
        self._sizes = sizes
        self._usage = usage
        self._every_s = every_s
        self._counted_s: float | None = None

    async def run(self) -> None:
        """For ever."""
        while True:
            self.count()
            await asyncio.sleep(self._every_s)

    def count(self) -> None:
        """What is stored, for the time since it was counted last."""
        now_s = time.monotonic()
        if self._counted_s is not None:
            hours = (now_s - self._counted_s) / 3600
            totals = self._sizes.totals(self._topics.lanes)
            for tenant_id, stored in by_tenant(totals).items():
                self._usage.count(tenant_id, STORED_BYTE_HOURS, stored * hours)
        self._counted_s = now_s
