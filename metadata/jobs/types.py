"""Jobs, tasks, leases and pools as values, which the job store gives out."""

from __future__ import annotations

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from openapi.jobs import TaskCounts

OPEN, RUNNING, REDUCING = "open", "running", "reducing"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
LIVE = (OPEN, RUNNING, REDUCING)
"""States of a job that is not finished."""
JOB_STATES = (*LIVE, SUCCEEDED, FAILED, CANCELLED)
WAITING, DELAYED, NESTED = "waiting", "delayed", "nested"
"""States of a task that is not over."""
REDUCE = -1
"""The number of the reduce task; map tasks have theirs from 0 on."""
MAX_DEPTH = 8
"""A job, its child, the child of that, and so on."""
_LEASE = struct.Struct(">B16si16s")


class BadLeaseId(ValueError):
    """The text is no id that this platform made."""


class Lease(NamedTuple):
    """One holding of a task: where its row is, and a secret that each claim makes anew."""

    depth: int
    job_uid: bytes
    number: int
    secret: bytes

    def __str__(self) -> str:
        return urlsafe_b64encode(_LEASE.pack(*self)).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Lease:
        """Raises BadLeaseId."""
        try:
            raw = urlsafe_b64decode(text + "==")
            lease = cls(*_LEASE.unpack(raw))
        except (binascii.Error, ValueError, struct.error) as error:
            raise BadLeaseId(text[:80]) from error
        if lease.depth > MAX_DEPTH or lease.number < REDUCE or str(lease) != text:
            raise BadLeaseId(text[:80])
        return lease


class Parent(NamedTuple):
    """The task that may wait for a job: the parent's name and the task's number."""

    job: str
    number: int


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The choices of the caller that makes a job."""

    name: str
    map_kind: str
    reduce_kind: str | None = None
    pool: str = "default"
    reduce_pool: str | None = None
    priority: int = 0
    max_attempts: int = 5
    min_backoff_s: float = 1.0
    max_backoff_s: float = 600.0
    on_failure: str = "fail"
    max_failed: int | None = None
    parent: Parent | None = None
    keep_s: int = 86_400
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as one statement saw it. `version` is its ETag: it grows with its state, not with what
    its tasks do. `result` is JSON; None where it was not asked for."""

    tenant_id: bytes
    uid: bytes
    spec: JobSpec
    state: str
    tasks: TaskCounts
    result: bytes | None
    error: str | None
    version: int
    created_at: datetime
    finished_at: datetime | None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def finished(self) -> bool:
        return self.state not in LIVE


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a job, without what went in and came out."""

    number: int
    state: str
    attempt: int
    error: str | None
    worker: str | None
    wait_for: str | None
    lease_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a map task, as JSON, or the reason that it gave none."""

    number: int
    output: bytes | None
    error: str | None


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A task as its worker gets it. `inputs_total`: how many outputs a reduce task has to read."""

    lease: Lease
    job: str
    kind: str
    input: bytes
    attempt: int
    lease_until: datetime
    labels: Mapping[str, str]
    inputs_total: int | None


@dataclass(frozen=True, slots=True)
class Pool:
    """`max_running` None: no limit. `version` None: it has no row."""

    name: str
    max_running: int | None
    running: int
    waiting: int
    version: int | None
