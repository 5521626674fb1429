"""Any order of requests, crashes and time, on a real Postgres, against a plain twin."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from metadata.errors import NotFound
from metadata.jobs.machine import Complete, Fail, Release, Transition, Verdict
from metadata.jobs.steps import JobEnded, JobLive
from metadata.jobs.types import JobSpec, LeasedTask, Parent
from scheduler.job_keeper import JobKeeper
from tests.integration.jobs.job_support import TENANT, Desk
from tests.integration.jobs.job_twin import REDUCE, Twin, TwinJob

STEPS = 150
MAX_JOBS = 8
SEEDS = range(4)
COUNTS = ("complete", "wait_for")
"""Transitions that are answered as done exactly if they were done.

Other repeats have no such promise.
"""


@dataclass(frozen=True)
class Held:
    """A lease that some worker remembers, good or not."""

    job: str
    task: LeasedTask

    @property
    def place(self) -> tuple[str, int, str]:
        return self.job, self.task.lease.number, str(self.task.lease)


class Walk:
    """One random walk; both sides take each step, and are compared after it."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.desk = desk
        self.keeper = JobKeeper(desk.database, 1.0)
        self.random = random.Random(seed)
        self.twin = Twin()
        self.held: list[Held] = []
        self.made = 0
        self.trace: list[str] = []

    async def run(self) -> None:
        steps = (
            *(self.create, self.add, self.add, self.seal, self.claim, self.claim, self.claim),
            *(self.complete, self.complete, self.complete, self.nest, self.nest, self.fail),
            *(self.release, self.expire, self.forget, self.cancel, self.retry, self.delete),
            self.sweep,
        )
        for _ in range(STEPS):
            step = self.random.choice(steps)
            self.trace.append(step.__name__)
            await step()
            await self.compare()

    # The steps.

    async def create(self, parent: tuple[str, int] | None = None) -> str | None:
        if len(self.twin.jobs) >= MAX_JOBS:
            return None
        self.made += 1
        name = f"j{self.made}"
        job = TwinJob(
            reduce=self.random.random() < 0.5,
            max_attempts=self.random.randint(1, 3),
            on_failure=self.random.choice(["fail", "continue"]),
            max_failed=self.random.choice([None, 0, 1]),
            parent=parent,
        )
        spec = JobSpec(
            name,
            "map",
            reduce_kind="reduce" if job.reduce else None,
            max_attempts=job.max_attempts,
            min_backoff_s=0.0,
            on_failure=job.on_failure,
            max_failed=job.max_failed,
            parent=Parent(*parent) if parent else None,
        )
        await self.desk.jobs.create(TENANT, spec)
        self.twin.jobs[name] = job
        return name

    async def add(self) -> None:
        name = self._job(lambda job: job.live and job.sealed is None)
        if name is None:
            return
        # Some again: they are there.
        there = self.twin.jobs[name].maps("waiting", "running", "nested", "succeeded", "failed")
        first = self.random.randint(0, there)
        count = self.random.randint(1, 4)
        inputs = [str(at).encode() for at in range(first, first + count)]
        total = await self.desk.steps.add(TENANT, name, first, inputs)
        self.twin.add(name, first, count)
        assert total == max(there, first + count)

    async def seal(self) -> None:
        name = self._job(lambda job: job.live and job.sealed is None)
        if name is not None:
            self.twin.seal(name)
            sealed = self.twin.jobs[name].sealed
            assert sealed is not None
            await self.desk.steps.seal(TENANT, name, sealed)
            await self.desk.steps.seal(TENANT, name, sealed)

    async def claim(self) -> None:
        most = self.random.randint(1, 4)
        waiting = self.twin.waiting()
        got = await self.desk.claim(most)
        assert len(got) == min(most, len(waiting)), waiting
        for task in got:
            place = task.job, task.lease.number
            assert place in waiting
            assert self.twin.claimed(*place, str(task.lease)) == task.attempt
            self.held.append(Held(task.job, task))

    async def complete(self) -> None:
        held = self._held()
        if held is None:
            return
        output = str(self.random.randint(0, 9)).encode()
        if await self._apply(held, Complete(output), "complete"):
            self.twin.complete(*held.place[:2], output)

    async def nest(self) -> None:
        """Create a child that may be filled and sealed, and let its parent's task wait for it."""
        held = self._held()
        if held is None or not self.twin.holds(*held.place):
            return
        child = await self.create(held.place[:2])
        if child is None or self.random.random() < 0.2:
            return
        if self.random.random() < 0.3:
            self.twin.seal(child)
            await self.desk.steps.seal(TENANT, child, 0)
        if await self._apply(held, Complete(wait_for=child), "wait_for"):
            self.twin.wait_for(*held.place[:2], child)

    async def fail(self) -> None:
        held, retry = self._held(), self.random.random() < 0.7
        if held is not None and await self._apply(held, Fail("x", retry, 0.0), "fail"):
            self.twin.fail(*held.place[:2], retry=retry)

    async def release(self) -> None:
        held = self._held()
        if held is not None and await self._apply(held, Release(), "release"):
            self.twin.release(*held.place[:2])

    async def expire(self) -> None:
        """Some leases are over, and the scheduler sees it."""
        held = self._held()
        if held is None:
            return
        lease = held.task.lease
        await self.desk.ask(
            "UPDATE job_tasks SET lease_until = clock_timestamp() - interval '1 s'"
            " WHERE job_uid = $1 AND number = $2 AND lease = $3 AND state = 'running'",
            *(lease.job_uid, lease.number, lease.secret),
        )
        over = self.twin.holds(*held.place)
        await self.keeper.expire()
        if over:
            self.twin.expire(*held.place[:2])

    async def forget(self) -> None:
        """A worker dies, and with it what it holds."""
        for held in [each for each in self.held if self.twin.holds(*each.place)]:
            if self.random.random() < 0.5:
                self.held.remove(held)
                self.held.append(held)  # it may come back, late
        while len(self.held) > 20:
            self.held.pop(0)

    async def cancel(self) -> None:
        name = self._job(lambda job: self.random.random() < 0.3)
        if name is not None:
            self.twin.cancel(name)
            await self.desk.steps.cancel(TENANT, name)
            await self._sweep()

    async def retry(self) -> None:
        name = self._job(lambda job: True)
        if name is None:
            return
        await self._sweep()
        state = self.twin.jobs[name].state
        refused = {"reducing": JobLive, "succeeded": JobEnded}.get(state)
        if refused is None and self.twin.is_orphan(name):
            refused = JobEnded
        if refused is not None:
            with pytest.raises(refused):
                await self.desk.steps.retry(TENANT, name)
        else:
            await self.desk.steps.retry(TENANT, name)
            self.twin.retry(name)

    async def delete(self) -> None:
        name = self._job(lambda job: not job.live)
        if name is not None:
            await self._sweep()
            await self.desk.steps.delete(TENANT, name, force=False)
            del self.twin.jobs[name]
            await self._sweep()  # of its children nobody waits any more

    async def sweep(self) -> None:
        await self._sweep()
        await self.keeper.prune()

    # Helpers of the steps.

    async def _sweep(self) -> None:
        await self.keeper.sweep()
        self.twin.end_orphans()

    def _job(self, good: object) -> str | None:
        assert callable(good)
        names = [name for name, job in self.twin.jobs.items() if good(job)]
        return self.random.choice(names) if names else None

    def _held(self) -> Held | None:
        return self.random.choice(self.held) if self.held else None

    async def _apply(self, held: Held, what: Transition, how: str) -> bool:
        """Apply the transition and return whether the twin has to do the same: its lease holds
        and makes it for the first time.
        """
        holds = self.twin.holds(*held.place)
        repeated = self.twin.applied_by(*held.place, how)
        verdict = await self.desk.apply(held.task, what)
        if holds or (repeated and how in COUNTS):
            assert verdict is Verdict.DONE, (held.place, how)
        elif how in COUNTS:
            assert verdict is not Verdict.DONE, (held.place, how)
        return holds

    async def compare(self) -> None:
        for name, twin in self.twin.jobs.items():
            try:
                job = await self.desk.get(name)
            except NotFound:
                raise AssertionError(f"{name} is gone after {self.trace}") from None
            tasks = (await self.desk.reader.tasks(TENANT, name, page_size=100)).items
            expected = {number: twin.shown(task) for number, task in twin.tasks.items()}
            assert {each.number: each.state for each in tasks} == expected, (name, self.trace)
            assert job.state == twin.state, (name, self.trace)
            counts = job.tasks
            assert counts.total == sum(number >= 0 for number in twin.tasks)
            assert counts.succeeded == twin.maps("succeeded"), (name, self.trace)
            assert counts.failed == twin.maps("failed"), (name, self.trace)
            if twin.live:
                assert counts.running == twin.maps("running", "nested"), (name, self.trace)
                assert counts.waiting == twin.maps("waiting"), (name, self.trace)
            if twin.state == "succeeded":
                assert job.result == (twin.tasks[REDUCE].output if twin.reduce else None)


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_walk_of_jobs_is_what_the_twin_says(seed: int, desk: Desk) -> None:
    await Walk(desk, seed).run()
