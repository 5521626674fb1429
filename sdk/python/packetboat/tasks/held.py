"""Tasks that this worker has leased and not yet settled, and the extension of their leases."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.calls.work import MAX_LEASES
from packetboat.errors import PacketboatError
from packetboat.models.jobs import ClaimedTask
from packetboat.worker.outage import Backoff, is_passing

_log = logging.getLogger("packetboat.tasks")


class HeldTask:
    """One lease. Times are of the loop's clock."""

    __slots__ = ("ended", "extended_s", "lost", "on_gone", "over", "reporting", "task")

    def __init__(
        self, task: ClaimedTask, now_s: float, on_gone: Callable[[HeldTask], None]
    ) -> None:
        self.task: ClaimedTask = task
        self.extended_s: float = now_s
        """The time at which its lease was last known to begin anew."""
        self.on_gone: Callable[[HeldTask], None] = on_gone
        """Called once it is settled, or belongs to another worker."""
        self.reporting: bool = False
        self.lost: bool = False
        """The server has no such lease any more: there is nothing to settle."""
        self.ended: threading.Event = threading.Event()
        """Set once the result of the handler is not wanted; the handler's thread reads it."""
        self.over: asyncio.Event = asyncio.Event()
        """Set together with `ended`, for coroutines that wait on the loop."""

    def end(self) -> None:
        self.ended.set()
        self.over.set()

    def lose(self) -> None:
        self.lost = True
        self.end()


class HeldTasks:
    """The held tasks of one worker, over all its pools, by lease."""

    def __init__(self) -> None:
        self._held: dict[str, HeldTask] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldTask]:
        return iter(tuple(self._held.values()))

    def add(self, held: HeldTask) -> None:
        self._held[held.task.lease_id] = held

    def find(self, lease_id: str) -> HeldTask | None:
        return self._held.get(lease_id)

    def discard(self, held: HeldTask) -> None:
        if self._held.pop(held.task.lease_id, None) is not None:
            held.on_gone(held)


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
            elif not held.reporting:
                _log.info("task %d of %s: its lease is lost", held.task.index, held.task.job)
                held.lose()
        for lease_id in settled.cancelled:
            if (cancelled := self._held.find(lease_id)) is not None and not cancelled.reporting:
                cancelled.lose()
