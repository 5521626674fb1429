"""`python -m tests.chaos.export_driver`: a driver that fails, once, where the file that FAULT names
says: `kill POINT`, or `stop POINT` (as a paused machine: SIGCONT lets it go on)."""

from __future__ import annotations

import os
import runpy
import signal
from pathlib import Path

from spark_exports import fail_points

FAULT = "EXPORT_TEST_FAULT"
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def fault_taken() -> tuple[str, str] | None:
    """Take the fault to cause, and its place; it is gone for later callers."""
    path = Path(os.environ[FAULT])
    mine = path.with_suffix(f".{os.getpid()}")
    try:
        path.rename(mine)
    except FileNotFoundError:
        return None
    what, where = mine.read_text().split()
    return what, where


def main() -> None:
    fault = fault_taken()
    if fault is not None:
        what, where = fault

        def reach(point: str) -> None:
            if point == where:
                os.kill(os.getpid(), SIGNALS[what])

        # Before the driver's modules take it from there.
        fail_points.reach = reach  # type: ignore[assignment]
    runpy.run_module("spark_exports.driver", run_name="__main__")


if __name__ == "__main__":
    main()
