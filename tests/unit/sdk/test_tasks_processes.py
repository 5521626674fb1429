"""Handlers in processes of their own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from packetboat.tasks import JobFailed, TaskRetry, Tasks, TaskWorker

from tests.unit.sdk import task_functions as functions
from tests.unit.sdk.jobs_twin import JobsTwin
from tests.unit.sdk.tasks_support import async_client, until, working

SOON = TaskRetry(0.01, 0.02)


def alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def test_tasks_run_elsewhere_and_come_back() -> None:
    async with (
        async_client(JobsTwin()) as client,
        working(client, functions.tasks, pools={"default": 1}),
    ):
        quick = await client.jobs.run(functions.fits, [1], max_attempts=1)
        assert (await quick.wait(timeout_s=60)).error is None
        job = await client.jobs.run(functions.square, range(300), reduce=functions.total)
        assert await job.result(timeout_s=60) == sum(n * n for n in range(300))
        one = await client.jobs.run(functions.square, [3, 4], reduce=functions.first)
        assert await one.result(timeout_s=60) == 9
        folded = await client.jobs.run(functions.square, range(8), reduce=functions.add)
        assert await folded.result(timeout_s=60) == sum(n * n for n in range(8))
        nested = await client.jobs.run(functions.squares_up_to, [3], reduce=functions.total)
        assert await nested.result(timeout_s=60) == 14
        ids = await client.jobs.run(functions.process_id, [1, 2, 3])
        await ids.wait(timeout_s=60)
        (process_id,) = {output.value async for output in ids.outputs()}
    assert process_id != os.getpid()
    assert not alive(process_id)


async def test_failures_elsewhere_are_told_and_the_next_task_has_a_process() -> None:
    async with (
        async_client(JobsTwin()) as client,
        working(client, functions.tasks, pools={"default": 1}),
    ):
        for task, word in (
            (functions.rejects, "7 is not for me"),
            (functions.hangs, "took longer than its 0.3 s"),
        ):
            with pytest.raises(JobFailed, match=word):
                await (await client.jobs.run(task, [7])).result(timeout_s=60)
        exited = await client.jobs.run(functions.exits, [7], max_attempts=1)
        with pytest.raises(JobFailed, match="SystemExit: 3"):
            await exited.result(timeout_s=60)
        killed = await client.jobs.run(functions.dies_at_first, [7], retry=SOON)
        await killed.wait(timeout_s=60)
        assert [output.value async for output in killed.outputs()] == [7]


async def test_a_process_of_a_cancelled_job_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    async with (
        async_client(JobsTwin()) as client,
        working(client, functions.tasks, pools={"default": 1}, lease_s=0.5),
    ):
        job = await client.jobs.run(functions.sleeps, [str(note)])
        await until(lambda: note.exists() and note.read_text())
        await job.cancel()
        await until(lambda: not alive(int(note.read_text())))


async def test_a_worker_that_stops_at_once_ends_its_processes(tmp_path: Path) -> None:
    note, twin = tmp_path / "pid", JobsTwin()
    async with async_client(twin) as client:
        await client.jobs.run(functions.sleeps, [str(note)], name="j")
        worker = TaskWorker(client, functions.tasks, pools={"default": 1})
        running = asyncio.ensure_future(worker.arun())
        await until(lambda: note.exists() and note.read_text())
        worker.stop()
        worker.stop()
        await asyncio.wait_for(running, 60)
    assert not alive(int(note.read_text()))
    assert twin.jobs["j"].tasks[0].state == "waiting"


async def test_leases_are_kept_while_a_process_computes() -> None:
    twin = JobsTwin()
    async with (
        async_client(twin) as client,
        working(client, functions.tasks, pools={"default": 2}, lease_s=0.6),
    ):
        job = await client.jobs.run(functions.spins, [1.5, 1.5], name="j")
        await job.wait(timeout_s=60)
    assert {task.attempt for task in twin.jobs["j"].tasks.values()} == {1}


def test_a_function_that_no_process_would_find_is_refused() -> None:
    tasks = Tasks("t")

    @tasks.map(isolation="process")
    def local(value: int) -> int:
        return value

    with pytest.raises(TypeError, match=r"t\.local"):
        TaskWorker(async_client(JobsTwin()), tasks)
