"""Workers of tasks: leases, failures, pools apart, and how they end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
import pytest
from packetboat import NotAuthorized, Problem, Unavailable
from packetboat.models.jobs import JobSpec, TaskRetry
from packetboat.tasks import Reject, Release, RetryLater, TaskContext, Tasks, TaskWorker
from packetboat.transport import Request

from tests.unit.sdk.jobs_twin import JobsTwin
from tests.unit.sdk.tasks_support import async_client, until, working


class Hold:
    """Handlers that wait until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended: list[str] = []
        self.gate = threading.Event()

    def wait(self, context: TaskContext) -> None:
        """Wait in a thread, and look whether the task is cancelled."""
        self.begun += 1
        while not self.gate.wait(0.005):
            if context.cancelled:
                self.ended.append("cancelled")
                context.raise_if_cancelled()

    async def wait_async(self) -> None:
        self.begun += 1
        try:
            while not self.gate.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise


async def test_a_failed_attempt_is_followed_by_another() -> None:
    tasks, attempts = Tasks("t"), []

    @tasks.map(max_attempts=3, retry=TaskRetry(0.001, 0.01))
    async def flaky(value: int, context: TaskContext) -> int:
        attempts.append(context.attempt)
        if context.attempt < 3:
            raise OSError("not yet")
        return value

    async with async_client(JobsTwin()) as client, working(client, tasks):
        job = await client.jobs.run(flaky, [1])
        assert (await job.wait(timeout_s=60)).state == "succeeded"
    assert attempts == [1, 2, 3]


async def test_handlers_say_more_by_what_they_raise() -> None:
    twin, tasks, given_back = JobsTwin(), Tasks("t"), []

    @tasks.map(max_attempts=5)
    def judged(value: str, context: TaskContext) -> str:
        if value == "reject":
            raise Reject("never")
        if value == "retry" and context.attempt == 1:
            raise RetryLater("soon", delay_s=0.02)
        if value == "release" and not given_back:
            given_back.append(context.attempt)
            raise Release
        return f"{value} {context.attempt}"

    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(
            judged, ["reject", "retry", "release"], on_failure="continue", name="j"
        )
        await job.wait(timeout_s=60)
        outputs = [output async for output in job.outputs()]
    assert [output.value for output in outputs] == [None, "retry 2", "release 1"]
    assert outputs[0].error == "never"
    assert twin.jobs["j"].tasks[0].attempt == 1


async def test_leases_are_extended_while_handlers_run() -> None:
    twin, tasks, hold = JobsTwin(), Tasks("t"), Hold()

    @tasks.map
    def slow(value: int, context: TaskContext) -> int:
        hold.wait(context)
        return context.attempt

    async with async_client(twin) as client, working(client, tasks, lease_s=0.5):
        job = await client.jobs.run(slow, [1, 2, 3])
        await until(lambda: twin.log.count("POST /tasks:extend") >= 12)
        assert hold.begun == 3
        hold.gate.set()
        await job.wait(timeout_s=60)
        assert [output.value async for output in job.outputs()] == [1, 1, 1]


@pytest.mark.parametrize("where", ["thread", "loop"])
async def test_handlers_of_a_cancelled_job_are_told(where: str) -> None:
    tasks, hold = Tasks("t"), Hold()

    @tasks.map
    def in_thread(value: int, context: TaskContext) -> None:
        hold.wait(context)

    @tasks.map
    async def on_loop(value: int) -> None:
        await hold.wait_async()

    async with async_client(JobsTwin()) as client, working(client, tasks, lease_s=0.5):
        job = await client.jobs.run(in_thread if where == "thread" else on_loop, [1])
        await until(lambda: hold.begun)
        await job.cancel()
        await until(lambda: hold.ended)
        assert (await job.progress()).state == "cancelled"


