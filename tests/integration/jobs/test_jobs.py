"""A job's life, on a real Postgres."""

from __future__ import annotations

import asyncio

import pytest

from gateway.middleware.errors import problem_of
from metadata.database import Connection, Database
from metadata.errors import MetadataUnavailable, NotFound
from metadata.jobs.claims import Extension
from metadata.jobs.jobs import JobLimits, TooManyStored
from metadata.jobs.machine import Complete, Verdict
from metadata.jobs.steps import JobLive, JobSealed, JobSteps, TaskDiffers, TasksMissing
from metadata.jobs.transaction import TaskTransition
from metadata.jobs.types import JobSpec, Parent
from scheduler.job_keeper import JobKeeper
from tests.integration.jobs.job_support import TENANT, Desk


async def test_a_job_maps_then_reduces_then_has_a_result(desk: Desk) -> None:
    job = await desk.job(reduce_kind="reduce", tasks=3)
    assert (job.state, job.tasks.total, job.tasks.waiting) == ("running", 3, 3)
    tasks = await desk.claim()
    assert [(task.input, task.attempt) for task in tasks] == [(b"0", 1), (b"1", 1), (b"2", 1)]
    assert (await desk.get()).tasks.running == 3
    assert await desk.complete(*tasks[:2]) == [Verdict.DONE] * 2
    assert await desk.claim() == []
    await desk.complete(tasks[2])
    assert await desk.state() == "reducing"
    (reduce,) = await desk.claim()
    assert (reduce.kind, reduce.lease.number, reduce.inputs_total) == ("reduce", -1, 3)
    await desk.complete(reduce, output=b"42")
    job = await desk.get()
    assert (job.state, job.result, job.tasks.succeeded) == ("succeeded", b"42", 3)
    assert job.finished_at is not None


async def test_a_child_s_result_is_the_output_of_the_task_that_waits_for_it(desk: Desk) -> None:
    await desk.job("parent", 1)
    (task,) = await desk.claim()
    await desk.job("child", 0, reduce_kind="reduce", parent=Parent("parent", 0))
    assert await desk.apply(task, Complete(wait_for="child")) is Verdict.DONE
    assert (await desk.get("parent")).tasks.running == 1
    (reduce,) = await desk.claim()
    await desk.complete(reduce, output=b'{"n":1}')
    assert await desk.state("child") == "succeeded"
    assert await desk.state("parent") == "succeeded"
    (output,) = (await desk.reader.outputs(TENANT, "parent")).items
    assert output.output == b'{"n":1}'


async def test_what_failed_for_good_fails_the_job_and_retry_revives_it(desk: Desk) -> None:
    await desk.job(max_attempts=2, tasks=2)
    first, second = await desk.claim()
    assert await desk.fail(first) is Verdict.DONE
    (again,) = await desk.claim()
    assert (again.lease.number, again.attempt) == (0, 2)
    await desk.fail(again)
    job = await desk.get()
    assert (job.state, job.error, job.tasks.cancelled) == ("failed", "task 0 failed: broken", 1)
    assert await desk.complete(second) == [Verdict.LOST]
    assert [task.state for task in (await desk.reader.tasks(TENANT, "count")).items] == [
        "failed",
        "cancelled",
    ]
    assert (await desk.steps.retry(TENANT, "count")).state == "running"
    await desk.complete(*await desk.claim())
    assert await desk.state() == "succeeded"


async def test_a_job_without_tasks_goes_straight_on(desk: Desk) -> None:
    assert (await desk.job("none", 0)).state == "succeeded"
    assert (await desk.job("reduced", 0, reduce_kind="reduce")).state == "reducing"
    (reduce,) = await desk.claim()
    assert reduce.inputs_total == 0


