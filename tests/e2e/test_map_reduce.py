"""Map and reduce with the SDK against a real installation."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from packetboat import AsyncClient, Client, Conflict, JobCancelled, JobFailed, NotFound
from packetboat.tasks import NestedJob, Reject, TaskContext, TaskRetry, Tasks, TaskWorker

from tests.e2e.installation import Installation

ROOT = Path(__file__).parents[2]
SOON = TaskRetry(min_backoff_seconds=0.05, max_backoff_seconds=0.1)
PATIENCE_S = 60.0
tasks = Tasks("e2e")


@tasks.map
async def double(number: int) -> int:
    return 2 * number


@tasks.map(max_attempts=3, retry=SOON)
async def flaky(number: int, context: TaskContext) -> list[int]:
    if context.attempt <= number:
        raise OSError(f"attempt {context.attempt} of {number}")
    return [number, context.attempt]


@tasks.map
async def picky(number: int) -> int:
    if number % 3 == 0:
        raise Reject(f"{number} is a multiple of three")
    return number


@tasks.map
async def branch(width: int, context: TaskContext) -> NestedJob[int]:
    return context.job(double, range(width), reduce=total)


@tasks.map(max_attempts=1)
def reads(path: str) -> int:
    return int(Path(path).read_text())


@tasks.map
async def outer(path: str, context: TaskContext) -> NestedJob[int]:
    return context.job(reads, [path], reduce=total)


@tasks.map
async def text(number: int) -> str:
    return f"{number}."


@tasks.map
async def endless(number: int, context: TaskContext) -> None:
    await asyncio.sleep(600)


@tasks.reduce
async def total(numbers: AsyncIterator[int]) -> int:
    return sum([number async for number in numbers])


@tasks.fold(fan_in=4)
async def join(left: str, right: str) -> str:
    return left + right


@pytest.fixture
async def client(running: Installation) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(running.url, running.token) as client:
        yield client


@pytest.fixture
def pool() -> str:
    """Return a pool of one test alone."""
    return f"pool-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def working(client: AsyncClient, pool: str, **options: Any) -> AsyncIterator[TaskWorker]:
    worker = TaskWorker(client, tasks, pools={pool: 4}, **options)
    running = asyncio.ensure_future(worker.arun())
    try:
        yield worker
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_job_from_its_inputs_to_its_result(client: AsyncClient, pool: str) -> None:
    job = await client.jobs.run(
        double, range(1500), reduce=total, pool=pool, reduce_pool=pool, labels={"made-by": "test"}
    )
    assert (await job.progress()).tasks.waiting == 1500
    async with working(client, pool):
        assert await job.result(timeout_s=PATIENCE_S) == 1500 * 1499
    shown = await job.progress()
    assert (shown.state, shown.fraction, shown.labels) == ("succeeded", 1.0, {"made-by": "test"})
    values = [output.value async for output in job.outputs(page_size=400)]
    assert values == [2 * number for number in range(1500)]
    await job.delete()
    with pytest.raises(NotFound):
        await job.progress()


async def test_what_fails_is_tried_again_with_its_error_kept(
    client: AsyncClient, pool: str
) -> None:
    async with working(client, pool):
        job = await client.jobs.run(flaky, [0, 1, 2], pool=pool)
        await job.wait(timeout_s=PATIENCE_S)
        assert [output.value async for output in job.outputs()] == [[0, 1], [1, 2], [2, 3]]
        failing = await client.jobs.run(flaky, [0, 9], pool=pool)
        with pytest.raises(JobFailed, match="attempt 3 of 9"):
            await failing.result(timeout_s=PATIENCE_S)
        (failure,) = [task async for task in failing.failures()]
        assert (failure.index, failure.attempt) == (1, 3)
        assert "in flaky" in (failure.error or "")


async def test_a_reduce_may_do_without_some(client: AsyncClient, pool: str) -> None:
    async with working(client, pool):
        options: Any = {"pool": pool, "reduce_pool": pool, "on_failure": "continue"}
        job = await client.jobs.run(picky, range(10), reduce=total, **options)
        assert await job.result(timeout_s=PATIENCE_S) == 1 + 2 + 4 + 5 + 7 + 8
        errors = {output.index: output.error async for output in job.outputs() if output.error}
        assert errors == {index: f"{index} is a multiple of three" for index in (0, 3, 6, 9)}
        strict = await client.jobs.run(picky, range(10), reduce=total, max_failed=3, **options)
        with pytest.raises(JobFailed):
            await strict.result(timeout_s=PATIENCE_S)


async def test_jobs_within_jobs(client: AsyncClient, pool: str) -> None:
    """Nested ones run where their tasks say."""
    async with working(client, pool), working(client, "default"):
        job = await client.jobs.run(branch, [3, 5], reduce=total, pool=pool, reduce_pool=pool)
        assert await job.result(timeout_s=PATIENCE_S) == 6 + 20
        assert (await client.jobs.get(f"{job.name}.1")).result == 20


async def test_a_job_that_is_retried_retries_what_is_nested(
    client: AsyncClient, pool: str, tmp_path: Path
) -> None:
    number = tmp_path / "number"
    async with working(client, pool), working(client, "default"):
        job = await client.jobs.run(outer, [str(number)], reduce=total, pool=pool, reduce_pool=pool)
        with pytest.raises(JobFailed, match="FileNotFoundError"):
            await job.result(timeout_s=PATIENCE_S)
        number.write_text("5")
        await job.retry()
        assert await job.result(timeout_s=PATIENCE_S) == 5


async def test_a_fold_is_a_tree_that_keeps_the_order(client: AsyncClient, pool: str) -> None:
    async with working(client, pool):
        job = await client.jobs.run(text, range(30), reduce=join, pool=pool, reduce_pool=pool)
        assert await job.result(timeout_s=PATIENCE_S) == "".join(f"{n}." for n in range(30))
        assert (await client.jobs.get(f"{job.name}.reduce")).tasks.total == 8


async def test_a_cancelled_job_ends_its_handlers(client: AsyncClient, pool: str) -> None:
    async with working(client, pool, lease_s=1.5) as worker:
        job = await client.jobs.run(endless, [1, 2], pool=pool)
        async with asyncio.timeout(PATIENCE_S):
            while (await job.progress()).tasks.running < 2:
                await asyncio.sleep(0.02)
            running = [task.worker async for task in client.jobs.tasks(job.name)]
            assert set(running) == {worker.name}
            await job.cancel()
            with pytest.raises(JobCancelled):
                await job.result()
            other = await client.jobs.run(double, range(10), pool=pool)
            assert (await other.wait()).state == "succeeded"


async def test_an_interrupted_upload_is_gone_on_with(client: AsyncClient, pool: str) -> None:
    name = f"again-{pool}"

    def breaks() -> Iterator[int]:
        yield from range(1200)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="gone"):
        await client.jobs.run(double, breaks(), reduce=total, name=name, pool=pool)
    assert (await client.jobs.get(name)).state == "open"
    job = await client.jobs.run(double, range(1300), reduce=total, name=name, pool=pool)
    assert (await job.progress()).tasks.total == 1300
    again = await client.jobs.run(double, range(1300), reduce=total, name=name, pool=pool)
    assert (await again.progress()).tasks.total == 1300
    with pytest.raises(Conflict):
        await client.jobs.run(text, range(3), name=name, pool=pool)
    await job.delete(force=True)


async def test_a_pool_holds_its_limit_and_its_neighbours_run(
    client: AsyncClient, pool: str
) -> None:
    other = f"{pool}-other"
    await client.pools.put(pool, max_running=1)
    async with working(client, pool, lease_s=1.5), working(client, other):
        stuck = await client.jobs.run(endless, range(5), pool=pool)
        async with asyncio.timeout(PATIENCE_S):
            while (await stuck.progress()).tasks.running < 1:
                await asyncio.sleep(0.02)
        job = await client.jobs.run(double, range(50), pool=other)
        assert (await job.wait(timeout_s=PATIENCE_S)).tasks.succeeded == 50
        shown = await client.pools.get(pool)
        assert (shown.max_running, shown.running, shown.waiting) == (1, 1, 4)
        await stuck.cancel()
    await client.pools.delete(pool)


@contextmanager
def worker_process(running: Installation, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "PACKETBOAT_URL": running.url,
        "PACKETBOAT_TOKEN": running.token,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "examples/word_count.py", "work", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_program_counts_words_and_its_worker_ends_by_a_signal(
    running: Installation, tmp_path: Path
) -> None:
    from examples.word_count import count, files_of, parts_of, summarize

    (tmp_path / "text.py").write_text("to be or not to be " * 500)
    seen = []
    with worker_process(running) as worker, Client(running.url, running.token) as client:
        job = client.jobs.run(count, parts_of(files_of(tmp_path), 40), reduce=summarize)
        job.wait(timeout_s=PATIENCE_S, progress=seen.append, progress_every_s=0.2)
        summary = job.result()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
    assert (summary.words, summary.most_common[0]) == (3000, ("be", 1000))
    assert seen[-1].finished


def test_a_worker_of_a_blocking_client_runs_in_a_thread(running: Installation, pool: str) -> None:
    with Client(running.url, running.token) as client:
        worker = TaskWorker(client, tasks, pools={pool: 2})
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        job = client.jobs.run(double, [1, 2, 3], reduce=total, pool=pool, reduce_pool=pool)
        assert job.result(timeout_s=PATIENCE_S) == 12
        worker.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