async def test_a_handler_whose_lease_is_lost_is_told_and_its_output_dropped() -> None:
    """Another worker has it: the first to complete it counts."""
    twin, tasks, hold, late = JobsTwin(), Tasks("t"), Hold(), []
    last = asyncio.Event()

    @tasks.map
    def slow(value: int, context: TaskContext) -> int:
        if context.attempt == 1:
            with suppress(Exception):
                hold.wait(context)
            late.append(context.cancelled)
        return context.attempt

    @tasks.map
    async def goes_on(value: int) -> None:
        await last.wait()

    async with async_client(twin) as client:
        job = await client.jobs.run(slow, [1, 2], name="j")
        twin.jobs["j"].tasks[1].kind = goes_on.kind
        async with working(client, tasks, lease_s=0.5):
            await until(lambda: hold.begun)
            twin.jobs["j"].tasks[0].lease_until = 0
            await until(lambda: late)
            assert (await job.progress()).state == "running"
            last.set()
            await job.wait(timeout_s=60)
        values = [output.output async for output in client.jobs.outputs("j")]
    assert values == [msgspec.Raw(b"2"), msgspec.Raw(b"null")]
    assert late == [True]
    assert "POST /tasks:fail" not in twin.log


async def test_a_timeout_fails_the_attempt_and_frees_the_task() -> None:
    twin, tasks, hold = JobsTwin(), Tasks("t"), Hold()

    @tasks.map(timeout_s=0.05, max_attempts=1)
    def in_thread(value: int, context: TaskContext) -> None:
        hold.wait(context)

    @tasks.map(timeout_s=0.05, max_attempts=1)
    async def on_loop(value: int) -> None:
        await hold.wait_async()

    async with async_client(twin) as client, working(client, tasks):
        for task in (in_thread, on_loop):
            job = await client.jobs.run(task, [1])
            error = (await job.wait(timeout_s=60)).error or ""
            assert f"{task.kind} took longer than its 0.05 s" in error
        await until(lambda: len(hold.ended) == 2)


async def test_a_full_pool_holds_up_no_other() -> None:
    twin, tasks, hold = JobsTwin(), Tasks("t"), Hold()

    @tasks.map(pool="slow")
    def slow(value: int, context: TaskContext) -> None:
        hold.wait(context)

    @tasks.map(pool="fast")
    async def fast(value: int) -> int:
        return value

    async with async_client(twin) as client, working(client, tasks, pools={"slow": 2, "fast": 1}):
        stuck = await client.jobs.run(slow, range(10))
        await until(lambda: hold.begun == 2)
        job = await client.jobs.run(fast, range(50))
        assert (await job.wait(timeout_s=60)).tasks.succeeded == 50
        assert (hold.begun, twin.most_running["slow"]) == (2, 2)
        hold.gate.set()
        assert (await stuck.wait(timeout_s=60)).tasks.succeeded == 10


async def test_slow_tasks_are_not_hoarded() -> None:
    """Slow tasks wait at the server, where another worker can have them."""
    twin, tasks = JobsTwin(), Tasks("t")

    @tasks.map
    async def slow(value: int) -> None:
        await asyncio.sleep(0.4)

    async with async_client(twin) as client, working(client, tasks, pools={"default": 2}):
        job = await client.jobs.run(slow, range(8))
        await job.wait(timeout_s=60)
    assert twin.most_running["default"] <= 3


async def test_quick_tasks_are_claimed_and_completed_many_at_once() -> None:
    twin, tasks = JobsTwin(), Tasks("t")
    twin.latency_s = 0.005

    @tasks.map
    async def quick(value: int) -> int:
        return value

    async with async_client(twin) as client:
        job = await client.jobs.run(quick, range(2000))
        async with working(client, tasks, pools={"default": 4}):
            await job.wait(timeout_s=60)
    assert twin.log.count("POST /tasks:complete") < 200
    assert max(claim["tasks"] for claim in twin.claims) > 20


async def test_kinds_that_nobody_here_knows_are_left_alone() -> None:
    twin, tasks = JobsTwin(), Tasks("t")

    @tasks.map
    async def known(value: int) -> int:
        return value

    async with async_client(twin) as client, working(client, tasks):
        other = await client.jobs.run("elsewhere.task", [1])
        await (await client.jobs.run(known, [1])).wait(timeout_s=60)
        assert (await other.progress()).tasks.waiting == 1


