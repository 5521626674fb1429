"""The calls of workers: claim, settle and extend leases of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from packetboat.calls.call import Call, part, put, send_json, waiting
from packetboat.models.jobs import ClaimedTask, Completion, Failing, TaskFailure
from packetboat.models.task_results import TasksSettled

MAX_TASKS = 1000
"""The most inputs of one page."""
MAX_INPUT_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
MAX_LEASES = 100
"""The most leases of one claim, completion, failure, extension or release."""


def claim(
    pool: str,
    kinds: Sequence[str],
    max_tasks: int,
    wait_seconds: float,
    lease_seconds: float,
    worker: str,
) -> Call[list[ClaimedTask]]:
    """Claim tasks. It is not safe: tasks of a lost answer are leased again when the lease ends."""
    body: dict[str, Any] = {
        "kinds": kinds,
        "max_tasks": max_tasks,
        "wait_seconds": wait_seconds,
        "lease_seconds": lease_seconds,
    }
    put(body, worker=worker or None)
    request = send_json("POST", f"/pools/{part(pool)}:claim", body)
    return waiting(Call(request, lambda answer: _claimed.decode(answer).tasks), wait_seconds)


def complete(tasks: Sequence[Completion]) -> Call[TasksSettled]:
    return _settle("complete", {"tasks": tasks})


def fail(tasks: Sequence[Failing]) -> Call[TasksSettled]:
    return _settle("fail", {"tasks": tasks})


def extend(lease_ids: Sequence[str], lease_seconds: float) -> Call[TasksSettled]:
    return _settle("extend", {"lease_ids": lease_ids, "lease_seconds": lease_seconds})


def release(lease_ids: Sequence[str]) -> Call[TasksSettled]:
    """Release leases; the attempt does not count."""
    return _settle("release", {"lease_ids": lease_ids})


class _Claimed(msgspec.Struct):
    tasks: list[ClaimedTask]


class _Settled(msgspec.Struct):
    done: int = 0
    results: tuple[TaskFailure, ...] = ()
    cancelled: tuple[str, ...] = ()


_claimed = msgspec.json.Decoder(_Claimed)
_settled = msgspec.json.Decoder(_Settled)


def _settle(verb: str, body: dict[str, Any]) -> Call[TasksSettled]:
    return Call(send_json("POST", f"/tasks:{verb}", body), _read_settled, safe=True)


def _read_settled(body: bytes) -> TasksSettled:
    answer = _settled.decode(body)
    return TasksSettled(answer.done, answer.results, answer.cancelled)
