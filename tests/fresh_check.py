"""The check from `git clone` to the first message, as on a new machine: `make fresh-check`.

The commit that is checked out is cloned into a new folder. Only Debian's programs are on PATH, the
cache of pip is empty, and nothing of `PACKETBOAT_*` is set. Each step is printed with its seconds
and its bytes on the disk; exit status 1 means that a limit was missed. `--tests` also installs the
libraries for tests and runs `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
FIRST_S = 60.0
"""Seconds from the beginning of the clone to the first 201."""
AGAIN_S = 5.0
INSTALLED_MB = 300.0
EMPTY_MB = 200.0
"""Megabytes of data of an installation with one message."""
TESTS_S = 600.0
UP = re.compile(r"Packetboat is up at (\S+)")
TOKEN = re.compile(r"export PACKETBOAT_TOKEN=(\S+)")


class Step(NamedTuple):
    """A row of the table; a limit that is None is none."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    def missed(self) -> bool:
        return self.limit is not None and self.value > self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"at most {self.limit:g}"
        verdict = "MISSED" if self.missed() else "ok" if self.limit is not None else ""
        return f"{self.name:<44}{self.value:>9.1f} {self.unit:<4}{limit:<14}{verdict}"


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a shell that knows where packages come from, and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PACKETBOAT_")}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        kept.pop(name, None)
    # A make that runs this passes its own flags on.
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
        kept.pop(name, None)
    return kept | {"PATH": PATH, "PIP_CACHE_DIR": str(cache)}


def megabytes(folder: Path) -> float:
    """Return the megabytes that a folder takes on the disk."""
    found = (path.lstat() for path in folder.rglob("*"))
    return sum(each.st_blocks for each in found) * 512 / 1e6


class Up:
    """`make up`, until it is told to stop."""

    def __init__(self, checkout: Path, settings: dict[str, str]) -> None:
        self.url = ""
        self._process = subprocess.Popen(
            ["make", "up"],
            cwd=checkout,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._token = ""

    def lines(self) -> Iterator[str]:
        """Yield the lines of output until it is up. Raises RuntimeError if it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.rstrip()
            if found := UP.search(line):
                self.url = found[1]
            if found := TOKEN.search(line):
                self._token = found[1]
                return
        raise RuntimeError("make up ended")

    def publish(self) -> None:
        """Create a topic, and publish a message that is answered 201."""
        self._post("/topics", {"name": "greetings"}, also=(200, 409))
        self._post("/topics/greetings/messages", {"hello": "world"})

    def _post(self, path: str, body: object, also: tuple[int, ...] = ()) -> None:
        request = urllib.request.Request(
            self.url + path,
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
        if status != 201 and status not in also:
            raise RuntimeError(f"POST {path}: {status}")

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)
        self._process.communicate(timeout=60)


@contextmanager
def up(checkout: Path, settings: dict[str, str]) -> Iterator[Up]:
    running = Up(checkout, settings)
    try:
        yield running
    finally:
        running.stop()


def check(place: Path, *, tests: bool) -> Iterator[Step]:
    checkout, settings = place / "packetboat", environment(place / "cache")
    began = time.monotonic()
    clone = ["git", "-c", "safe.directory=*", "clone", "--quiet", str(ROOT), str(checkout)]
    subprocess.run(clone, check=True, env=settings)
    yield Step("git clone", time.monotonic() - began, "s")
    with up(checkout, settings) as running:
        for line in running.lines():
            print(f"    {time.monotonic() - began:6.1f} s  {line}", flush=True)
        running.publish()
        yield Step("git clone, make up, first 201", time.monotonic() - began, "s", FIRST_S)
        yield Step(".venv", megabytes(checkout / ".venv"), "MB", INSTALLED_MB)
    yield Step(".packetboat, with one message", megabytes(checkout / ".packetboat"), "MB", EMPTY_MB)
    began = time.monotonic()
    with up(checkout, settings) as running:
        for _ in running.lines():
            pass
        running.publish()
        yield Step("make up again, first 201", time.monotonic() - began, "s", AGAIN_S)
    if not tests:
        return
    began = time.monotonic()
    subprocess.run(["make", "install"], cwd=checkout, env=settings, check=True)
    yield Step("make install", time.monotonic() - began, "s")
    yield Step(".venv with all of it", megabytes(checkout / ".venv"), "MB")
    began = time.monotonic()
    ended = subprocess.run(["make", "test"], cwd=checkout, env=settings)
    yield Step(f"make test, exit status {ended.returncode}", time.monotonic() - began, "s", TESTS_S)


def main() -> None:
    """Exit status: 0 within all limits, 1 not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="make test too")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="packetboat-fresh-"))
    place.chmod(0o755)  # Postgres runs as a lesser account when we are root.
    steps = []
    try:
        for step in check(place, tests=given.tests):
            print(step, flush=True)
            steps.append(step)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(any(step.missed() for step in steps))


if __name__ == "__main__":
    main()