async def test_tasks_may_run_before_the_seal_and_are_there_once(desk: Desk) -> None:
    await desk.jobs.create(TENANT, JobSpec("count", "map"))
    assert await desk.steps.add(TENANT, "count", 0, [b"0", b"1"]) == 2
    await desk.complete(*await desk.claim())
    assert await desk.state() == "open"
    assert await desk.steps.add(TENANT, "count", 1, [b"1", b"2"]) == 3
    with pytest.raises(TaskDiffers) as different:
        await desk.steps.add(TENANT, "count", 1, [b"1", b"3"])
    assert different.value.number == 2
    await desk.complete(*await desk.claim())
    assert (await desk.steps.seal(TENANT, "count", 3)).state == "succeeded"


async def test_a_seal_names_exactly_the_tasks_there_are(desk: Desk) -> None:
    await desk.jobs.create(TENANT, JobSpec("count", "map"))
    await desk.steps.add(TENANT, "count", 1, [b"1", b"2"])
    for total in (0, 1, 2, 3):
        with pytest.raises(TasksMissing):
            await desk.steps.seal(TENANT, "count", total)
    await desk.steps.add(TENANT, "count", 0, [b"0"])
    await desk.steps.seal(TENANT, "count", 3)
    await desk.steps.seal(TENANT, "count", 3)
    with pytest.raises(JobSealed):
        await desk.steps.seal(TENANT, "count", 4)
    assert await desk.steps.add(TENANT, "count", 0, [b"0", b"1"]) == 3
    with pytest.raises(JobSealed):
        await desk.steps.add(TENANT, "count", 3, [b"3"])


async def test_jobs_of_one_priority_take_turns(desk: Desk) -> None:
    await desk.job("large", 100)
    assert {task.job for task in await desk.claim(10)} == {"large"}
    await desk.job("small", 5)
    order = [task.job for task in await desk.claim(10)]
    assert [order[: 2 * turn].count("small") for turn in range(1, 6)] == [1, 2, 3, 4, 5]
    await desk.job("urgent", 3, priority=9)
    assert [task.job for task in await desk.claim(4)] == ["urgent"] * 3 + ["large"]


async def test_who_was_served_before_does_not_wait_for_those_who_come(desk: Desk) -> None:
    """A job that comes while all others are handed out goes on from there, not from the start."""
    await desk.job("first", 50)
    await desk.claim(50)
    await desk.job("second", 20)
    await desk.jobs.create(TENANT, JobSpec("third", "map"))
    await desk.steps.add(TENANT, "third", 0, [b"0"] * 20)
    order = [task.job for task in await desk.claim(20)]
    assert order.count("second") == order.count("third") == 10


async def test_no_more_are_leased_than_the_pool_bears(desk: Desk) -> None:
    await desk.pools.put(TENANT, "default", 2)
    await desk.job(tasks=5)
    held = await desk.claim()
    assert len(held) == 2
    assert await desk.claim() == []
    await desk.complete(held[0])
    assert len(await desk.claim()) == 1
    await desk.end_leases()
    assert len(await desk.claim()) == 2
    (late,) = await desk.leases.extend(TENANT, [held[1].lease], 60.0)
    assert late.until is None, "an extension would make it one too many"
    pool = await desk.pools.get(TENANT, "default")
    assert (pool.max_running, pool.running, pool.waiting) == (2, 2, 0)
    await desk.pools.delete(TENANT, "default")
    assert (await desk.pools.get(TENANT, "default")).max_running is None


async def test_a_lease_is_extended_while_it_holds_and_told_when_its_job_has_ended(
    desk: Desk,
) -> None:
    await desk.job(tasks=2)
    tasks = await desk.claim(lease_s=60)
    leases = [task.lease for task in tasks]
    extended = await desk.leases.extend(TENANT, leases, 600.0)
    assert all(each.until and each.until > tasks[0].lease_until for each in extended)
    stale = leases[0]._replace(secret=bytes(16))
    assert await desk.leases.extend(TENANT, [stale], 60.0) == [Extension(None, False)]
    await desk.steps.cancel(TENANT, "count")
    assert await desk.leases.extend(TENANT, leases, 60.0) == [Extension(None, True)] * 2
    assert await desk.complete(*tasks) == [Verdict.LOST] * 2


