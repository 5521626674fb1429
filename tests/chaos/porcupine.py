"""Histories held against models by porcupine, a public checker of linearizability.

The models and the program are in Go (tests/checker). It is built once for its sources, under
build/, and needs Go and the module porcupine. Where one of them is missing, a run says so and goes
on: then only our own rules (tests/chaos/rules.py) have judged the same history.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.chaos.history import History

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/checker"
BUILT = ROOT / "build/checker"
BUILD_S = 600.0
JUDGE_S = 900.0
REFUSED, UNREADABLE, UNDECIDED = 1, 2, 3
"""Exit statuses of the checker: no order of the operations explains the history; it is of another
format; no order was found or excluded in time."""


class NotHere(Exception):
    """Why there is no checker on this machine."""


@functools.cache
def checker() -> Path:
    """The built program. Raises NotHere where it cannot be built, and AssertionError where its
    sources do not compile."""
    if shutil.which("go") is None:
        raise NotHere("go is missing: put Go 1.25 or later on the PATH")
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    built = BUILT / digest[:16] / "checker"
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:  # tests run beside each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            fetched = _go("mod", "download")
            if fetched.returncode != 0:
                reason = fetched.stderr.strip().splitlines()[-1:]
                raise NotHere(f"go cannot fetch porcupine: set GOPROXY to one it reaches: {reason}")
            made = _go("build", "-trimpath", "-o", str(built), ".")
            assert made.returncode == 0, f"the checker was not built:\n{made.stdout}{made.stderr}"
    return built


def _go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", *arguments],
        cwd=SOURCE,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )


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
    """The exit status for a written history, and what was said. Raises NotHere."""
    done = subprocess.run(
        [checker(), "-pictures", str(path.with_suffix("")), str(path)],
        capture_output=True,
        text=True,
        timeout=JUDGE_S,
        check=False,
    )
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def refusal(history: History, directory: Path) -> str:
    """Why a history is refused; empty: it is not. Raises NotHere, and AssertionError where there is
    no verdict. Its file, and the picture of it, are in the directory."""
    path = directory / f"{history.name}.jsonl"
    history.write(path)
    code, said = verdict(path)
    assert code in (0, REFUSED), said
    return said if code else ""


def hold(history: History) -> None:
    """The same of a history in memory; its file is kept where it is refused."""
    with history.kept() as path:
        judge(path)
