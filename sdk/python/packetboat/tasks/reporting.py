"""Tells the server what became of tasks: all that ended while the last request was out goes with
the next one, again and again until it is confirmed. Leases say how much that can be.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Sequence

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.calls.work import MAX_LEASES
from packetboat.errors import InvalidRequest, PacketboatError
from packetboat.models.jobs import Completion, Failing, TaskFailure
from packetboat.models.task_results import TasksSettled
from packetboat.tasks.held import HeldTask, HeldTasks
from packetboat.tasks.outcomes import Done, Failed, Released, Report, Waits
from packetboat.worker.outage import Backoff, is_passing

MAX_BYTES = 1024 * 1024
"""The limit of bytes of outputs in one request of several tasks."""
MAX_PAUSE_S = 2.0
_log = logging.getLogger("packetboat.tasks")
Item = tuple[HeldTask, Report]


class Verb(enum.Enum):
    """The reports that the server accepts for many tasks in one request; each has one
    request at a time.
    """

    COMPLETE = "complete"
    FAIL = "fail"
    RELEASE = "release"


class ResultReporter:
    """`put` never waits."""

    def __init__(self, jobs: AsyncJobs, held: HeldTasks, tasks: asyncio.TaskGroup) -> None:
        self._jobs = jobs
        self._held = held
        self._tasks = tasks
        self._lanes: dict[Verb, list[Item]] = {verb: [] for verb in Verb}
        self._running: dict[Verb, asyncio.Task[None]] = {}

    def put(self, held: HeldTask, report: Report) -> None:
        """Nothing is said of a task whose lease is lost."""
        if held.lost:
            self._held.discard(held)
            return
        held.reporting = True
        verb = _verb_of(report)
        self._lanes[verb].append((held, report))
        if verb not in self._running:
            self._running[verb] = self._tasks.create_task(self._empty(verb))

    async def flush(self, timeout_s: float) -> bool:
        """Return whether all reports were confirmed or given up in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while running := set(self._running.values()):
            if (left_s := deadline_s - loop.time()) <= 0:
                for task in running:
                    task.cancel()
                return False
            await asyncio.wait(running, timeout=left_s)
        return True

    async def _empty(self, verb: Verb) -> None:
        try:
            while self._lanes[verb]:
                count = _fitting(self._lanes[verb])
                batch, self._lanes[verb] = self._lanes[verb][:count], self._lanes[verb][count:]
                await self._report(verb, batch)
        finally:
            del self._running[verb]

    async def _report(self, verb: Verb, batch: list[Item]) -> None:
        backoff = Backoff(MAX_PAUSE_S)
        while batch := [item for item in batch if self._is_held(item[0])]:
            try:
                settled = await self._send(verb, batch)
            except PacketboatError as error:
                if is_passing(error):
                    await asyncio.sleep(backoff.pause_s(error))
                    continue
                await self._refused(verb, batch, error)
                return
            batch = self._answered(batch, settled)
            if batch:
                await asyncio.sleep(backoff.pause_s(PacketboatError()))

    async def _send(self, verb: Verb, batch: Sequence[Item]) -> TasksSettled:
        match verb:
            case Verb.COMPLETE:
                return await self._jobs.complete([_completion(*item) for item in batch])
            case Verb.FAIL:
                return await self._jobs.fail([_failing(*item) for item in batch])
            case Verb.RELEASE:
                return await self._jobs.release([held.task.lease_id for held, _ in batch])

    def _answered(self, batch: list[Item], settled: TasksSettled) -> list[Item]:
        """Return the tasks to send again."""
        failed = {failure.index: failure for failure in settled.failures}
        again = []
        for index, (held, report) in enumerate(batch):
            failure = failed.get(index)
            if failure is not None and failure.status >= 500:
                again.append((held, report))
            elif failure is not None and failure.slug != "lease-lost":
                self._instead(held, report, f"{failure.slug}: {failure.detail}")
            else:
                self._gone(held, failure)
        return again

    async def _refused(self, verb: Verb, batch: list[Item], error: PacketboatError) -> None:
        """Handle a refusal of the whole request.

        If one task is wrong, the halves are sent apart, so that it does not hold up the others.
        """
        if isinstance(error, InvalidRequest) and len(batch) > 1:
            middle = len(batch) // 2
            await self._report(verb, batch[:middle])
            await self._report(verb, batch[middle:])
            return
        for held, report in batch:
            if isinstance(error, InvalidRequest):
                self._instead(held, report, str(error))
            else:
                _log.warning("a task is not settled and will be done again: %s", error)
                self._held.discard(held)

    def _instead(self, held: HeldTask, report: Report, reason: str) -> None:
        """Report a refused output as a failure; give up a failure that is refused, too."""
        if isinstance(report, Done | Waits):
            self.put(held, Failed(f"the output was refused: {reason}", retry=False))
        else:
            _log.warning("the report on a task was refused: %s", reason)
            self._held.discard(held)

    def _gone(self, held: HeldTask, failure: TaskFailure | None) -> None:
        if failure is not None:
            task = held.task
            _log.info("task %d of %s was too late: its lease is lost", task.index, task.job)
        self._held.discard(held)

    def _is_held(self, held: HeldTask) -> bool:
        return self._held.find(held.task.lease_id) is held


def _verb_of(report: Report) -> Verb:
    match report:
        case Done() | Waits():
            return Verb.COMPLETE
        case Failed():
            return Verb.FAIL
        case Released():
            return Verb.RELEASE


def _fitting(lane: Sequence[Item]) -> int:
    """Return the number of tasks that fit into one request."""
    size = 0
    for count, (_, report) in enumerate(lane[:MAX_LEASES]):
        size += len(bytes(report.output)) if isinstance(report, Done) else 100
        if count and size > MAX_BYTES:
            return count
    return min(len(lane), MAX_LEASES)


def _completion(held: HeldTask, report: Report) -> Completion:
    if isinstance(report, Done):
        return Completion(held.task.lease_id, output=report.output)
    assert isinstance(report, Waits)
    return Completion(held.task.lease_id, wait_for=report.job)


def _failing(held: HeldTask, report: Report) -> Failing:
    assert isinstance(report, Failed)
    return Failing(held.task.lease_id, report.error, report.retry, report.delay_s)
