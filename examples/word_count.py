"""Count the words of a directory of texts, by as many workers as you like.

    packetboat up                                 # in one terminal
    python examples/word_count.py work            # in a second, a third, …; kill one, start another
    python examples/word_count.py run --tasks 500

Finds the server by PACKETBOAT_URL and PACKETBOAT_TOKEN. Without `--directory` the texts are the
sources of Python's own library, which every machine that runs this has. Workers read the files by
their paths, so they run where the files are.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packetboat import Client, Tasks, TaskWorker
from packetboat.tasks import Job

LIBRARY = Path(sysconfig.get_path("stdlib"))
SHOWN = 20
tasks = Tasks("word-count")


@dataclass(frozen=True)
class Passage:
    """A part of a file; no word goes over its ends."""

    path: str
    first_byte: int
    size_bytes: int

    def text(self) -> str:
        with open(self.path, "rb") as file:
            file.seek(self.first_byte)
            return file.read(self.size_bytes).decode("utf-8", "replace")


@dataclass(frozen=True)
class Summary:
    """The counts of a text; equal `digest`s mean equal words with equal counts."""

    words: int
    distinct: int
    digest: str
    most_common: list[tuple[str, int]]


@tasks.map(pool="cpu", max_attempts=20)
def count(passages: list[Passage]) -> dict[str, int]:
    """Count the words of some passages."""
    return count_words(passage.text() for passage in passages)


@tasks.reduce(pool="cpu")
def summarize(counts: Iterator[dict[str, int]]) -> Summary:
    """Add up the outputs, which come one by one; only their sum is in memory."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return summary_of(total)


def count_words(texts: Iterable[str]) -> Counter[str]:
    words: Counter[str] = Counter()
    for text in texts:
        words.update(re.findall(r"\w+", text.lower()))
    return words


def summary_of(words: Counter[str]) -> Summary:
    rows = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return Summary(words.total(), len(words), digest, rows[:SHOWN])


def files_of(directory: Path) -> list[Path]:
    """Return the files of a directory, always in the same order."""
    skipped = {"__pycache__", "site-packages"}
    paths = (path for path in directory.rglob("*.py") if not skipped & set(path.parts))
    return sorted(path for path in paths if path.is_file())


def parts_of(files: Iterable[Path], parts: int) -> Iterator[list[Passage]]:
    """Yield about equal parts, as many as asked for if the texts have enough words."""
    sized = [(path, path.stat().st_size) for path in files]
    part_bytes = sum(size for _, size in sized) / parts
    passages: list[Passage] = []
    before = made = 0
    for path, size in sized:
        data, first = path.read_bytes(), 0
        while first < size:
            end = _end_of_word(data, max(first, int((made + 1) * part_bytes) - before))
            passages.append(Passage(str(path), first, min(end, size) - first))
            first = end
            if end < size:
                yield passages
                passages, made = [], made + 1
        before += size
    if passages:
        yield passages


def _end_of_word(data: bytes, at: int) -> int:
    """Return the place after the next white space, so that a part has at least a byte."""
    found = re.compile(rb"\s").search(data, at)
    return found.end() if found else len(data)


def show(job: Job) -> None:
    print(f"\r{job.state} {job.fraction:6.1%}", end="", file=sys.stderr, flush=True)


def run(directory: Path, parts: int) -> None:
    with Client() as client:
        job = client.jobs.run(count, parts_of(files_of(directory), parts), reduce=summarize)
        job.wait(progress=show)
        summary = job.result()
    print(f"\n{summary.words} words, {summary.distinct} different ones")
    for word, times in summary.most_common:
        print(f"{times:9} {word}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count words by map and reduce.")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("work", help="run tasks until stopped")
    worker.add_argument("--concurrency", type=int, default=2)
    worker.add_argument("--lease-s", type=float, default=30.0)
    starter = commands.add_parser("run", help="start a job and wait for it")
    starter.add_argument("--directory", type=Path, default=LIBRARY)
    starter.add_argument("--tasks", type=int, default=500)
    given = parser.parse_args()
    if given.command == "run":
        run(given.directory, given.tasks)
        return
    with Client() as client:
        pools = {"cpu": given.concurrency}
        TaskWorker(client, tasks, pools=pools, lease_s=given.lease_s).run()


if __name__ == "__main__":
    main()
