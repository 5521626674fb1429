"""Starting and following jobs, against the twin of the jobs API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from packetboat import Conflict, ConnectionFailed, UnknownOutcome
from packetboat.models.jobs import Job, JobSpec
from packetboat.tasks import JobCancelled, JobFailed, Tasks
from packetboat.tasks.uploads import PAGE_BYTES, PAGES_IN_FLIGHT, Page, Pages
from packetboat.transport import Request

from tests.unit.sdk.jobs_twin import JobsTwin
from tests.unit.sdk.tasks_support import async_client, until, working

tasks = Tasks("numbers")


@tasks.map
async def double(number: int) -> int:
    return 2 * number


@tasks.map(max_attempts=1)
async def odd_only(number: int) -> int:
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


@tasks.reduce
async def total(numbers: AsyncIterator[int]) -> int:
    return sum([number async for number in numbers])


def pages_of(values: object) -> list[Page]:
    pages = Pages()
    found = [page for value in values if (page := pages.add(value))]  # type: ignore[attr-defined]
    rest = pages.rest()
    return found + ([rest] if rest else [])


def test_pages_are_full_by_count_or_by_bytes() -> None:
    assert [len(page.inputs) for page in pages_of(range(2500))] == [1000, 1000, 500]
    assert [page.first_index for page in pages_of(range(2500))] == [0, 1000, 2000]
    large = pages_of(["x" * 60_000] * 40)
    assert len(large) > 1
    assert all(sum(map(len, page.inputs)) <= PAGE_BYTES for page in large)
    assert sum(len(page.inputs) for page in large) == 40


def test_an_input_that_is_too_large_is_named() -> None:
    with pytest.raises(ValueError, match="input 2 has 70002 bytes"):
        pages_of(["a", "b", "x" * 70_000])


async def test_a_job_runs_to_its_result() -> None:
    async with async_client(JobsTwin()) as client:
        job = await client.jobs.run(double, range(2500), reduce=total)
        async with working(client, tasks, pools={"default": 4}):
            assert await job.result(timeout_s=60) == sum(2 * n for n in range(2500))
        shown = await job.progress()
        assert (shown.state, shown.fraction, shown.tasks.succeeded) == ("succeeded", 1.0, 2500)


async def test_inputs_may_come_as_they_are_made() -> None:
    async def made() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(double, made())
        await job.wait(timeout_s=60)
        assert [output.value async for output in job.outputs()] == [0, 2, 4]
        assert await job.result() is None


async def test_few_pages_are_on_their_way_at_once() -> None:
    twin, sent = JobsTwin(), 0

    def count(request: Request) -> None:
        nonlocal sent
        sent += request.path.endswith("/tasks")

    twin.faults.append(count)
    furthest = 0

    def inputs() -> Iterator[int]:
        nonlocal furthest
        for number in range(20_000):
            furthest = max(furthest, number // 1000 - sent)
            yield number

    async with async_client(twin) as client:
        job = await client.jobs.run(double, inputs(), name="many")
    assert twin.jobs["many"].total == 20_000
    assert furthest <= PAGES_IN_FLIGHT + 1
    assert job.name == "many"


async def test_each_request_of_a_start_has_its_timeout() -> None:
    twin, timeouts = JobsTwin(), list[float]()
    twin.faults.append(lambda request: timeouts.append(request.timeout_s))
    async with async_client(twin) as client:
        await client.jobs.run(double, range(10), timeout_s=8)
    assert len(timeouts) == 3
    assert all(7 < each <= 8 for each in timeouts)


async def test_an_upload_that_broke_off_goes_on_by_its_name() -> None:
    twin = JobsTwin()

    def breaks() -> Iterator[int]:
        yield from range(1500)
        raise OSError("the disk is gone")

    async with async_client(twin) as client:
        with pytest.raises(OSError, match="the disk"):
            await client.jobs.run(double, breaks(), name="again")
        assert twin.jobs["again"].state == "open"
        await client.jobs.run(double, range(1600), name="again")
        assert (twin.jobs["again"].state, len(twin.jobs["again"].tasks)) == ("running", 1600)
        await client.jobs.run(double, breaks(), name="again")  # It is sealed: nothing is read.
        assert len(twin.jobs["again"].tasks) == 1600


async def test_a_name_is_not_taken_for_another_job() -> None:
    async with async_client(JobsTwin()) as client:
        await client.jobs.run(double, [1], name="taken")
        with pytest.raises(Conflict):
            await client.jobs.run(double, [1], reduce=total, name="taken")
        open_job = await client.jobs.put("open", JobSpec(map="x"))
        await client.jobs.add_tasks(open_job.name, 0, [msgspec.Raw(b"1")])
        with pytest.raises(Conflict):
            await client.jobs.add_tasks(open_job.name, 0, [msgspec.Raw(b"2")])


async def test_lost_replies_and_refusals_start_it_once() -> None:
    twin = JobsTwin()
    twin.lost_replies = ["/jobs/once", "/tasks", ":seal"]
    refusals = [ConnectionFailed("not now"), UnknownOutcome("who knows")]

    def fail(request: Request) -> None:
        if refusals:
            raise refusals.pop()

    twin.faults.append(fail)
    async with async_client(twin, retry_for_s=60) as client:
        await client.jobs.run(double, range(3000), name="once")
    assert twin.jobs["once"].total == 3000
    assert not twin.lost_replies


async def test_a_failed_job_says_why() -> None:
    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(odd_only, [1, 2, 3], reduce=total)
        with pytest.raises(JobFailed, match="2 is even") as caught:
            await job.result(timeout_s=60)
        assert caught.value.job.state == "failed"
        (failure,) = [task async for task in job.failures()]
        assert (failure.index, failure.attempt) == (1, 1)
        assert "ValueError: 2 is even" in (failure.error or "")


async def test_a_job_that_bears_failures_reduces_the_rest() -> None:
    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(odd_only, range(10), reduce=total, on_failure="continue")
        assert await job.result(timeout_s=60) == 25
        outputs = [output async for output in job.outputs(page_size=3)]
        assert [output.value for output in outputs] == [None, 1, None, 3, None, 5, None, 7, None, 9]
        assert all("is even" in (output.error or "") for output in outputs[::2])


async def test_a_cancelled_job_has_no_result_and_may_be_retried() -> None:
    async with async_client(JobsTwin()) as client:
        job = await client.jobs.run(double, [1, 2], reduce=total)
        assert (await job.cancel()).state == "cancelled"
        with pytest.raises(JobCancelled):
            await job.result()
        await job.retry()
        async with working(client, tasks):
            assert await job.result(timeout_s=60) == 6


async def test_progress_is_told() -> None:
    seen: list[Job] = []
    async with async_client(JobsTwin()) as client:
        job = await client.jobs.run(double, range(10))
        waiting = asyncio.ensure_future(
            job.wait(timeout_s=60, progress=seen.append, progress_every_s=0.01)
        )
        await until(lambda: seen)
        async with working(client, tasks):
            assert (await waiting).finished
    assert (seen[0].fraction, seen[-1].fraction) == (0.0, 1.0)


async def test_a_wait_ends_in_time_and_the_job_goes_on() -> None:
    twin = JobsTwin()
    async with async_client(twin) as client:
        job = await client.jobs.run(double, [1])
        with pytest.raises(TimeoutError, match=job.name):
            await job.wait(timeout_s=0.05)
        assert twin.jobs[job.name].state == "running"


async def test_kinds_may_be_named_by_who_has_no_functions() -> None:
    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run("numbers.double", [1, 2], reduce="numbers.total")
        assert await client.jobs.handle(job.name, result_type=int).result(timeout_s=60) == 6


async def test_jobs_and_pools_are_listed() -> None:
    async with async_client(JobsTwin()) as client:
        for name in ("b", "a", "c"):
            await client.jobs.run(double, [1], name=name)
        assert [job.name async for job in client.jobs.list(page_size=2)] == ["a", "b", "c"]
        assert [job.name async for job in client.jobs.list(state="failed")] == []
        await client.pools.put("default", max_running=2)
        (pool,) = [pool async for pool in client.pools.list()]
        assert (pool.max_running, pool.waiting) == (2, 3)
        await client.pools.delete("default")
        assert (await client.pools.get("default")).max_running is None
