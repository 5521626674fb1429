"""Jobs by the blocking client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packetboat import Conflict, Problem
from packetboat.tasks import JobCancelled, Tasks
from packetboat.transport import Request

from tests.unit.sdk.jobs_twin import JobsTwin
from tests.unit.sdk.tasks_support import sync_client

tasks = Tasks("numbers")


@tasks.map
def double(number: int) -> int:
    return 2 * number


@tasks.reduce
def total(numbers: Iterator[int]) -> int:
    return sum(numbers)


def test_the_sync_client_starts_and_follows_jobs() -> None:
    twin = JobsTwin()
    with sync_client(twin) as client:
        job = client.jobs.run(double, iter(range(2500)), reduce=total, name="sync")
        assert twin.jobs["sync"].total == 2500
        assert job.progress().state == "running"
        assert job.cancel().finished
        with pytest.raises(JobCancelled):
            job.result()
        assert [task.index for task in client.jobs.tasks("sync", state="cancelled")][:2] == [0, 1]
        assert list(job.outputs()) == []
        job.delete()
        assert list(client.jobs.list()) == []


def test_a_sync_upload_that_breaks_off_says_so() -> None:
    twin = JobsTwin()

    def refuse(request: Request) -> None:
        if request.path.endswith("/tasks"):
            raise Conflict(Problem(status=409))

    twin.faults.append(refuse)
    with sync_client(twin) as client, pytest.raises(Conflict):
        client.jobs.run(double, range(50_000))
