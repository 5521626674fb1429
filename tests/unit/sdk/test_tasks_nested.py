"""Jobs within jobs, and folds as trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from packetboat.tasks import NestedJob, Reject, TaskContext, Tasks
from packetboat.transport import Request

from tests.unit.sdk.jobs_twin import JobsTwin
from tests.unit.sdk.tasks_support import async_client, until, working

tasks = Tasks("tree")


@tasks.map
async def leaf(value: int) -> int:
    return value


@tasks.reduce
async def total(values: AsyncIterator[int]) -> int:
    return sum([value async for value in values])


@tasks.map
async def branch(width: int, context: TaskContext) -> NestedJob[int]:
    return context.job(leaf, range(width), reduce=total)


@tasks.map
async def trunk(width: int, context: TaskContext) -> NestedJob[int]:
    return context.job(branch, [width] * width, reduce=total)


@tasks.fold(fan_in=3)
async def join(left: str, right: str) -> str:
    return left + right


@tasks.map(max_attempts=1)
async def text(value: int) -> str:
    if value < 0:
        raise Reject("negative")
    return f"{value}."


async def test_a_nested_job_gives_the_output() -> None:
    twin = JobsTwin()
    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(branch, [3, 4], reduce=total, name="outer")
        assert await job.result(timeout_s=60) == 3 + 6
    assert set(twin.jobs) == {"outer", "outer.0", "outer.1"}
    assert twin.jobs["outer.1"].spec["parent"] == {"job": "outer", "index": 1, "phase": "map"}


async def test_a_nested_job_is_as_urgent_as_its_parent_unless_it_says_otherwise() -> None:
    twin, more = JobsTwin(), Tasks("more")

    @more.map
    async def calm(value: int, context: TaskContext) -> NestedJob[int]:
        return context.job(leaf, [value], reduce=total, priority=2)

    more.add(leaf, total, branch, text, join)
    async with async_client(twin) as client, working(client, more):
        for task in (branch, calm):
            job = await client.jobs.run(task, [1], reduce=total, priority=7, name=task.kind)
            await job.wait(timeout_s=60)
        folded = await client.jobs.run(text, range(4), reduce=join, priority=5, name="folded")
        assert await folded.result(timeout_s=60) == "0.1.2.3."
    names = ("tree.branch.0", "more.calm.0", "folded.reduce")
    assert [twin.jobs[name].spec["priority"] for name in names] == [7, 2, 5]


async def test_jobs_nest_more_than_once() -> None:
    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(trunk, [3, 2], reduce=total)
        assert await job.result(timeout_s=60) == 3 * 3 + 2 * 1


async def test_an_attempt_goes_on_with_the_nested_job_of_the_one_before() -> None:
    """The first attempt dies between the start of the nested job and the report of it."""
    twin, died = JobsTwin(), []

    def die(request: Request) -> None:
        if request.path == "/tasks:complete" and b"wait_for" in request.body and not died:
            died.append(twin.jobs["outer.0"].state)
            twin.jobs["outer"].tasks[0].lease_until = 0

    twin.faults.append(die)
    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(branch, [3], reduce=total, name="outer")
        assert await job.result(timeout_s=60) == 3
    assert died
    assert twin.jobs["outer"].tasks[0].attempt == 2
    assert len(twin.jobs["outer.0"].tasks) == 3


async def test_a_retried_task_retries_its_nested_job() -> None:
    broken = True
    more = Tasks("more")

    @more.map(max_attempts=1)
    async def fragile(value: int) -> int:
        if broken:
            raise ValueError("broken")
        return value

    @more.map
    async def outer(value: int, context: TaskContext) -> NestedJob[int]:
        return context.job(fragile, [value], reduce=total)

    more.add(total)
    async with async_client(JobsTwin()) as client, working(client, more):
        job = await client.jobs.run(outer, [5], reduce=total)
        ended = await job.wait(timeout_s=60)
        assert ended.state == "failed"
        assert "broken" in (ended.error or "")
        broken = False
        await job.retry()
        assert await job.result(timeout_s=60) == 5


async def test_a_cancelled_job_cancels_what_is_nested() -> None:
    twin = JobsTwin()
    without_leaves = Tasks("tree")
    without_leaves.add(branch)
    async with async_client(twin) as client, working(client, without_leaves):
        job = await client.jobs.run(branch, [3], reduce=total, name="outer")
        await until(lambda: twin.jobs["outer"].tasks[0].state == "waiting_for_job")
        await job.cancel()
        assert twin.jobs["outer.0"].state == "cancelled"


async def test_a_fold_of_many_is_a_tree_in_order() -> None:
    twin = JobsTwin()
    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(text, range(20), reduce=join, name="j")
        assert await job.result(timeout_s=60) == "".join(f"{n}." for n in range(20))
    levels = ("j", "j.reduce", "j.reduce.reduce")
    assert [len(twin.jobs[name].tasks) for name in levels] == [20, 7, 3]


async def test_a_fold_of_few_is_one_task() -> None:
    twin = JobsTwin()
    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(text, range(3), reduce=join, name="j")
        assert await job.result(timeout_s=60) == "0.1.2."
        empty = await client.jobs.run(text, [], reduce=join, name="e")
        assert await empty.result(timeout_s=60) is None
    assert set(twin.jobs) == {"j", "e"}


async def test_a_fold_leaves_out_what_failed_also_whole_parts() -> None:
    values = [1, -1, 2, -1, -1, -1, 3, -1, -1, 4, -1, 5, -1, -1, 6]
    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(text, values, reduce=join, on_failure="continue")
        assert await job.result(timeout_s=60) == "1.2.3.4.5.6."


async def test_a_large_reduce_reads_page_by_page() -> None:
    twin, pages = JobsTwin(), []

    def seen(request: Request) -> None:
        if "/outputs" in request.path:
            pages.append(request.path)

    twin.faults.append(seen)
    async with async_client(twin) as client:
        job = await client.jobs.run(leaf, range(1000), reduce=total)
        async with working(client, tasks):
            assert await job.result(timeout_s=120) == sum(range(1000))
    assert 3 < len(pages) < 10
    await asyncio.sleep(0)