async def test_leases_of_pools_that_are_not_allowed_are_lost(desk: Desk) -> None:
    await desk.job()
    (task, *_) = await desk.claim()
    items = [TaskTransition(task.lease, Complete(b"1"))]

    async def other(at: int, pool: str) -> bool:
        return pool == "other"

    verdicts = await desk.leases.apply(TENANT, items, other)
    assert verdicts == [Verdict.LOST]
    refused = await desk.leases.extend(TENANT, [task.lease], 1.0, other)
    assert refused == [Extension(None, False)]
    assert await desk.complete(task) == [Verdict.DONE]


async def test_a_delayed_task_comes_again_by_time_alone(desk: Desk) -> None:
    await desk.job(tasks=1)
    (task,) = await desk.claim()
    await desk.fail(task, delay_s=0.2)
    assert (await desk.get()).tasks.delayed == 1
    assert await desk.claim() == []
    async with asyncio.timeout(30):
        while not (again := await desk.claim()):
            await asyncio.sleep(0.02)
    assert again[0].attempt == 2


async def test_a_failing_reduce_task_fails_the_job_and_is_retried_alone(desk: Desk) -> None:
    await desk.job(tasks=1, reduce_kind="reduce")
    await desk.complete(*await desk.claim())
    (reduce,) = await desk.claim()
    await desk.fail(reduce, retry=False)
    assert (await desk.get()).error == "the reduce task failed: broken"
    assert (await desk.steps.retry(TENANT, "count")).state == "reducing"
    (reduce,) = await desk.claim()
    assert (reduce.kind, reduce.attempt) == ("reduce", 1)
    await desk.complete(reduce)
    assert await desk.state() == "succeeded"


async def test_failures_within_the_policy_are_left_out(desk: Desk) -> None:
    await desk.job(tasks=3, reduce_kind="reduce", on_failure="continue", max_failed=1)
    tasks = await desk.claim()
    await desk.fail(tasks[1], retry=False)
    await desk.complete(tasks[0], tasks[2])
    (reduce,) = await desk.claim()
    assert reduce.inputs_total == 2
    page = await desk.reader.outputs(TENANT, "count")
    assert [(each.number, each.output, each.error) for each in page.items] == [
        (0, b'"done"', None),
        (1, None, "broken"),
        (2, b'"done"', None),
    ]


async def test_one_failure_more_than_the_policy_bears_fails_the_job(desk: Desk) -> None:
    await desk.job(tasks=3, on_failure="continue", max_failed=1)
    tasks = await desk.claim()
    for task in tasks[:2]:
        await desk.fail(task, retry=False)
    assert await desk.state() == "failed"


async def test_a_child_that_ended_before_its_parent_waits_is_seen(desk: Desk) -> None:
    await desk.job("parent", 1)
    (task,) = await desk.claim()
    await desk.job("child", 0, parent=Parent("parent", 0))
    await desk.apply(task, Complete(wait_for="child"))
    assert await desk.state("parent") == "succeeded"


async def test_a_task_waits_for_its_own_child_only(desk: Desk) -> None:
    await desk.job("parent", 2)
    tasks = await desk.claim()
    await desk.job("child", 0, parent=Parent("parent", 1))
    await desk.job("nobodys", 0)
    for name in ("child", "nobodys", "nothing"):
        assert await desk.apply(tasks[0], Complete(wait_for=name)) is Verdict.NO_CHILD
    assert await desk.apply(tasks[1], Complete(wait_for="child")) is Verdict.DONE


