"""A plugin of pytest that writes how much processor time each test took.

Counted are the process of the tests and all that it started, also servers that a session keeps. A
test that ends within a fifth of a second is counted with the next one of its file, since reading
/proc takes milliseconds.

`python -m tests.run --times` loads it, and prints a table of the files.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SHORT_S = 0.2
AROUND = "imports, collection and the end"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", type=Path, help="a file for processor time, test by test")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTimes(config.getoption("--cpu-times")))


class CpuTimes:
    """Splits the processor time of a session among its tests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken: defaultdict[str, float] = defaultdict(float)
        self._counted_s = 0.0
        self._counted_at_s = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        if not self._taken:
            self._count(AROUND)
        yield
        last_of_file = nextitem is None or nextitem.path != item.path
        if last_of_file or time.monotonic() - self._counted_at_s > SHORT_S:
            self._count(item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._count(AROUND)
        self._path.write_text(json.dumps(self._taken))

    def _count(self, test: str) -> None:
        counted_s = seconds_of(os.getpid())
        self._taken[test] += counted_s - self._counted_s
        self._counted_s = counted_s
        self._counted_at_s = time.monotonic()


def seconds_of(process: int) -> float:
    """Return the processor time of a process and of all that it has started."""
    taken: dict[int, float] = {}
    started: defaultdict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path("/proc", name, "stat").read_bytes()
            except OSError:
                continue
            fields = stat.rpartition(b")")[2].split()
            started[int(fields[1])].append(int(name))
            # Its own time, and that of ended processes that it has waited for.
            taken[int(name)] = sum(map(int, fields[11:15])) * _TICK_S
    found_s, look_at = 0.0, [process]
    while look_at:
        one = look_at.pop()
        found_s += taken.get(one, 0.0)
        look_at += started[one]
    return found_s


def table(paths: Iterable[Path]) -> Iterator[str]:
    """Yield lines with the seconds of each file of tests, those that took most first."""
    files: defaultdict[str, float] = defaultdict(float)
    for path in paths:
        if path.exists():
            for test, seconds in json.loads(path.read_text()).items():
                file = f"{test} ({path.stem})" if test == AROUND else test.partition("::")[0]
                files[file] += seconds
    for file, seconds in sorted(files.items(), key=lambda one: -one[1]):
        yield f"{seconds:7.1f} s  {file}"
    yield f"{sum(files.values()):7.1f} s  of processor time in all"
