# Generated from openapi/: `make generate`. Do not edit.
"""Calls of jobs, pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    nothing,
    page,
    part,
    send_json,
    waiting,
)
from packetboat.models import Page
from packetboat.models.jobs import Job, JobOutput, JobSpec, JobState, JobTask, Pool, TaskState


def create_job(name: str, spec: JobSpec) -> Call[Job]:
    body: dict[str, Any] = {"name": name, **msgspec.to_builtins(spec)}
    return change("POST", "/jobs", body, Job)


def put_job(name: str, spec: JobSpec) -> Call[Job]:
    body: dict[str, Any] = {**msgspec.to_builtins(spec)}
    return change("PUT", f"/jobs/{part(name)}", body, Job, safe=True)


def get_job(name: str, wait_seconds: float) -> Call[Job]:
    return waiting(
        fetch(f"/jobs/{part(name)}", Job, {"wait_seconds": wait_seconds or None}), wait_seconds
    )


def list_jobs(state: JobState | None, page_size: int, page_token: str | None) -> Call[Page[Job]]:
    return page("/jobs", "jobs", Job, page_size, page_token, {"state": state})


def add_tasks(name: str, first_index: int, inputs: Sequence[msgspec.Raw]) -> Call[None]:
    body: dict[str, Any] = {"first_index": first_index, "inputs": inputs}
    return Call(send_json("POST", f"/jobs/{part(name)}/tasks", body), nothing, safe=True)


def seal_job(name: str, tasks: int) -> Call[Job]:
    body: dict[str, Any] = {"tasks": tasks}
    return change("POST", f"/jobs/{part(name)}:seal", body, Job, safe=True)


def cancel_job(name: str) -> Call[Job]:
    return change("POST", f"/jobs/{part(name)}:cancel", None, Job, safe=True)


def retry_job(name: str) -> Call[Job]:
    return change("POST", f"/jobs/{part(name)}:retry", None, Job, safe=True)


def delete_job(name: str, force: bool) -> Call[None]:
    return delete(f"/jobs/{part(name)}", force=force)


def list_tasks(
    name: str, state: TaskState | None, page_size: int, page_token: str | None
) -> Call[Page[JobTask]]:
    return page(
        f"/jobs/{part(name)}/tasks", "tasks", JobTask, page_size, page_token, {"state": state}
    )


def list_outputs(
    name: str, first_index: int, page_size: int, page_token: str | None
) -> Call[Page[JobOutput]]:
    return page(
        f"/jobs/{part(name)}/outputs",
        "outputs",
        JobOutput,
        page_size,
        page_token,
        {"first_index": first_index or None},
    )


def put_pool(name: str, max_running: int | None) -> Call[Pool]:
    body: dict[str, Any] = {"max_running": max_running}
    return change("PUT", f"/pools/{part(name)}", body, Pool, safe=True)


def get_pool(name: str) -> Call[Pool]:
    return fetch(f"/pools/{part(name)}", Pool)


def list_pools(page_size: int, page_token: str | None) -> Call[Page[Pool]]:
    return page("/pools", "pools", Pool, page_size, page_token)


def delete_pool(name: str) -> Call[None]:
    return delete(f"/pools/{part(name)}")
