"""The runs of mutants, each in a copy of the checkout: the checkout itself is never changed.

A mutant is killed when its test passes on the product and fails on the mutant by an assertion. A
mutant that cannot be imported, a test that hangs until its time-out, and a fixture that breaks are
no kills: such a failure does not show that the test looks at the broken rule.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import Mutant, NotFoundOnce, mutated
from tests.second_look import Failure, failures_of

TEST_TIMEOUT_S = 60
RUN_TIMEOUT_S = 900
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider")
"""Plugins that the tests need; loading the others takes most of the time of a test of a second."""
ASSERTIONS = ("AssertionError", "assert ", "Failed: DID NOT RAISE")
"""Beginnings of pytest's report of a test that failed by an assertion."""


class Verdict(Enum):
    """The result of a mutant; all but the first two make a run fail."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "SURVIVED"
    UNTESTED = "NO TEST IS NAMED"
    STALE = "TEXT NOT FOUND ONCE"
    TEST_FAILS = "ITS TEST FAILS WITHOUT THE MUTANT TOO"
    NO_ASSERTION = "FAILED, BUT NOT BY THAT ASSERTION"

    @property
    def good(self) -> bool:
        """Whether the rule that the mutant breaks is tested, or breaking it changes nothing."""
        return self in (Verdict.KILLED, Verdict.EQUIVALENT)


class Judged(NamedTuple):
    """A mutant with its verdict; `why` is one line: the test, or what was found instead."""

    mutant: Mutant
    verdict: Verdict
    why: str


class Run(NamedTuple):
    """A run of pytest; `finished` says that it ran the tests that it was asked for."""

    finished: bool
    failures: list[Failure]
    output: str


class Copy:
    """A copy of a checkout in a folder that may be changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tests(self, tests: Sequence[str]) -> Run:
        """Run those tests by their node ids."""
        report = self.path / "mutants-report.xml"
        report.unlink(missing_ok=True)
        options = ("-q", *PLUGINS, "-o", f"timeout={TEST_TIMEOUT_S}", f"--junitxml={report}")
        command = [sys.executable, "-m", "pytest", *options, *tests]
        code, output = _run(command, self.path)
        # pytest ends with 0 or 1 if it ran the tests that it was asked to run.
        finished = code in (0, 1) and report.exists()
        return Run(finished, failures_of(report.read_text()) if finished else [], output)

    def run(self, *program: str) -> tuple[int, str]:
        """Run a Python program of the copy; return its exit status and output."""
        return _run([sys.executable, *program], self.path)

    @contextmanager
    def holding(self, texts: Mapping[str, str]) -> Iterator[None]:
        """Write those files, and put back what they held."""
        before = {file: (self.path / file).read_text(encoding="utf-8") for file in texts}
        try:
            self._write(texts)
            yield
        finally:
            self._write(before)

    def _write(self, texts: Mapping[str, str]) -> None:
        for file, text in texts.items():
            path = self.path / file
            path.write_text(text, encoding="utf-8")
            # Python trusts compiled code by the file's size and the second of its last change.
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()


def _run(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command; return its exit status and output. Processes that it started end with it."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}:{folder / 'sdk/python'}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    # Compiled modules of the copy are beside their sources, where `Copy` removes them.
    environment.pop("PYTHONPYCACHEPREFIX", None)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return process.returncode, output


@contextmanager
def copied(root: Path) -> Iterator[Copy]:
    """Yield a copy of the files that git sees in a checkout, with changes that are not
    committed.
    """
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    with tempfile.TemporaryDirectory(prefix="packetboat-mutants-") as folder:
        # Embedded Postgres runs under an account with fewer rights if we are root.
        Path(folder).chmod(0o755)
        for name in filter(None, listed.split("\0")):
            source, target = root / name, Path(folder) / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        yield Copy(Path(folder))


def judge(copy: Copy, mutants: Sequence[Mutant]) -> Iterator[Judged]:
    """Run each mutant, after all their tests without any."""
    killers = sorted({mutant.killed_by for mutant in mutants if mutant.killed_by})
    without = copy.tests(killers) if killers else Run(True, [], "")
    if not without.finished:
        raise RuntimeError(f"the tests do not run without a mutant:\n{without.output[-4000:]}")
    failing = {(failure.module, failure.test) for failure in without.failures}
    for mutant in mutants:
        if not (mutant.killed_by and _test_of(mutant) in failing):
            yield _judge(copy, mutant)
        else:
            yield Judged(mutant, Verdict.TEST_FAILS, mutant.killed_by)


def _test_of(mutant: Mutant) -> tuple[str, str]:
    """Return its test as pytest's report names it: a dotted module, and the test with
    parameters.
    """
    dotted = mutant.test_file.removesuffix(".py").replace("/", ".")
    return dotted, mutant.killed_by.partition("::")[2]


def _judge(copy: Copy, mutant: Mutant) -> Judged:
    try:
        texts = mutated(mutant, copy.path)
    except NotFoundOnce as missing:
        return Judged(mutant, Verdict.STALE, str(missing))
    if mutant.equivalent:
        return Judged(mutant, Verdict.EQUIVALENT, mutant.equivalent)
    if not mutant.killed_by:
        return Judged(mutant, Verdict.UNTESTED, ", ".join(sorted(texts)))
    with copy.holding(texts):
        run = copy.tests([mutant.killed_by])
    if run.finished and not run.failures:
        return Judged(mutant, Verdict.SURVIVED, mutant.killed_by)
    wanted = (*ASSERTIONS, mutant.fails_with) if mutant.fails_with else ASSERTIONS
    if run.failures and all(
        failure.said.startswith(wanted) and mutant.trips in failure.said for failure in run.failures
    ):
        return Judged(mutant, Verdict.KILLED, mutant.killed_by)
    said = run.failures[0].said if run.failures else run.output.strip()[-400:]
    return Judged(mutant, Verdict.NO_ASSERTION, f"{mutant.killed_by}: {said}")
