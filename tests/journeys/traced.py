"""Runs a process of an installation as `python -P gateway` does, with a tracer that counts calls.

    python -P tests/journeys/traced.py up --data-dir DIRECTORY

The tracer sees each call of a function of the product, in each thread. A coroutine that goes on
after a wait counts as called. tests/inside.py gives the calls since the last question.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
NOT_THE_PRODUCT = ("tests", ".venv", "benchmarks", "harness")


class Called(msgspec.Struct):
    """Counts the calls of one function of the product."""

    file: str
    """The path from the project's root."""
    line: int
    name: str
    """The qualified name."""
    calls: int
    first_ns: int
    """The moment of the first call, by the clock that all processes of a machine share."""


class Tracer:
    """Counts the calls of this process's functions."""

    def __init__(self) -> None:
        self._seen: dict[CodeType, list[int]] = {}

    def called(self, frame: FrameType, event: str, _: Any) -> None:
        """Note an event; `sys.setprofile` calls it."""
        if event == "call":
            seen = self._seen.get(frame.f_code)
            if seen is None:
                self._seen[frame.f_code] = [1, time.monotonic_ns()]
            else:
                seen[0] += 1

    def read(self) -> list[Called]:
        """Return the calls since the last question, without lambdas and comprehensions."""
        seen, self._seen = self._seen, {}
        found = []
        for code, (calls, first_ns) in seen.items():
            file = os.path.relpath(code.co_filename, ROOT)
            if file.startswith(("..", "<", *NOT_THE_PRODUCT)) or code.co_name.startswith("<"):
                continue
            name = code.co_qualname.replace(".<locals>", "")
            found.append(Called(file, code.co_firstlineno, name, calls, first_ns))
        return found


def trace(_: str) -> None:
    """Trace this process, and each thread that it starts."""
    from tests import inside

    tracer = Tracer()
    inside.answer(lambda: msgspec.json.encode(tracer.read()))
    threading.setprofile(tracer.called)
    sys.setprofile(tracer.called)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.inside import run

    run(Path(__file__), trace)
