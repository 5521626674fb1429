"""One pool of a worker: claims its tasks and runs as many at once as it may. Pools know nothing of
each other, so a full one holds up no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.calls.work import MAX_LEASES
from packetboat.errors import PacketboatError
from packetboat.models.jobs import ClaimedTask
from packetboat.tasks.definitions import Definition
from packetboat.tasks.held import HeldTask, HeldTasks
from packetboat.tasks.nested import start_nested
from packetboat.tasks.outcomes import Dropped, Failed, Nested, Outcome, Released, Report
from packetboat.tasks.reporting import ResultReporter
from packetboat.tasks.running import Processes, Running
from packetboat.worker.outage import Backoff, is_passing
from packetboat.worker.pace import Latency
from packetboat.worker.running import Stopping
from packetboat.worker.threads import Threads

PREFETCH_S = 0.25
"""Seconds of work that are claimed beside the running tasks: more than a round trip to the
server takes. Long tasks are not claimed early, so that other workers may do them.
"""
CLAIM_WAIT_S = 20.0
LAST_ANSWER_S = 0.2
"""Seconds for which a claim in progress may still be answered after the worker was told to stop."""
_log = logging.getLogger("packetboat.tasks")


class Shared(NamedTuple):
    """The parts that all pools of a worker share."""

    jobs: AsyncJobs
    definitions: Mapping[str, Definition]
    held: HeldTasks
    reporter: ResultReporter
    stopping: Stopping
    worker: str
    lease_s: float
    drain_s: float


class PoolWorker:
    """`run` once; it ends when the worker is to stop, or raises what will not pass by itself."""

    def __init__(self, name: str, concurrency: int, shared: Shared) -> None:
        self._name = name
        self._concurrency = concurrency
        self._shared = shared
        self._latency = Latency()
        self._threads = Threads(concurrency)
        self._processes = Processes()
        self._queue: asyncio.Queue[HeldTask | None] = asyncio.Queue()
        self._held = 0
        """Claimed and not gone."""
        self._room = asyncio.Event()

    async def run(self) -> None:
        work = {asyncio.ensure_future(self._work()) for _ in range(self._concurrency)}
        try:
            error = await self._claim_until_stopped(work)
            self._shared.stopping.ask_once()
            await self._drain(work)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            self._threads.close()
            await asyncio.to_thread(self._processes.close)
        if error is not None:
            raise error

    # Claiming.

    async def _claim_until_stopped(self, work: set[asyncio.Task[None]]) -> BaseException | None:
        """Claim tasks until told to stop; return the error that ended it before, if any."""
        claiming = asyncio.ensure_future(self._claim())
        told = asyncio.ensure_future(self._shared.stopping.wait())
        try:
            first = asyncio.FIRST_COMPLETED
            ended, _ = await asyncio.wait({claiming, told, *work}, return_when=first)
            if told in ended and not self._shared.stopping.at_once:
                await asyncio.wait({claiming}, timeout=LAST_ANSWER_S)
        finally:
            claiming.cancel()
            told.cancel()
            await asyncio.gather(claiming, told, return_exceptions=True)
        errors = (task.exception() for task in ended | {claiming} if not task.cancelled())
        return next((error for error in errors if error is not None), None)

    async def _claim(self) -> None:
        """Until the worker is to stop, or the server refuses for good."""
        backoff = Backoff()
        while not self._shared.stopping.asked:
            try:
                claimed = await self._claim_some(await self._wait_for_room())
            except PacketboatError as error:
                if not is_passing(error):
                    raise
                _log.warning("pool %s: no tasks for now: %s", self._name, error)
                await asyncio.sleep(backoff.pause_s(error))
                continue
            backoff.reset()
            self._take(claimed)

    async def _claim_some(self, count: int) -> Sequence[ClaimedTask]:
        shared = self._shared
        return await shared.jobs.claim(
            self._name,
            sorted(shared.definitions),
            max_tasks=min(count, MAX_LEASES),
            wait_seconds=CLAIM_WAIT_S,
            lease_seconds=shared.lease_s,
            worker=shared.worker,
        )

    def _take(self, claimed: Sequence[ClaimedTask]) -> None:
        now_s = _now()
        for task in claimed:
            held = HeldTask(task, now_s, self._gone)
            self._held += 1
            self._shared.held.add(held)
            self._queue.put_nowait(held)

    async def _wait_for_room(self) -> int:
        """Until half of the prefetch is used up: fewer and larger claims."""
        while self._free() < max(1, self._prefetch() // 2):
            self._room.clear()
            await self._room.wait()
        return self._free()

    def _free(self) -> int:
        return self._concurrency + self._prefetch() - self._held

    def _prefetch(self) -> int:
        mean_s = self._latency.mean_s
        if mean_s is None:
            return 0
        return min(MAX_LEASES, int(self._concurrency * PREFETCH_S / max(mean_s, 1e-4)))

    # Working.

    async def _work(self) -> None:
        while (held := await self._queue.get()) is not None:
            if held.lost:
                self._shared.held.discard(held)
            else:
                await self._do(held)

    async def _do(self, held: HeldTask) -> None:
        shared, began_s = self._shared, _now()
        definition = shared.definitions[held.task.kind]
        running = Running(shared.jobs, self._name, definition, held, self._threads, self._processes)
        try:
            report = await self._report_of(held, await running.outcome())
        except asyncio.CancelledError:
            shared.reporter.put(held, Released())
            raise
        shared.reporter.put(held, report)
        await running.left()
        self._latency.add(_now() - began_s)

    async def _report_of(self, held: HeldTask, outcome: Outcome) -> Report:
        match outcome:
            case Nested():
                return await start_nested(self._shared.jobs, outcome)
            case Dropped():
                return Failed("the handler gave up a task that was not cancelled")
            case _:
                return outcome

    def _gone(self, held: HeldTask) -> None:
        self._held -= 1
        self._room.set()

    # Ending.

    async def _drain(self, work: set[asyncio.Task[None]]) -> None:
        """Wait for running tasks to end; release tasks that have not begun at once."""
        while not self._queue.empty():
            held = self._queue.get_nowait()
            if held is not None:
                self._shared.reporter.put(held, Released())
        for _ in work:
            self._queue.put_nowait(None)
        at_once = asyncio.ensure_future(self._shared.stopping.wait_at_once())
        ends_s = _now() + self._shared.drain_s
        running = work
        while running and not at_once.done() and (left_s := ends_s - _now()) > 0:
            _, running = await asyncio.wait(
                {*running, at_once}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            running.discard(at_once)
        at_once.cancel()
        if running:
            _log.warning("pool %s: %d tasks did not end in time", self._name, len(running))


def _now() -> float:
    return asyncio.get_running_loop().time()
