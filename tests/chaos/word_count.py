"""`python -m tests.chaos.word_count --tasks 10000` (make word-count): the words of Python's own
library, counted by map and reduce on four worker processes that are killed again and again. The
answer must be that of one Counter over the same files, word for word.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packetboat import Client
from packetboat.models.jobs import Job, JobTask

from examples.word_count import (
    LIBRARY,
    Summary,
    count,
    count_words,
    files_of,
    parts_of,
    summarize,
    summary_of,
)
from tests.e2e.installation import Installation

ROOT = Path(__file__).parents[2]
WORKERS = 4
LEASE_S = 5.0
TIMEOUT_S = 900.0


class Workers:
    """Processes that run tasks; one that is killed is followed by another."""

    def __init__(self, installation: Installation, directory: Path, seed: int) -> None:
        self.kills = 0
        self._random = random.Random(seed)
        self._log = directory / "workers.out"
        self._environment = os.environ | {
            "PACKETBOAT_URL": installation.url,
            "PACKETBOAT_TOKEN": installation.token,
            "PYTHONPATH": str(ROOT),
        }
        self._processes = [self._started() for _ in range(WORKERS)]

    def kill_one(self) -> None:
        place = self._random.randrange(WORKERS)
        self._processes[place].kill()
        self._processes[place].wait()
        self._processes[place] = self._started()
        self.kills += 1

    def stop(self) -> list[int]:
        """Stop the workers kindly; returns their exit codes.

        A worker that has only just been started is waited for: before it has said what SIGTERM
        means to it, the signal would simply end it.
        """
        for process in self._processes:
            until_caught(process, signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self._processes]

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "examples/word_count.py", "work", "--lease-s", str(LEASE_S)]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )


def until_caught(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """The process has a handler for that signal, or is over."""
    until_s = time.monotonic() + 60
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = int(status.read_text().split("SigCgt:")[1].split()[0], 16)
        if caught >> (number - 1) & 1:
            return
        assert time.monotonic() < until_s, f"no handler for {number.name}"
        time.sleep(0.05)


@contextmanager
def workers_of(installation: Installation, directory: Path, seed: int) -> Iterator[Workers]:
    """Run workers; none of them outlives the block."""
    workers = Workers(installation, directory, seed)
    try:
        yield workers
    finally:
        for process in workers._processes:
            process.kill()
            process.wait()


@dataclass
class Killer:
    """A killer that kills one worker each time a number of tasks have succeeded, until
    nearly all have.
    """

    workers: Workers
    every_tasks: int
    next_at: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_at = self.every_tasks

    def __call__(self, job: Job) -> None:
        if self.next_at <= job.tasks.succeeded < job.tasks.total:
            self.next_at = job.tasks.succeeded + self.every_tasks
            self.workers.kill_one()


@dataclass
class Count:
    """The result of the count."""

    summary: Summary
    words: Counter[str]
    tasks: list[JobTask]
    kills: int
    seconds: float
    exit_codes: list[int]

    @property
    def again(self) -> int:
        """Tasks that needed more than one attempt."""
        return sum(task.attempt > 1 for task in self.tasks)


def counted(
    installation: Installation,
    directory: Path,
    files: Iterable[Path],
    parts: int,
    kills: int,
    seed: int,
) -> Count:
    """Count words with workers under fire. Raises JobFailed."""
    began_s = time.monotonic()
    with (
        Client(installation.url, installation.token) as client,
        workers_of(installation, directory, seed) as workers,
    ):
        inputs = parts_of(files, parts)
        job = client.jobs.run(count, inputs, reduce=summarize, name=f"words-{seed}-{parts}")
        killer = Killer(workers, max(1, parts // (kills + 1)))
        try:
            job.wait(timeout_s=TIMEOUT_S, progress=killer, progress_every_s=0.1)
            summary = job.result()
        except Exception as error:
            error.add_note(workers.log())
            raise
        seconds = time.monotonic() - began_s
        words: Counter[str] = Counter()
        for output in job.outputs(page_size=1000):
            words.update(output.value)
        tasks = list(client.jobs.tasks(job.name, page_size=1000))
        return Count(summary, words, tasks, workers.kills, seconds, workers.stop())


def expected(files: Iterable[Path]) -> Counter[str]:
    return count_words(path.read_bytes().decode("utf-8", "replace") for path in files)


def wrong(found: Count, words: Counter[str], parts: int) -> list[str]:
    """Return all faults."""
    maps = [task.index for task in found.tasks if task.phase == "map"]
    checks: dict[str, Any] = {
        "the outputs do not add up to the words": found.words == words,
        "the result is not that of the words": found.summary == summary_of(words),
        "there is not one task for each part": maps == list(range(parts)),
        "a task did not succeed": {task.state for task in found.tasks} == {"succeeded"},
        "no worker was killed in a task": found.again > 0,
        "a worker did not end kindly": set(found.exit_codes) == {0},
    }
    return [text for text, right in checks.items() if not right]


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    files = files_of(LIBRARY)
    words = expected(files)
    with tempfile.TemporaryDirectory(prefix="packetboat-words-") as root:
        Path(root).chmod(0o755)
        installation = Installation(Path(root) / "up").start()
        try:
            found = counted(installation, Path(root), files, given.tasks, given.kills, given.seed)
        finally:
            installation.stop()
    print(
        f"{len(files)} files, {words.total()} words, {len(words)} different ones; "
        f"{given.tasks} map tasks in {found.seconds:.1f} s, {found.kills} workers killed, "
        f"{found.again} tasks done again"
    )
    problems = wrong(found, words, given.tasks)
    print("\n".join(problems) or "the counts are exact")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
