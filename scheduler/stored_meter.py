"""Meters the stored bytes of tenants over time, in byte hours.

It uses the sizes that the rounds of truncation measure, and runs beside these, which may take long.
"""

from __future__ import annotations

import asyncio
import time

from edge.quota import STORED_BYTE_HOURS, Usage
from scheduler.sizes import Sizes, by_tenant
from scheduler.topic_map import TopicMap


class StoredMeter:
    """Meters stored bytes in one term of leadership."""

    def __init__(self, topics: TopicMap, sizes: Sizes, usage: Usage, every_s: float) -> None:
        self._topics = topics
        self._sizes = sizes
        self._usage = usage
        self._every_s = every_s
        self._counted_s: float | None = None

    async def run(self) -> None:
        """Count regularly until this is cancelled."""
        while True:
            self.count()
            await asyncio.sleep(self._every_s)

    def count(self) -> None:
        """Count the stored bytes for the time since the last count."""
        now_s = time.monotonic()
        if self._counted_s is not None:
            hours = (now_s - self._counted_s) / 3600
            totals = self._sizes.totals(self._topics.lanes)
            for tenant_id, stored in by_tenant(totals).items():
                self._usage.count(tenant_id, STORED_BYTE_HOURS, stored * hours)
        self._counted_s = now_s
