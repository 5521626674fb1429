"""Runs the tests, several processes of pytest beside each other.

python -m tests.run                      all but the long ones
python -m tests.run --long all           the long ones (or 2/5: the second of five parts; or
                                         rotating: the part whose turn it is at this commit)
python -m tests.run --second-look        what failed beside others is run once more, alone
python -m tests.run --times              and print the processor time of each file of tests
python -m tests.run -- -k name tests/x   one run with these arguments of pytest
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import cpu_times
from tests.long_tests import ALL_LONG, ALONE, SHARES, Share, names_of
from tests.parts import LONG_TESTS, ROOT, part_of
from tests.second_look import look_again

PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=10")
REPORTS = ROOT / "build/tests"
COMPILED = ROOT / "build/compiled"
MINUTES = 12
"""Minutes that `make test` takes on two cores."""
AT_ONCE = 5
"""Runs of a stage at a time; with more, waits of tests end too early on two cores."""
SLOWEST = 10
SAY_EVERY_S = 60.0
NOTHING_COLLECTED = 5


class Run(NamedTuple):
    """One process of pytest; a higher niceness leaves the processors to the others.

    Beside one that is to be `alone`, only those run that leave it the processors.
    """

    name: str
    arguments: tuple[str, ...]
    niceness: int = 0
    alone: bool = False

    @property
    def report(self) -> Path:
        return REPORTS / f"{self.name}.xml"

    @property
    def output(self) -> Path:
        return REPORTS / f"{self.name}.txt"

    @property
    def cpu_times(self) -> Path:
        return REPORTS / f"{self.name}.json"

    def start(self, arguments: Sequence[str], times: bool) -> subprocess.Popen[bytes]:
        """Start it with its output in a file, and with a cache of failures of its own."""
        apart = (f"--junitxml={self.report}", "-o", f"cache_dir={REPORTS / self.name}")
        if times:
            apart += ("-p", cpu_times.__name__, f"--cpu-times={self.cpu_times}")
        for old in (self.report, self.cpu_times):
            old.unlink(missing_ok=True)
        with self.output.open("wb") as output:
            return subprocess.Popen(
                ["nice", "-n", str(self.niceness), *PYTEST, *apart, *self.arguments, *arguments],
                env=environment(),
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


Stage = Sequence[Run]
"""Runs beside each other, as many as may be at work at a time."""


def short_tests() -> Sequence[Stage]:
    """Return the stages of `make test`."""
    alone = Run("alone", (*ALONE, "-m", "not long"), alone=True)
    return [[alone, *(_run_of(share) for share in SHARES)]]


def _run_of(share: Share) -> Run:
    without = [f"--ignore={path}" for path in share.without]
    arguments = (*share.paths, *without, "-m", "not alone and not long")
    return Run(share.name, arguments, share.niceness)


def long_tests(part: str) -> Sequence[Stage]:
    """Return the stages of `make test-long` for `all` or a part.

    tests/conftest.py picks the tests.
    """
    names = names_of(part_of(part, LONG_TESTS))
    alone = [name for name in names if name.startswith(ALONE)]
    beside = [name for name in names if name not in alone]
    stages = []
    at_once = ("-n", "3", "--dist", "loadfile")
    for name, these, how in (("long", beside, at_once), ("long-alone", alone, ())):
        if these:
            # pytest takes a name that ends within the parameters of a test as that of the test.
            tests = dict.fromkeys(name.partition("[")[0] for name in these)
            marked = "long and alone" if these is alone else "long and not alone"
            stages.append([Run(name, (*tests, "-m", marked, f"--part={part}", *how))])
    return stages


def environment() -> dict[str, str]:
    """Return the environment for pytest and the servers that tests start.

    They share compiled modules, also where the caller's environment says that none are written:
    without them each of hundreds of servers compiles a thousand modules.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(COMPILED)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def link_compiled(library: Path, compiled: Path) -> None:
    """Link what pip has compiled of the libraries to where those processes look for it, once."""
    if (compiled / library.relative_to("/")).exists():
        return
    for made in library.rglob("__pycache__/*.pyc"):
        place = compiled / made.parent.parent.relative_to("/") / made.name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.hardlink_to(made)
        except OSError:
            shutil.copyfile(made, place)


