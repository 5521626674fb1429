"""Many workers over several processes' connections: each task once, no pool over its limit."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from metadata.jobs.claims import Wanted
from metadata.jobs.machine import Complete, Fail, Release, Verdict
from metadata.jobs.transaction import TaskTransition
from metadata.jobs.types import JobSpec, Parent
from scheduler.job_keeper import JobKeeper
from tests.integration.jobs.conftest import OpenDesk
from tests.integration.jobs.job_support import TENANT, Desk

TASKS = 300
DESKS = 3
WORKERS_OF_A_DESK = 4
DEADLINE_S = 120.0


class Crowd:
    """Workers that complete, fail, give back, forget and come too late, until the job has ended."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counted: Counter[tuple[str, int]] = Counter()
        """Completions that were answered as done, without repeats."""
        self.over = False

    async def work(self, desk: Desk, batch: int) -> None:
        while not self.over:
            tasks = await desk.leases.claim(TENANT, Wanted("p", ("map", "reduce"), batch, 0.5))
            if not tasks:
                await asyncio.sleep(0.01)
                continue
            if self.random.random() < 0.05:
                continue  # it died
            if self.random.random() < 0.05:
                await asyncio.sleep(1.0)  # it was paused past its leases
            items = [TaskTransition(task.lease, self._what()) for task in tasks]
            verdicts = await desk.leases.apply(TENANT, items)
            if self.random.random() < 0.3:
                again = await desk.leases.apply(TENANT, items)
                self._compare_repeats(items, verdicts, again)
            for task, item, verdict in zip(tasks, items, verdicts, strict=True):
                if isinstance(item.what, Complete) and verdict is Verdict.DONE:
                    self.counted[task.job, task.lease.number] += 1

    def _what(self) -> Complete | Fail | Release:
        chance = self.random.random()
        if chance < 0.05:
            return Fail("x", retry=True, delay_s=self.random.choice([0.0, 0.05]))
        return Release() if chance < 0.1 else Complete(b"1")

    def _compare_repeats(
        self, items: list[TaskTransition], verdicts: list[Verdict], again: list[Verdict]
    ) -> None:
        for item, before, after in zip(items, verdicts, again, strict=True):
            if isinstance(item.what, Complete):
                assert before is after


async def test_each_task_counts_once_and_no_pool_is_over_its_limit(open_desk: OpenDesk) -> None:
    desks = [await open_desk() for _ in range(DESKS)]
    first, crowd, most = desks[0], Crowd(7), 20
    await first.pools.put(TENANT, "p", most)
    names = ["a", "b"]
    for name in names:
        await first.job(name, TASKS // 2, pool="p", reduce_kind="reduce", max_attempts=100)
    keeper = JobKeeper(first.database, 0.05)
    async with asyncio.TaskGroup() as tasks:
        owned = [tasks.create_task(keeper.run()), tasks.create_task(_watch(first, most))]
        for at, desk in enumerate(desks):
            for _ in range(WORKERS_OF_A_DESK):
                tasks.create_task(crowd.work(desk, at * 7 + 1))
        async with asyncio.timeout(DEADLINE_S):
            while {await first.state(name) for name in names} != {"succeeded"}:
                await asyncio.sleep(0.05)
        crowd.over = True
        for task in owned:
            task.cancel()
    # The job counts a task that a worker was told is done. A repeat after an answer is not counted.
    assert set(crowd.counted.values()) == {1}
    for name in names:
        job = await first.get(name)
        assert (job.tasks.succeeded, job.result) == (TASKS // 2, b"1")
        pages = await first.reader.outputs(TENANT, name, page_size=1000)
        assert [each.output for each in pages.items] == [b"1"] * (TASKS // 2)
    assert sum(crowd.counted.values()) == TASKS + len(names)


async def _watch(desk: Desk, most: int) -> None:
    query = (
        "SELECT count(*) FROM job_tasks WHERE state = 'running' AND lease_until > clock_timestamp()"
    )
    while True:
        assert await desk.ask(query) <= most
        await asyncio.sleep(0.005)


async def test_children_and_parents_that_end_at_once_do_not_wait_for_each_other(
    open_desk: OpenDesk,
) -> None:
    """Locks are taken from the deepest job up: nothing here ends by a deadlock."""
    desks = [await open_desk() for _ in range(DESKS)]
    first = desks[0]
    await first.job("parent", 40, reduce_kind="reduce", pool="p")
    over = asyncio.Event()

    async def work(desk: Desk) -> None:
        while not over.is_set():
            tasks = await desk.claim(5, pool="p")
            items = []
            for task in tasks:
                number = task.lease.number
                if task.job == "parent" and number >= 0:
                    child = f"child-{number}"
                    await _child(desk, child, number)
                    items.append(TaskTransition(task.lease, Complete(wait_for=child)))
                else:
                    items.append(TaskTransition(task.lease, Complete(b"1")))
            assert set(await desk.leases.apply(TENANT, items)) <= {Verdict.DONE}
            if not tasks:
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        for desk in desks:
            for _ in range(WORKERS_OF_A_DESK):
                tasks.create_task(work(desk))
        async with asyncio.timeout(DEADLINE_S):
            while await first.state("parent") != "succeeded":
                await asyncio.sleep(0.02)
        over.set()
    assert (await first.get("parent")).tasks.succeeded == 40


async def _child(desk: Desk, name: str, number: int) -> None:
    spec = JobSpec(name, "map", reduce_kind="reduce", pool="p", parent=Parent("parent", number))
    await desk.jobs.create(TENANT, spec)
    await desk.steps.add(TENANT, name, 0, [b"0", b"1"])
    await desk.steps.seal(TENANT, name, 2)
