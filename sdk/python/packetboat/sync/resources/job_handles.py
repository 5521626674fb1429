# Generated from aio/resources/job_handles.py: `make generate`. Do not edit.
"""One job: how it goes, its result, and what can be done about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from packetboat.models.jobs import Job, JobTask
from packetboat.models.task_results import TaskOutput

if TYPE_CHECKING:
    from packetboat.sync.resources.jobs import Jobs

Out = TypeVar("Out")
Result = TypeVar("Result")
LONG_POLL_S = 30.0
PROGRESS_S = 1.0


class JobHandle(Generic[Out, Result]):
    """Made by `client.jobs.run` and `client.jobs.handle`; it holds nothing but the name, and what
    the outputs and the result are to be read as."""

    def __init__(
        self, jobs: Jobs, name: str, output_type: Any = Any, result_type: Any = Any
    ) -> None:
        self.name = name
        self._jobs = jobs
        self._output_type = output_type
        self._result_type = result_type

    def progress(self, *, timeout_s: float | None = None) -> Job:
        """Return the job as it stands now: its state, the counts of its tasks, `fraction`."""
        return self._jobs.get(self.name, timeout_s=timeout_s)

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        progress: Callable[[Job], object] | None = None,
        progress_every_s: float = PROGRESS_S,
    ) -> Job:
        """Return the job once it is finished, however it ended.

        `progress` is called with it about each `progress_every_s`. Raises TimeoutError after
        `timeout_s`; the job then continues.
        """
        ends_s = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            most_s = LONG_POLL_S if progress is None else progress_every_s
            wait_s = max(0.0, min(most_s, ends_s - time.monotonic()))
            job = self._jobs.get(self.name, wait_seconds=wait_s)
            if progress is not None:
                progress(job)
            if job.finished:
                return job
            if time.monotonic() >= ends_s:
                raise TimeoutError(f"job {self.name} is not finished after {timeout_s} s")

    def result(self, *, timeout_s: float | None = None) -> Result:
        """Wait until the job is finished; return the output of its reduce task, or None
        without one. Raises JobFailed, or JobCancelled.
        """
        from packetboat.tasks.errors import result_of

        result: Result = result_of(self.wait(timeout_s=timeout_s), self._result_type)
        return result

    def outputs(
        self, *, page_size: int = 200, timeout_s: float | None = None
    ) -> Iterator[TaskOutput[Out]]:
        """Yield the outputs of finished map tasks, in the order of their inputs, page by page."""
        from packetboat.tasks.values import typed_output

        for output in self._jobs.outputs(self.name, page_size=page_size, timeout_s=timeout_s):
            yield typed_output(output, self._output_type)

    def failures(self, *, timeout_s: float | None = None) -> Iterator[JobTask]:
        """Yield the tasks that failed for good, with their last error."""
        return self._jobs.tasks(self.name, state="failed", timeout_s=timeout_s)

    def cancel(self, *, timeout_s: float | None = None) -> Job:
        """Nothing more of it begins; handlers that run are told. A finished job stays as it is."""
        return self._jobs.cancel(self.name, timeout_s=timeout_s)

    def retry(self, *, timeout_s: float | None = None) -> Job:
        """Retry a job that failed or was cancelled: tasks that did not succeed are done again."""
        return self._jobs.retry(self.name, timeout_s=timeout_s)

    def delete(self, *, force: bool = False, timeout_s: float | None = None) -> None:
        """Delete the job; with `force` also one that is not finished."""
        self._jobs.delete(self.name, force=force, timeout_s=timeout_s)