def run(
    stages: Sequence[Stage],
    arguments: Sequence[str],
    second_look: bool = False,
    times: bool = False,
) -> int:
    """Run the stages one after the other, all of them; return 0 where every test passed."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    link_compiled(Path(sysconfig.get_path("purelib")), COMPILED)
    began_s = time.monotonic()
    failed = [one for stage in stages for one in _failed_of(stage, arguments, times)]
    if second_look:
        failed = [
            one for one in failed if look_again(one.report, environment(), REPORTS / one.name) != 0
        ]
    print(f"\nthe {SLOWEST} slowest tests:")
    for seconds, test in slowest(one.report for stage in stages for one in stage):
        print(f"{seconds:7.1f} s  {test}")
    if times:
        print("\nprocessor time:")
        print(*cpu_times.table(one.cpu_times for stage in stages for one in stage), sep="\n")
    print(f"{(time.monotonic() - began_s) / 60:.1f} minutes in all")
    if failed:
        print("failed:", ", ".join(one.name for one in failed))
    return 1 if failed else 0


def _failed_of(stage: Stage, arguments: Sequence[str], times: bool) -> list[Run]:
    """Run them beside each other, say now and then how far they are, and print what they print."""
    began_s = time.monotonic()
    said_s = began_s
    waiting = list(stage)
    at_work: dict[Run, subprocess.Popen[bytes]] = {}
    failed = []
    try:
        while waiting or at_work:
            while waiting and _may_start(waiting[0], at_work):
                one = waiting.pop(0)
                at_work[one] = one.start(arguments, times)
            time.sleep(0.2)
            for one in [one for one, process in at_work.items() if process.poll() is not None]:
                code = at_work.pop(one).returncode
                if code not in (0, NOTHING_COLLECTED):
                    failed.append(one)
                print(f"\n{one.name}:", *one.arguments[:6])
                print(one.output.read_text(errors="replace"))
                how = "FAILED" if one in failed else "ok"
                minutes = (time.monotonic() - began_s) / 60
                print(f"{one.name}: {how}, {minutes:.1f} minutes", flush=True)
            if at_work and time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                print(*(f"{one.name} {_percent(one)}" for one in at_work), sep=", ", flush=True)
    finally:
        for process in at_work.values():
            process.terminate()
            process.wait()
    return failed


def _may_start(one: Run, at_work: Collection[Run]) -> bool:
    """Return whether there is room beside those at work; none is beside one that is to be alone,
    but for those that leave it the processors."""
    if len(at_work) >= AT_ONCE:
        return False
    if one.alone:
        return all(other.niceness for other in at_work)
    return bool(one.niceness) or not any(other.alone for other in at_work)


def _percent(one: Run) -> str:
    """Return how far it is, by the last line that pytest ended."""
    lines = one.output.read_text(errors="replace").split("%]")
    return lines[-2][-3:].strip(" [") + " %" if len(lines) > 1 else "0 %"


def slowest(reports: Iterable[Path]) -> list[tuple[float, str]]:
    """Return the tests of the JUnit reports that took longest, with their seconds."""
    found = []
    for report in reports:
        if report.exists():
            for case in ElementTree.parse(report).iter("testcase"):
                test = f"{case.get('classname')} {case.get('name')}"
                found.append((float(case.get("time", 0)), test))
    return sorted(found, reverse=True)[:SLOWEST]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description="Run the tests.")
    parser.add_argument("--long", metavar="PART", help="long tests: all, K/N or rotating")
    parser.add_argument(
        "--second-look", action="store_true", help="run what failed once more, alone"
    )
    parser.add_argument("--times", action="store_true", help="print what processor time tests took")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    if any(
        not argument.startswith("-") and (ROOT / argument.split("::")[0]).exists()
        for argument in options.pytest
    ):
        return chosen(options.pytest)
    if options.long is None:
        print(f"All tests but the long ones: about {MINUTES} minutes on two cores.", flush=True)
        return run(short_tests(), options.pytest, options.second_look, options.times)
    try:
        names = names_of(part_of(options.long, LONG_TESTS))
    except ValueError as error:
        parser.error(str(error))
    print(f"{len(names)} of {len(ALL_LONG)} long tests or files of tests, about", end=" ")
    print(f"{sum(ALL_LONG[name] for name in names) // 60 + 1} minutes.", flush=True)
    return run(long_tests(options.long), options.pytest, options.second_look, options.times)


def chosen(arguments: Sequence[str]) -> int:
    """Run what a developer names, in one process whose output is seen as it comes."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, env=environment(), cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