async def test_cancelling_goes_down_and_failing_goes_up(desk: Desk) -> None:
    await desk.job("top", 1)
    (task,) = await desk.claim()
    await desk.job("middle", 1, parent=Parent("top", 0))
    await desk.apply(task, Complete(wait_for="middle"))
    (task,) = await desk.claim()
    await desk.job("bottom", 1, parent=Parent("middle", 0))
    await desk.apply(task, Complete(wait_for="bottom"))
    (task,) = await desk.claim()
    await desk.fail(task, retry=False)
    assert [await desk.state(name) for name in ("bottom", "middle", "top")] == ["failed"] * 3
    await desk.steps.retry(TENANT, "top")
    (task,) = await desk.claim()
    await desk.job("middle", 1, parent=Parent("top", 0))
    await desk.apply(task, Complete(wait_for="middle"))
    await desk.steps.cancel(TENANT, "top")
    assert await desk.state("middle") == "cancelled"


async def test_who_dies_between_a_cancel_and_its_children_leaves_them_to_the_sweep(
    desk: Desk,
) -> None:
    await desk.job("parent", 1)
    await desk.job("child", 1, parent=Parent("parent", 0))
    await desk.ask(
        "UPDATE jobs SET state = 'cancelled', sweep = true, finished_at = now()"
        " WHERE name = 'parent'"
    )
    keeper = JobKeeper(desk.database, 1.0)
    await keeper.sweep()
    assert await desk.state("child") == "cancelled"
    await keeper.sweep()  # of the child
    assert await desk.ask("SELECT count(*) FROM job_tasks WHERE state = 'waiting'") == 0
    assert await desk.ask("SELECT count(*) FROM jobs WHERE sweep") == 0


@pytest.mark.parametrize("way", ["cancel", "delete"])
async def test_a_job_that_ended_is_answered_as_ended_although_its_children_cannot_be_cancelled_yet(
    desk: Desk, hasty: Database, way: str
) -> None:
    """A lock on their rows holds until Postgres ends the wait; the sweep cancels them later."""
    await desk.job("parent", 1)
    await desk.job("child", 1, parent=Parent("parent", 0))

    async def end(connection: Connection) -> None:
        await connection.execute("SELECT FROM jobs WHERE name = 'child' FOR UPDATE")
        steps = JobSteps(hasty)
        if way == "cancel":
            assert (await steps.cancel(TENANT, "parent")).state == "cancelled"
        else:
            await steps.delete(TENANT, "parent", force=True)

    await desk.database.transaction(end)
    assert await desk.state("child") == "running"
    await JobKeeper(desk.database, 1.0).sweep()
    assert await desk.state("child") == "cancelled"


async def test_a_wait_for_a_lock_that_postgres_ends_is_answered_as_not_done(
    desk: Desk, hasty: Database
) -> None:
    await desk.job("held", 1)

    async def cancel(connection: Connection) -> MetadataUnavailable:
        await connection.execute("SELECT FROM jobs WHERE name = 'held' FOR UPDATE")
        with pytest.raises(MetadataUnavailable) as refused:
            await JobSteps(hasty).cancel(TENANT, "held")
        return refused.value

    problem = problem_of(await desk.database.transaction(cancel))
    assert problem is not None
    assert (problem.status, problem.extra) == (503, {"outcome": "not_done"})
    assert await desk.state("held") == "running"


async def test_deleting_frees_the_name_at_once_and_the_rows_by_and_by(desk: Desk) -> None:
    await desk.job()
    with pytest.raises(JobLive):
        await desk.steps.delete(TENANT, "count", force=False)
    (task, *_) = await desk.claim()
    await desk.steps.delete(TENANT, "count", force=True)
    with pytest.raises(NotFound):
        await desk.get()
    assert await desk.complete(task) == [Verdict.LOST]
    await desk.job(tasks=1)
    await JobKeeper(desk.database, 1.0).look()
    assert await desk.ask("SELECT count(*) FROM jobs") == 1
    assert await desk.ask("SELECT count(*) FROM job_tasks") == 1


async def test_a_look_ends_leases_that_are_over(desk: Desk) -> None:
    await desk.job(tasks=1)
    await desk.claim()
    keeper = JobKeeper(desk.database, 1.0)
    running = "SELECT count(*) FROM job_tasks WHERE state = 'running'"
    await keeper.look()
    assert await desk.ask(running) == 1
    await desk.ask("UPDATE job_tasks SET lease_until = clock_timestamp() WHERE state = 'running'")
    await keeper.look()
    assert await desk.ask(running) == 0


