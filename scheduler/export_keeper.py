"""Regular work on exports: ticks make runs, expired leases end, the ends of lanes are noted.

No single process has to do any of it: each step is a transaction that finds what is to be done. So
a scheduler that dies, or two at once, lose nothing and do nothing twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from metadata.database import Database
from metadata.errors import MetadataError
from metadata.exports.sweep import ExportSweepRepository
from metadata.exports.ticks import ExportTickRepository
from metadata.topics.retention import LaneKey
from scheduler import metrics
from scheduler.export_ticks import ExportTicks
from scheduler.sizes import Sizes
from scheduler.term import put_off
from scheduler.topic_map import TopicMap

EXPIRE_AT_ONCE = 200
NOTE_EVERY_S = 10.0


class ExportKeeper:
    """Looks after exports in one term of leadership."""

    def __init__(
        self, database: Database, topics: TopicMap, sizes: Sizes, *, every_s: float
    ) -> None:
        self._ticks = ExportTicks(ExportTickRepository(database))
        self._sweeping = ExportSweepRepository(database)
        self._topics = topics
        self._sizes = sizes
        self._every_s = every_s

    async def run(self) -> None:
        """Work regularly until this is cancelled."""
        noted_s = -NOTE_EVERY_S
        while True:
            await put_off("exports", self.look())
            if time.monotonic() - noted_s >= NOTE_EVERY_S:
                noted_s = time.monotonic()
                await put_off("exports", self.note())
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Ask once whether there is anything to do, and do it. Raises MetadataError of the
        question alone.
        """
        if await self._sweeping.due():
            for part in (self._ticks.round, self.expire):
                await put_off("exports", part())

    async def expire(self) -> None:
        """End expired leases. Raises MetadataError, after it has tried all of them."""
        failure: MetadataError | None = None
        for run_id in await self._sweeping.expired(EXPIRE_AT_ONCE):
            try:
                state = await self._sweeping.expire(run_id)
            except MetadataError as error:
                failure = error  # other tenants must not wait for a failure of this one
                continue
            if state is not None:
                metrics.export_leases_expired.labels(state).inc()
        if failure is not None:
            raise failure

    async def note(self) -> None:
        """Note the ends of the lanes of exports, and the load. Raises MetadataError."""
        await self._sweeping.note_ends(self._ends(await self._sweeping.lanes()))
        load = await self._sweeping.load()
        metrics.export_runs_live.labels("queued").set(load.queued)
        metrics.export_runs_live.labels("running").set(load.running)
        metrics.export_wait_seconds.set(load.waited_s)
        metrics.export_lag.set(load.lag)

    def _ends(self, lanes: list[LaneKey]) -> Iterator[tuple[LaneKey, int]]:
        for lane in lanes:
            if generations := self._topics.lanes.get(lane):
                info = self._sizes.of(lane, generations[-1])
                if info is not None:
                    yield lane, info.end
