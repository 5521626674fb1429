"""Requests to make jobs, and the bounds of their bodies."""

from __future__ import annotations

from msgspec import UNSET

from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from metadata.jobs.types import REDUCE, JobSpec, Parent
from openapi import jobs as contract

MAX_ADD_BODY_BYTES = 10 * 1024 * 1024
MAX_COMPLETE_BODY_BYTES = 32 * 1024 * 1024
MAX_FAIL_BODY_BYTES = 8 * 1024 * 1024


def spec_of(body: contract.JobCreate | contract.JobPut, name: str) -> JobSpec:
    """Return the job that a body describes; raise a 422 Problem."""
    errors = name_errors(name) + name_errors(body.pool, "pool") + label_errors(body.labels)
    if body.reduce_pool is not None:
        errors += name_errors(body.reduce_pool, "reduce_pool")
    if body.name not in (UNSET, name):
        errors.append(FieldError("name", f"is {name!r} in the path"))
    if body.parent is not None:
        errors += name_errors(body.parent.job, "parent.job")
    if body.parent is not None and body.parent.job == name:
        errors.append(FieldError("parent.job", "is the job itself"))
    retry = body.retry or contract.TaskRetry()
    if errors:
        raise invalid("The body does not fit.", errors)
    return JobSpec(
        name=name,
        map_kind=body.map,
        reduce_kind=body.reduce,
        pool=body.pool,
        reduce_pool=body.reduce_pool,
        priority=body.priority,
        max_attempts=body.max_attempts,
        min_backoff_s=retry.min_backoff_seconds,
        max_backoff_s=retry.max_backoff_seconds,
        on_failure=body.on_failure,
        max_failed=body.max_failed,
        parent=None if body.parent is None else _parent(body.parent),
        keep_s=body.keep_seconds,
        labels=body.labels,
    )


def _parent(parent: contract.JobParent) -> Parent:
    return Parent(parent.job, REDUCE if parent.phase == "reduce" else parent.index)
