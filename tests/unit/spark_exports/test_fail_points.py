"""A driver dies where it is told to, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from spark_exports.fail_points import FAIL_POINTS, VARIABLE, FailPoint

PROGRAM = "from spark_exports.fail_points import reach; reach({!r}); print('alive')"


@pytest.mark.parametrize(("told", "lives"), [("committed", False), ("opened", True), ("", True)])
def test_it_dies_at_the_named_point(told: str, lives: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format("committed")],
        env=os.environ | {VARIABLE: told},
        capture_output=True,
    )
    assert done.returncode == (0 if lives else -signal.SIGKILL)
    assert done.stdout == (b"alive\n" if lives else b"")


def test_the_steps_have_names() -> None:
    first: FailPoint = "opened"
    assert FAIL_POINTS[0] == first
    assert FAIL_POINTS[-1] == "before_done"