async def test_a_worker_that_is_stopped_finishes_what_runs_and_gives_back_the_rest() -> None:
    twin, tasks, hold = JobsTwin(), Tasks("t"), Hold()

    @tasks.map
    def held(value: int, context: TaskContext) -> int:
        if value >= 20:
            hold.wait(context)
        return value

    async with async_client(twin) as client:
        job = await client.jobs.run(held, range(60), name="j")
        worker = TaskWorker(client, tasks, pools={"default": 2})
        running = asyncio.ensure_future(worker.arun())
        await until(lambda: hold.begun == 2 and twin.get_pool("default", {})["running"] > 2)
        worker.stop()
        await until(lambda: twin.get_pool("default", {})["running"] == 2)
        assert not running.done()
        hold.gate.set()
        await asyncio.wait_for(running, 60)
        assert (await job.progress()).tasks.succeeded == 22
        assert {task.attempt for task in twin.jobs["j"].tasks.values()} == {0, 1}
        waiting = [task for task in twin.jobs["j"].tasks.values() if task.state == "waiting"]
        assert {task.attempt for task in waiting} == {0}


@pytest.mark.parametrize("how", ["late", "at once"])
async def test_handlers_that_do_not_end_are_left_and_their_tasks_given_back(how: str) -> None:
    twin, tasks, hold = JobsTwin(), Tasks("t"), Hold()

    @tasks.map
    def stuck(value: int, context: TaskContext) -> None:
        hold.wait(context)

    async with async_client(twin) as client:
        await client.jobs.run(stuck, [1], name="j")
        drain_s = 0.05 if how == "late" else 600
        worker = TaskWorker(client, tasks, drain_s=drain_s)
        running = asyncio.ensure_future(worker.arun())
        await until(lambda: hold.begun)
        worker.stop()
        if how == "at once":
            worker.stop()
        await asyncio.wait_for(running, 60)
    assert (twin.jobs["j"].tasks[0].state, twin.jobs["j"].tasks[0].attempt) == ("waiting", 0)
    await until(lambda: hold.ended)


async def test_an_idle_worker_ends_soon() -> None:
    tasks = Tasks("t")

    @tasks.map
    async def nothing(value: int) -> None: ...

    async with async_client(JobsTwin()) as client, working(client, tasks):
        await asyncio.sleep(0)


async def test_an_outage_is_waited_out() -> None:
    """Results are reported when the server answers again; nothing is done twice."""
    twin, tasks, hold, done = JobsTwin(), Tasks("t"), Hold(), []
    down = False

    def fail(request: Request) -> None:
        if down:
            raise Unavailable(Problem(status=503))

    twin.faults.append(fail)

    @tasks.map
    def once(value: int, context: TaskContext) -> int:
        hold.wait(context)
        done.append(value)
        return value

    async with async_client(twin) as client, working(client, tasks, pools={"default": 4}):
        job = await client.jobs.run(once, range(4))
        await until(lambda: hold.begun == 4)
        down = True
        hold.gate.set()
        await until(lambda: len(done) == 4)
        asked = len(twin.log)
        await until(lambda: len(twin.log) > asked + 3)
        down = False
        assert (await job.wait(timeout_s=60)).state == "succeeded"
    assert sorted(done) == [0, 1, 2, 3]


async def test_lost_replies_to_completions_do_no_harm() -> None:
    twin, tasks = JobsTwin(), Tasks("t")
    twin.lost_replies = [":complete", ":complete", ":fail", ":extend"]

    @tasks.map(retry=TaskRetry(0.001, 0.01))
    async def flaky(value: int, context: TaskContext) -> int:
        if context.attempt == 1 and value % 10 == 0:
            raise OSError("not yet")
        return value

    @tasks.reduce
    async def total(values: AsyncIterator[int]) -> int:
        return sum([value async for value in values])

    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(flaky, range(100), reduce=total)
        assert await job.result(timeout_s=60) == sum(range(100))


