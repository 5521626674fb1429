"""Tasks that another process finds by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

from packetboat.tasks import NestedJob, Reject, TaskContext, Tasks

tasks = Tasks("elsewhere")


@tasks.map(isolation="process")
def square(number: int) -> int:
    return number * number


@tasks.map(isolation="process")
def process_id(number: int) -> int:
    return os.getpid()


@tasks.map(isolation="process", max_attempts=2)
def dies_at_first(number: int, context: TaskContext) -> int:
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@tasks.map(isolation="process")
def rejects(number: int) -> int:
    raise Reject(f"{number} is not for me")


@tasks.map(isolation="process", timeout_s=0.3)
def fits(number: int) -> int:
    """Return a number; the time of the task begins with its work, not with its process."""
    return number


@tasks.map(isolation="process", max_attempts=1, timeout_s=0.3)
def hangs(number: int) -> int:
    time.sleep(600)
    return number


@tasks.map(isolation="process")
def sleeps(path: str) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)


@tasks.map(isolation="process")
def spins(seconds: float) -> int:
    """Holds the interpreter, as what computes does."""
    ends_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends_s:
        count += 1
    return count


@tasks.map(isolation="process")
def exits(number: int) -> int:
    sys.exit(3)


@tasks.reduce(isolation="process")
def total(numbers: Iterator[int]) -> int:
    return sum(numbers)


@tasks.reduce(isolation="process")
def first(numbers: Iterator[int]) -> int:
    """Reads no further."""
    return next(numbers)


@tasks.fold(isolation="process", fan_in=3)
def add(left: int, right: int) -> int:
    return left + right


@tasks.map(isolation="process")
def squares_up_to(number: int, context: TaskContext) -> NestedJob[int]:
    return context.job(square, range(number + 1), reduce=total)
