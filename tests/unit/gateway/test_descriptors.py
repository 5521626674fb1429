"""Limits are those of whole processes: each test has one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

SCRIPT = """
import resource, sys
from gateway import descriptors, logs

soft, hard, needed, refused = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
if refused:
    def refuse(*_):
        raise PermissionError("not here")
    resource.setrlimit = refuse
logs.configure()
descriptors.raise_limit(needed)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


class Outcome(NamedTuple):
    limits: tuple[int, int]
    logged: list[dict[str, Any]]


def raised(soft: int, hard: int, needed: int, *, refused: bool = False) -> Outcome:
    """Return the limits of a process that started with the given ones, and its log."""
    numbers = [str(number) for number in (soft, hard, needed, int(refused))]
    command = [sys.executable, "-c", SCRIPT, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    now_soft, now_hard = map(int, done.stdout.split())
    return Outcome((now_soft, now_hard), [json.loads(line) for line in done.stderr.splitlines()])


def test_the_soft_limit_becomes_the_hard_one() -> None:
    assert raised(256, 512, needed=512) == Outcome((512, 512), [])


def test_a_hard_limit_that_is_too_low_is_warned_of() -> None:
    outcome = raised(256, 512, needed=513)
    assert outcome.limits == (512, 512)
    (warning,) = outcome.logged
    assert (warning["level"], warning["allowed"], warning["needed"]) == ("warning", 512, 513)
    assert "LimitNOFILE" in warning["event"]


@pytest.mark.parametrize(("needed", "warnings"), [(256, 1), (257, 2)])
def test_where_it_may_not_be_raised_the_process_goes_on(needed: int, warnings: int) -> None:
    outcome = raised(256, 512, needed, refused=True)
    assert outcome.limits == (256, 512)
    assert [one["level"] for one in outcome.logged] == ["warning"] * warnings
    assert outcome.logged[0]["error"] == "not here"
    assert [one["allowed"] for one in outcome.logged[1:]] == [256] * (warnings - 1)
