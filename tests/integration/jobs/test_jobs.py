"""A job's life, on a real Postgres."""

from __future__ import annotations

from metadata.job_machine import Complete, Verdict
from metadata.job_types import Parent
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
    assert await desk.settle(task, Complete(wait_for="child")) is Verdict.DONE
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
