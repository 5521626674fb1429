"""Extends the leases of a worker's tasks, and learns by it which results are not wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.calls.work import MAX_LEASES
from packetboat.errors import PacketboatError
from packetboat.tasks.held import HeldTask, HeldTasks
from packetboat.worker.outage import Backoff, is_passing

_log = logging.getLogger("packetboat.tasks")


class TaskLeases:
    """Each lease is extended when a third of it is over, so two extensions may be lost."""

    def __init__(self, jobs: AsyncJobs, held: HeldTasks, lease_s: float) -> None:
        self._jobs = jobs
        self._held = held
        self._lease_s = lease_s
        self._backoff = Backoff(lease_s / 6)

    async def keep(self) -> None:
        """Extend the leases until cancelled."""
        while True:
            await asyncio.sleep(self._lease_s / 6)
            now_s = asyncio.get_running_loop().time()
            due = [held for held in self._held if now_s - held.extended_s >= self._lease_s / 6]
            for at in range(0, len(due), MAX_LEASES):
                await self._extend(due[at : at + MAX_LEASES])

    async def _extend(self, due: Sequence[HeldTask]) -> None:
        asked_s = asyncio.get_running_loop().time()
        try:
            settled = await self._jobs.extend([held.task.lease_id for held in due], self._lease_s)
        except PacketboatError as error:
            _log.warning("leases of %d tasks are not extended for now: %s", len(due), error)
            if is_passing(error):
                await asyncio.sleep(self._backoff.pause_s(error))
            return
        self._backoff.reset()
        lost = {failure.index for failure in settled.failures if failure.status < 500}
        for index, held in enumerate(due):
            if index not in lost:
                held.extended_s = asked_s
            elif not held.settling:
                _log.info("task %d of %s: its lease is lost", held.task.index, held.task.job)
                held.lose()
        for lease_id in settled.cancelled:
            if (cancelled := self._held.find(lease_id)) is not None and not cancelled.settling:
                cancelled.lose()