async def test_one_output_that_is_refused_fails_alone() -> None:
    """The twin refuses the request, as a server with other limits may.

    The other outputs of the request are not held up.
    """
    twin, tasks = JobsTwin(), Tasks("t")
    twin.latency_s = 0.005

    @tasks.map
    async def echo(value: str) -> str:
        return value

    async with async_client(twin) as client, working(client, tasks):
        job = await client.jobs.run(echo, ["a", "refuse me", "b"], on_failure="continue")
        await job.wait(timeout_s=60)
        outputs = [output async for output in job.outputs()]
    assert [output.value for output in outputs] == ["a", None, "b"]
    assert "the output was refused" in (outputs[1].error or "")


async def test_a_worker_that_may_not_claim_ends_with_the_reason() -> None:
    twin, tasks = JobsTwin(), Tasks("t")

    @tasks.map
    async def nothing(value: int) -> None: ...

    def refuse(request: Request) -> None:
        raise NotAuthorized(Problem(status=403))

    twin.faults.append(refuse)
    async with async_client(twin) as client:
        with pytest.raises(NotAuthorized):
            await asyncio.wait_for(TaskWorker(client, tasks).arun(), 60)


def test_a_worker_without_a_pool_is_a_mistake() -> None:
    tasks = Tasks("t")
    client = async_client(JobsTwin())
    for pools in ({}, {"default": 0}):
        with pytest.raises(ValueError, match="pool"):
            TaskWorker(client, tasks, pools=pools)


def test_a_worker_asks_for_so_many_kinds_at_most() -> None:
    tasks = Tasks("t")
    for number in range(101):
        tasks.map(name=f"task-{number}")(lambda value: value)
    with pytest.raises(ValueError, match="101 kinds"):
        TaskWorker(async_client(JobsTwin()), tasks)


async def test_limits_of_pools_hold_over_workers() -> None:
    twin, tasks = JobsTwin(), Tasks("t")
    running = most = 0

    @tasks.map
    async def counted(value: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    async with async_client(twin) as client:
        await client.pools.put("default", max_running=3)
        job = await client.jobs.run(counted, range(60))
        async with working(client, tasks), working(client, tasks):
            await job.wait(timeout_s=60)
    assert most <= 3


async def test_a_worker_runs_in_a_thread_and_is_stopped_from_another() -> None:
    twin, tasks = JobsTwin(), Tasks("t")

    @tasks.map
    def quick(value: int) -> int:
        return value

    async with async_client(twin) as client:
        await client.jobs.put("j", JobSpec(map="t.quick"))
        worker = TaskWorker(async_client(twin), tasks)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        job = await client.jobs.run(quick, range(5))
        await job.wait(timeout_s=60)
        worker.stop()
        ends_s = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < ends_s:
            await asyncio.sleep(0.005)
        assert not thread.is_alive()


@pytest.mark.parametrize("poison", ["cancels itself", "exits", "wrong phase", "wrong part"])
async def test_no_task_ends_its_worker(poison: str) -> None:
    """The mistake of one job does not disturb other jobs."""
    tasks = Tasks("t")

    @tasks.map(max_attempts=1)
    async def cancels_itself(value: int) -> None:
        raise asyncio.CancelledError

    @tasks.map(max_attempts=1)
    def exits(value: int) -> None:
        raise SystemExit(3)

    @tasks.map
    async def fine(value: int) -> int:
        return value

    @tasks.fold
    async def join(left: int, right: int) -> int:
        return left + right

    kinds: dict[str, tuple[str, str | None, str]] = {
        "cancels itself": ("t.cancels_itself", None, "was cancelled, and not by its worker"),
        "exits": ("t.exits", None, "SystemExit: 3"),
        "wrong phase": ("t.fine", "t.fine", "t.fine is no reduce task"),
        "wrong part": ("t.join.part", None, "Expected `object`"),
    }
    kind, reduce, word = kinds[poison]
    async with async_client(JobsTwin()) as client, working(client, tasks, pools={"default": 1}):
        job = await client.jobs.run(kind, [1], reduce=reduce)
        assert word in ((await job.wait(timeout_s=60)).error or "")
        assert (await (await client.jobs.run(fine, [1])).wait(timeout_s=60)).state == "succeeded"
