"""Runs the tests in parallel, those that start no process first.

python -m tests.run                      all but the long ones
python -m tests.run --long all           the long ones (or 2/5: the second of five parts; or
                                         rotating: the part whose turn it is at this commit)
python -m tests.run --second-look        what failed beside others is run once more, alone
python -m tests.run -- -k name tests/x   one run with these arguments of pytest
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.long_tests import ALONE, LONG, QUICK, names_of
from tests.parts import LONG_TESTS, ROOT, part_of
from tests.second_look import look_again

BOTH_CORES = ("-n", "2", "--dist", "loadfile")
NOTHING_COLLECTED = 5


class Run(NamedTuple):
    """One call of pytest."""

    name: str
    arguments: tuple[str, ...]


def short_tests() -> Iterator[Run]:
    """Yield the runs of `make test`."""
    yield Run("quick", (*QUICK, "-m", "not long", "-n", "2", "--dist", "worksteal"))
    others = [f"--ignore={folder}" for folder in QUICK]
    yield Run("with processes", (*others, "-m", "not alone and not long", *BOTH_CORES))
    yield Run("alone", (*ALONE, "-m", "not long"))


def long_tests(part: str) -> Iterator[Run]:
    """Yield the runs of `make test-long` for `all` or a part; tests/conftest.py picks the tests."""
    names = names_of(part_of(part, LONG_TESTS))
    alone = [name for name in names if name.startswith(ALONE)]
    beside = [name for name in names if name not in alone]
    for name, these, how in (("long", beside, BOTH_CORES), ("long, alone", alone, ())):
        if these:
            # Of a name that ends within the parameters of a test, pytest takes the test.
            tests = dict.fromkeys(name.partition("[")[0] for name in these)
            marked = "long and alone" if these is alone else "long and not alone"
            yield Run(name, (*tests, "-m", marked, f"--part={part}", *how))


def environment() -> dict[str, str]:
    """Return the environment for pytest and the servers that tests start.

    They share compiled modules, also where the caller's environment says that none are written:
    without them each of hundreds of servers compiles a thousand modules.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(ROOT / "build/compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def run(runs: Sequence[Run], arguments: Sequence[str], second_look: bool) -> int:
    """Run them one after the other, all of them; return 0 where every test passed."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="packetboat-tests-") as folder:
        for number, one in enumerate(runs):
            print(f"\n{one.name}:", *one.arguments[:8], flush=True)
            began = time.monotonic()
            report = Path(folder) / f"{number}.xml"
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--durations=10",
                f"--junitxml={report}",
            ]
            code = subprocess.run(
                [*command, *one.arguments, *arguments], env=environment(), cwd=ROOT, check=False
            ).returncode
            minutes = (time.monotonic() - began) / 60
            if code not in (0, NOTHING_COLLECTED) and not (
                second_look and look_again(report, environment()) == 0
            ):
                failed.append(one.name)
            print(
                f"{one.name}: {'ok' if one.name not in failed else 'FAILED'}, {minutes:.1f} minutes"
            )
    if failed:
        print("failed:", ", ".join(failed))
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description="Run the tests.")
    parser.add_argument("--long", metavar="PART", help="long tests: all, K/N or rotating")
    parser.add_argument(
        "--second-look", action="store_true", help="run what failed once more, alone"
    )
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    if any(
        not argument.startswith("-") and (ROOT / argument.split("::")[0]).exists()
        for argument in options.pytest
    ):
        return run([Run("chosen", ())], options.pytest, options.second_look)
    if options.long is None:
        print("All tests but the long ones: about forty minutes on two cores.", flush=True)
        return run(list(short_tests()), options.pytest, options.second_look)
    try:
        names = names_of(part_of(options.long, LONG_TESTS))
    except ValueError as error:
        parser.error(str(error))
    print(f"{len(names)} of {len(LONG)} long tests or files of tests, about", end=" ")
    print(f"{sum(LONG[name] for name in names) // 60 + 1} minutes.", flush=True)
    return run(list(long_tests(options.long)), options.pytest, options.second_look)


if __name__ == "__main__":
    sys.exit(main())
