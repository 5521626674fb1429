"""Jobs, their tasks, and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from packetboat.calls.call import (
    TIMEOUT_S,
    Call,
    change,
    delete,
    fetch,
    nothing,
    page,
    part,
    put,
    send_json,
)
from packetboat.models.jobs import (
    ClaimedTask,
    Completion,
    Failing,
    Job,
    JobOutput,
    JobSpec,
    JobTask,
    TaskFailure,
)
from packetboat.models.page import Page
from packetboat.models.task_results import TasksSettled

T = TypeVar("T")
MAX_TASKS = 1000
"""The most inputs of one page."""
MAX_INPUT_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
MAX_LEASES = 100
"""The most leases of one claim, completion, failure, extension or release."""


def create_job(name: str, spec: JobSpec) -> Call[Job]:
    return change("POST", "/jobs", {"name": name} | msgspec.to_builtins(spec), Job)


def put_job(name: str, spec: JobSpec) -> Call[Job]:
    """Makes it, or finds the one that was made of the same."""
    return change("PUT", _job(name), spec, Job, safe=True)


def get_job(name: str, wait_seconds: float = 0) -> Call[Job]:
    """Return the call for a job, which is answered when the job is finished or the wait is over."""
    call = fetch(_job(name), Job, {"wait_seconds": wait_seconds or None})
    return _waiting(call, wait_seconds)


def list_jobs(state: str | None, page_size: int, page_token: str | None) -> Call[Page[Job]]:
    return page("/jobs", "jobs", Job, page_size, page_token, {"state": state})


def delete_job(name: str, force: bool) -> Call[None]:
    return delete(_job(name), force)


def add_tasks(job: str, first_index: int, inputs: Sequence[msgspec.Raw]) -> Call[None]:
    body = {"first_index": first_index, "inputs": inputs}
    return Call(send_json("POST", f"{_job(job)}/tasks", body), nothing, safe=True)


def seal_job(name: str, tasks: int) -> Call[Job]:
    return change("POST", f"{_job(name)}:seal", {"tasks": tasks}, Job, safe=True)


def cancel_job(name: str) -> Call[Job]:
    return change("POST", f"{_job(name)}:cancel", None, Job, safe=True)


def retry_job(name: str) -> Call[Job]:
    return change("POST", f"{_job(name)}:retry", None, Job, safe=True)


def list_tasks(
    job: str, state: str | None, page_size: int, page_token: str | None
) -> Call[Page[JobTask]]:
    query = {"state": state}
    return page(f"{_job(job)}/tasks", "tasks", JobTask, page_size, page_token, query)


def list_outputs(
    job: str, first_index: int, page_size: int, page_token: str | None
) -> Call[Page[JobOutput]]:
    query = {"first_index": first_index or None}
    return page(f"{_job(job)}/outputs", "outputs", JobOutput, page_size, page_token, query)


# The calls of workers.


def claim(
    pool: str,
    kinds: Sequence[str],
    max_tasks: int,
    wait_seconds: float,
    lease_seconds: float,
    worker: str,
) -> Call[list[ClaimedTask]]:
    """Not safe to repeat: what was claimed by an answer that got lost comes back by its lease."""
    body: dict[str, Any] = {
        "kinds": kinds,
        "max_tasks": max_tasks,
        "wait_seconds": wait_seconds,
        "lease_seconds": lease_seconds,
    }
    put(body, worker=worker or None)
    request = send_json("POST", f"{_pool(pool)}:claim", body)
    return _waiting(Call(request, lambda answer: _claimed.decode(answer).tasks), wait_seconds)


def complete(tasks: Sequence[Completion]) -> Call[TasksSettled]:
    return _settle("complete", {"tasks": tasks})


def fail(tasks: Sequence[Failing]) -> Call[TasksSettled]:
    return _settle("fail", {"tasks": tasks})


def extend(lease_ids: Sequence[str], lease_seconds: float) -> Call[TasksSettled]:
    return _settle("extend", {"lease_ids": lease_ids, "lease_seconds": lease_seconds})


def release(lease_ids: Sequence[str]) -> Call[TasksSettled]:
    """The attempt does not count."""
    return _settle("release", {"lease_ids": lease_ids})


class _Claimed(msgspec.Struct):
    tasks: list[ClaimedTask]


class _Settled(msgspec.Struct):
    done: int = 0
    results: tuple[TaskFailure, ...] = ()
    cancelled: tuple[str, ...] = ()


_claimed = msgspec.json.Decoder(_Claimed)
_settled = msgspec.json.Decoder(_Settled)


def _waiting(call: Call[T], wait_seconds: float) -> Call[T]:
    request = call.request._replace(timeout_s=TIMEOUT_S + wait_seconds)
    return call._replace(request=request)


def _settle(verb: str, body: dict[str, Any]) -> Call[TasksSettled]:
    return Call(send_json("POST", f"/tasks:{verb}", body), _read_settled, safe=True)


def _read_settled(body: bytes) -> TasksSettled:
    answer = _settled.decode(body)
    return TasksSettled(answer.done, answer.results, answer.cancelled)


def _job(name: str) -> str:
    return f"/jobs/{part(name)}"


def _pool(name: str) -> str:
    return f"/pools/{part(name)}"
