"""The errors that stand in place of the result of a job."""

from __future__ import annotations

from typing import Any

from packetboat.errors import PacketboatError
from packetboat.models.jobs import Job
from packetboat.tasks.values import converted


class JobFailed(PacketboatError):
    """The job ended without a result; `job` says why."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.name} is {job.state}: {job.error or 'no reason given'}")
        self.job = job


class JobCancelled(JobFailed):
    """Somebody cancelled it."""


def result_of(job: Job, kind: Any) -> Any:
    """Return the result of a finished job as the type `kind`; None for a job that neither
    reduced nor folded.
    """
    if job.state == "succeeded":
        return None if job.result is None else converted(job.result, kind)
    raise (JobCancelled if job.state == "cancelled" else JobFailed)(job)
