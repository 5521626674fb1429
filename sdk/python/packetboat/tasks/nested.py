"""Jobs within jobs: what a handler returns to hand its task on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

from packetboat.models.jobs import JobSpec, Phase
from packetboat.tasks.outcomes import Nested
from packetboat.tasks.values import encode

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
