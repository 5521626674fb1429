"""Makes the runs of exports by their schedules.

The decision is in Postgres (metadata/exports/ticks.py): each tick makes its run once, whichever
scheduler leads, and whatever the clocks here say. A clock that goes back makes nothing again,
because a schedule knows its next tick; one that goes forward makes the ticks in between late, by
the export's policy for missed runs. Postgres is asked regularly instead of when a tick is near, so
that only its own clock matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from cron.plan import BadSchedule, check, plan
from metadata.errors import MetadataError
from metadata.exports.ticks import DueExport, ExportTickRepository, Ticks
from scheduler import metrics

AT_ONCE = 200
MAX_LOOKS = 50
"""Looks per round; ticks that are due then wait for the next round."""
RETRY_AFTER_S = 30.0
"""Seconds after which a schedule that cannot be read here is tried again."""
_log = structlog.get_logger("packetboat.scheduler")


class ExportTicks:
    """Makes the runs of exports; one per process."""

    def __init__(
        self, schedules: ExportTickRepository, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._schedules = schedules
        self._monotonic_s = monotonic_s
        self._failing: dict[bytes, float] = {}

    async def round(self) -> None:
        """Make the runs that are due. Raises MetadataError, after it has tried all of them."""
        for _ in range(MAX_LOOKS):
            now_s = self._monotonic_s()
            self._failing = {uid: at_s for uid, at_s in self._failing.items() if at_s > now_s}
            due = await self._schedules.due(AT_ONCE, list(self._failing))
            failure: MetadataError | None = None
            for one in due:
                try:
                    await self._make(one)
                except MetadataError as error:
                    failure = error  # other exports must not wait for a failure of this one
            if failure is not None:
                raise failure
            if len(due) < AT_ONCE:
                return

    async def _make(self, due: DueExport) -> None:
        try:
            check(due.cron, due.time_zone)
            what = plan(due.cron, due.time_zone, due.missed_runs, due.at, due.now)
        except Exception as error:
            # A fault of one schedule must not keep the others from running.
            _log.error("a schedule of an export failed", export=due.name, exc_info=error)
            self._failing[due.uid] = self._monotonic_s() + RETRY_AFTER_S
            why = f"{error.field}: {error}" if isinstance(error, BadSchedule) else "internal error"
            await self._schedules.failed(due, why)
            return
        made = await self._schedules.make(due, Ticks(what.make, what.missed, what.then))
        if made is None:
            return
        if made.make is not None:
            metrics.export_runs.labels(due.kind).inc()
        metrics.export_ticks_missed.inc(made.missed)
        metrics.export_ticks_coalesced.inc(made.coalesced)
