"""Histories held against models by porcupine, a public checker of linearizability.

The models and the program are in Go (tests/checker). Where it cannot be built, a run says so and
goes on: then only our own rules (tests/chaos/rules.py) have judged the same history.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.chaos.history import History
from tests.go_programs import ROOT, NotHere, built

SOURCE = ROOT / "tests/checker"
JUDGE_S = 900.0
REFUSED, UNREADABLE, UNDECIDED = 1, 2, 3
"""Exit statuses of the checker: no order of the operations explains the history; it is of another
format; no order was found or excluded in time."""


@functools.cache
def checker() -> Path:
    """Return the built program. Raises NotHere, and AssertionError where it does not compile."""
    return built(SOURCE)


def judge(path: Path) -> None:
    """Print what porcupine says of a written history, or why it was not asked. Raises
    AssertionError where it refuses, with a picture beside the file, or comes to no verdict."""
    try:
        code, said = verdict(path)
    except NotHere as error:
        code, said = 0, f"SKIPPED, no public checker has judged this history: {error}"
    assert code == 0, f"porcupine ({code}): {said}"
    print("       porcupine:", path.stem, "; ".join(said.splitlines()), flush=True)


def verdict(path: Path) -> tuple[int, str]:
    """Return the checker's exit status and words for a written history. Raises NotHere."""
    done = subprocess.run(
        [checker(), "-pictures", str(path.with_suffix("")), str(path)],
        capture_output=True,
        text=True,
        timeout=JUDGE_S,
        check=False,
    )
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def refusal(history: History, directory: Path) -> str:
    """Return why a history is refused; empty text: it is not.

    The directory gets the history's file, and the picture of a refusal. Raises NotHere, and
    AssertionError where there is no verdict.
    """
    path = directory / f"{history.name}.jsonl"
    history.write(path)
    code, said = verdict(path)
    assert code in (0, REFUSED), said
    return said if code else ""


def hold(history: History) -> None:
    """Judge a history in memory as `judge` does; keep its file if it is refused."""
    with history.kept() as path:
        judge(path)
