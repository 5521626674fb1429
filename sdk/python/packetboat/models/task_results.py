"""Results that the client makes of answers about tasks."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from packetboat.models.jobs import TaskFailure

Out = TypeVar("Out")


class TaskOutput(msgspec.Struct, Generic[Out], frozen=True):
    """The output of a map task, or the reason that it has none. One of them is None, unless the
    output is None."""

    index: int
    value: Out | None = None
    error: str | None = None


class TasksSettled(msgspec.Struct, frozen=True):
    """The number of leases that were settled, and the failures of the others. `cancelled` names
    those of an extension whose tasks are to end, because their job was cancelled or failed."""

    count: int
    failures: tuple[TaskFailure, ...] = ()
    cancelled: tuple[str, ...] = ()
