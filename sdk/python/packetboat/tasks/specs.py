"""The job that a map task, a reduce task and options make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from packetboat.models.jobs import JobSpec, OnFailure, TaskRetry
from packetboat.tasks.definitions import MapTask, ReduceTask
from packetboat.tasks.nested import names_nested_job


class JobOptions(TypedDict, total=False):
    """The options of one job. Options that are not given come from the tasks."""

    name: str
    """The identity of the job: a caller that starts a job of the same name and content
    again continues it.
    """
    pool: str
    """The pool of its map tasks."""
    reduce_pool: str
    priority: int
    """The priority of its tasks: workers get the tasks of jobs with a higher one first."""
    max_attempts: int
    retry: TaskRetry
    on_failure: OnFailure
    max_failed: int
    keep_seconds: int
    labels: Mapping[str, str]


def spec_of(
    task: MapTask[Any, Any] | str, reduce: ReduceTask[Any, Any] | str | None, options: JobOptions
) -> JobSpec:
    """`name` is no part of it."""
    members: dict[str, Any] = {key: value for key, value in options.items() if key != "name"}
    members["labels"] = dict(members.get("labels", {}))
    members["map"] = task
    members["reduce"] = reduce
    if isinstance(task, MapTask):
        said = {"pool": task.pool, "max_attempts": task.max_attempts, "retry": task.retry}
        members = said | members | {"map": task.kind}
    if isinstance(reduce, ReduceTask):
        members = {"reduce_pool": reduce.pool} | members | {"reduce": reduce.kind}
    return JobSpec(**members)


def name_of(task: MapTask[Any, Any] | str) -> str:
    """Return the kind of a map task."""
    return task.kind if isinstance(task, MapTask) else task


def types_of(
    task: MapTask[Any, Any] | str, reduce: ReduceTask[Any, Any] | str | None
) -> tuple[Any, Any]:
    """Return the types of an output and of the result: annotated types where the functions
    are here.
    """
    output = task.signature.returned if isinstance(task, MapTask) else Any
    result = reduce.signature.returned if isinstance(reduce, ReduceTask) else Any
    return _plain(output), _plain(result)


def _plain(kind: Any) -> Any:
    """Return the type of a result, or Any for a nested job, which names the type itself."""
    return Any if names_nested_job(kind) else kind
