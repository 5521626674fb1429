"""The functions that workers of the tests call; workers import this module, so it imports
little.
"""

from __future__ import annotations

import os
import time

from edge.problem import FieldError, Problem


def doubled(value: int) -> int:
    return 2 * value


def pid() -> int:
    return os.getpid()


def failing() -> None:
    raise KeyError("x")


def refusing() -> None:
    wrong = [FieldError("a", "wrong")]
    raise Problem(
        *(422, "invalid-request", "Invalid request", "No."),
        errors=wrong,
        headers={"x": "y"},
        extra={"index": 3},
    )


def endless() -> None:
    while True:
        pass


def deep_in_a_library() -> None:
    """Holds the GIL, and never comes back to Python."""
    pow(3, 10**9)


def greedy() -> None:
    bytearray(8 * 1024**3)


def surroundings() -> list[str]:
    return sorted(os.environ)


def burn(cpu_s: float) -> None:
    until_s = time.process_time() + cpu_s
    while time.process_time() < until_s:
        pass