async def test_old_jobs_go(desk: Desk) -> None:
    await desk.job("brief", 0, keep_s=0)
    await desk.job("kept", 0)
    keeper = JobKeeper(desk.database, 1.0)
    await keeper.look()
    assert [job.name for job in (await desk.jobs.page(TENANT)).items] == ["kept"]
    assert await desk.ask("SELECT count(*) FROM jobs") == 1


async def test_what_a_tenant_keeps_is_bounded(desk: Desk) -> None:
    limits = JobLimits(max_jobs=1, max_tasks=3, max_bytes=10)
    await desk.jobs.create(TENANT, JobSpec("count", "map"), limits)
    with pytest.raises(TooManyStored, match="at most 1 jobs"):
        await desk.jobs.create(TENANT, JobSpec("more", "map"), limits)
    await desk.steps.add(TENANT, "count", 0, [b"0", b"1"], limits)
    with pytest.raises(TooManyStored, match="at most 3 tasks"):
        await desk.steps.add(TENANT, "count", 2, [b"2", b"3"], limits)
    with pytest.raises(TooManyStored, match="at most 10 bytes"):
        await desk.steps.add(TENANT, "count", 2, [b'"2345678"'], limits)


async def test_pages_of_outputs_end_where_they_are_large(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metadata.jobs.reading.MAX_PAGE_BYTES", 100)
    await desk.job(tasks=5)
    for task in await desk.claim():
        await desk.complete(task, output=b"1" * 60)
    seen, token = [], None
    while True:
        page = await desk.reader.outputs(TENANT, "count", page_size=2, page_token=token)
        assert len(page.items) == 1
        seen += [each.number for each in page.items]
        token = page.next_token
        if token is None:
            break
    assert seen == [0, 1, 2, 3, 4]


async def test_pages_of_tasks_end_with_the_reduce_task(desk: Desk) -> None:
    await desk.job(tasks=3, reduce_kind="reduce")
    await desk.complete(*await desk.claim())
    first = await desk.reader.tasks(TENANT, "count", page_size=3)
    assert [task.number for task in first.items] == [0, 1, 2]
    second = await desk.reader.tasks(TENANT, "count", page_size=3, page_token=first.next_token)
    assert [task.number for task in second.items] == [-1]
    assert second.next_token is None
    waiting = await desk.reader.tasks(TENANT, "count", state="waiting")
    assert [task.number for task in waiting.items] == [-1]


async def test_a_late_sweep_leaves_the_children_of_a_job_that_goes_on(desk: Desk) -> None:
    """The parent's retry finds its child again, and the task that waits for the child goes on.

    Before, a sweep that had seen the parent cancelled ended the child, and with it the waiting
    task.
    """
    await desk.job("parent", 1)
    await desk.job("child", 1, parent=Parent("parent", 0))
    await desk.ask(
        "UPDATE jobs SET state = 'cancelled', sweep = true, finished_at = now()"
        " WHERE name = 'parent'"
    )
    (behind,) = await desk.sweeping.behind(10)
    await desk.steps.retry(TENANT, "parent")
    await desk.steps.cancel_children(TENANT, [behind.uid])
    assert await desk.state("child") == "running"
    assert await desk.state("parent") == "running"


async def test_a_late_sweep_leaves_a_job_that_has_the_name_of_a_child_by_now(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children were cancelled by their names alone."""
    await desk.job("parent", 1)
    await desk.job("child", 1)

    async def as_it_was(tenant_id: bytes, uid: bytes) -> list[str]:
        return ["child"]

    monkeypatch.setattr(desk.steps, "_children", as_it_was)
    await desk.steps.cancel(TENANT, "parent")
    assert await desk.state("child") == "running"
