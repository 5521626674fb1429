"""Jobs within jobs: a handler hands its task on to one, and the worker starts it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.errors import PacketboatError
from packetboat.models.jobs import JobSpec, Phase
from packetboat.tasks.outcomes import Failed, Nested, Report, Waits, bounded
from packetboat.tasks.values import encode
from packetboat.worker.outage import is_passing

Result = TypeVar("Result")
MAX_NAME_CHARACTERS = 128
_KEPT_CHARACTERS = 90


@dataclass(frozen=True)
class NestedJob(Generic[Result]):
    """A handler that returns it is done: the result of that job becomes the task's output. Made by
    `TaskContext.job`."""

    name: str
    spec: JobSpec
    inputs: Iterable[Any]
    as_urgent: bool = True
    """True if its priority is that of the job in which it is nested."""

    def encoded(self) -> Nested:
        """All inputs are read here, in the handler's own thread or process."""
        inputs = [encode(each) for each in self.inputs]
        return Nested(self.name, self.spec, inputs, self.as_urgent)


def nested_name(job: str, phase: Phase, index: int) -> str:
    """Return the name of the nested job of a task: always the same for one task, and
    different for each. There is one reduce task.
    """
    name = f"{job}.{index}" if phase == "map" else f"{job}.reduce"
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[:_KEPT_CHARACTERS]}.{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def names_nested_job(annotation: Any) -> bool:
    """Then the nested job says what the output is, and not the annotation."""
    return NestedJob in (annotation, get_origin(annotation)) or any(
        names_nested_job(each) for each in get_args(annotation)
    )


async def start_nested(jobs: AsyncJobs, nested: Nested) -> Report:
    """Goes on with one that an earlier attempt began. One that had ended without a result is what
    this attempt tries again."""
    try:
        spec = await _urgent(jobs, nested)
        job = await jobs.put(nested.name, spec)
        if job.state in ("failed", "cancelled"):
            await jobs.retry(nested.name)
        await jobs.start(nested.name, spec, nested.inputs)
    except (PacketboatError, ValueError) as error:
        passing = isinstance(error, PacketboatError) and is_passing(error)
        return Failed(bounded(f"the job {nested.name} did not start: {error}"), retry=passing)
    return Waits(nested.name)


async def _urgent(jobs: AsyncJobs, nested: Nested) -> JobSpec:
    """Else the parts of an urgent job would wait behind other jobs."""
    parent = nested.spec.parent
    if parent is None or not nested.as_urgent:
        return nested.spec
    priority = (await jobs.get(parent.job)).priority
    return msgspec.structs.replace(nested.spec, priority=priority)
