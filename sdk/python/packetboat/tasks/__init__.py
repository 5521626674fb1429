"""Task frameworks: map-reduce jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packetboat.models.jobs import (
    Job,
    JobOutput,
    JobParent,
    JobSpec,
    JobTask,
    Pool,
    TaskCounts,
    TaskRetry,
)
from packetboat.models.task_results import TaskOutput
from packetboat.renamed import renamed
from packetboat.tasks.context import TaskContext
from packetboat.tasks.definitions import FoldTask, MapTask, ReduceTask
from packetboat.tasks.errors import JobCancelled, JobFailed
from packetboat.tasks.nested import NestedJob
from packetboat.tasks.outcomes import TaskCancelled
from packetboat.tasks.registry import Tasks
from packetboat.tasks.specs import JobOptions
from packetboat.tasks.worker import TaskWorker
from packetboat.worker.outcomes import Reject, Release, RetryLater

__all__ = [
    "FoldTask",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobOptions",
    "JobOutput",
    "JobParent",
    "JobSpec",
    "JobTask",
    "MapTask",
    "NestedJob",
    "Pool",
    "ReduceTask",
    "Reject",
    "Release",
    "RetryLater",
    "TaskCancelled",
    "TaskContext",
    "TaskCounts",
    "TaskOutput",
    "TaskRetry",
    "TaskWorker",
    "Tasks",
]

if not TYPE_CHECKING:  # 0.2.0 called it Retry, as it did two other classes
    __getattr__ = renamed(__name__, {"Retry": RetryLater})
