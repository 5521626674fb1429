"""Counts the usage of tenants in memory, and adds it to the hours in Postgres every few seconds.

Usage that is counted while a report is on its way belongs to the next one. A report that failed, or
whose outcome was not learned, is made again unchanged, under its number; Postgres adds each number
once. So usage is added exactly once, unless the process dies: then the usage since its last report
is lost, at most one interval's worth while Postgres answers.

Usage belongs to the hour in which it was counted, by this machine's clock: an hour's usage is put
into a report when the hour ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from gateway.quotas import metrics
from metadata.errors import MetadataError
from metadata.tenancy.usage_reports import Counted, UsageReports

HOUR_S = 3600
MAX_ROWS = 5_000
"""Rows of a report."""
RETRY_S = 1.0
PRUNE_EVERY_S = 6 * 3600.0
_log = structlog.get_logger("packetboat.usage")


class _Report(NamedTuple):
    sequence: int
    hour: datetime
    counted: list[Counted]


class Meter:
    """Counts usage; one per process, used on one event loop.

    Call `run` for its life, then `close`.
    """

    def __init__(
        self,
        reports: UsageReports,
        every_s: float,
        *,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._reports = reports
        self._every_s = every_s
        self._wall_s = wall_s
        self._incarnation = os.urandom(16)
        self._sequence = 0
        self._counts: defaultdict[tuple[bytes, str], float] = defaultdict(float)
        self._hour = self._hour_now()
        self._waiting: deque[_Report] = deque()
        """Reports in the order of their numbers; the first may have been added already."""
        self._sending = asyncio.Lock()
        self._pruned_s = wall_s()

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        """Add a value to a tenant's usage that has not been reported."""
        self._counts[tenant_id, metric] += value

    async def run(self) -> None:
        """Report regularly; only cancellation ends it."""
        while True:
            hour_ends_s = self._hour + HOUR_S - self._wall_s()
            await asyncio.sleep(min(self._every_s, max(0.0, hour_ends_s)))
            await self.flush()

    async def flush(self) -> None:
        """Report the usage so far; it is kept if Postgres does not answer."""
        async with self._sending:
            if not self._waiting or self._hour_now() != self._hour:
                self._seal()
            try:
                while self._waiting:
                    await self._reports.add(self._incarnation, *self._waiting[0])
                    self._waiting.popleft()
                if self._wall_s() - self._pruned_s >= PRUNE_EVERY_S:
                    self._pruned_s = self._wall_s()
                    await self._reports.prune()
            except MetadataError as error:
                metrics.report_failures.inc()
                _log.warning("usage is kept until it can be written", error=str(error))

    async def close(self, timeout_s: float = 5.0) -> None:
        """Send the last reports; usage that cannot be written within the time-out is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.flush()
                while self._waiting or self._counts:
                    if self._waiting:
                        await asyncio.sleep(RETRY_S)
                    await self.flush()
        lost = len(self._counts) + sum(len(report.counted) for report in self._waiting)
        if lost:
            _log.error("usage lost", rows=lost)

    def _seal(self) -> None:
        """Turn the usage counted so far into reports, and begin to count again."""
        hour = datetime.fromtimestamp(self._hour, UTC)
        counted = [
            Counted(tenant_id, metric, value)
            for (tenant_id, metric), value in self._counts.items()
            if value
        ]
        self._counts.clear()
        self._hour = self._hour_now()
        for at in range(0, len(counted), MAX_ROWS):
            self._sequence += 1
            self._waiting.append(_Report(self._sequence, hour, counted[at : at + MAX_ROWS]))

    def _hour_now(self) -> int:
        return int(self._wall_s()) // HOUR_S * HOUR_S
