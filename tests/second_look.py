"""The second run of tests that failed in CI, alone, if it can prove something.

CI runs five shares of the tests at a time, with their clusters of processes, on two cores: a wait
may be cut short by that. Such a test is run again with the machine to itself, and if it passes
then, it is named as a defect to fix. There is no second look at

- failures of simulation or of a chaos checker: a promise that is broken once is broken. Only a wait
  that ended, or a situation that never came, says nothing of the product there;
- more than `MOST` failures: that is no accident.

tests/run.py calls it for each of its runs, with `--second-look`.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MOST = 3
JUDGES = ("tests.simulation.", "tests.chaos.")
INCONCLUSIVE = ("TimeoutError", "AssertionError: never seen:")


class Failure(NamedTuple):
    """`module` is dotted; `said` begins with the exception's name."""

    module: str
    test: str
    said: str

    @property
    def final(self) -> bool:
        """Whether it is not looked at again."""
        return self.module.startswith(JUDGES) and not self.said.startswith(INCONCLUSIVE)


def failures_of(report: str) -> list[Failure]:
    """Return the failures in a report. Raises ParseError if it is no report."""
    found = []
    for case in ElementTree.fromstring(report).iter("testcase"):
        for outcome in (*case.findall("failure"), *case.findall("error")):
            found.append(Failure(case.get("classname", ""), case.get("name", ""), _said(outcome)))
    return found


def _said(outcome: ElementTree.Element) -> str:
    return outcome.get("message", "").strip()


def verdict(failures: Sequence[Failure]) -> str | None:
    """Return why there is no second look; None if there is one."""
    if not failures:
        return "nothing is said to have failed, and yet the tests did not end well"
    if len(failures) > MOST:
        return f"{len(failures)} tests failed, and at most {MOST} are looked at again"
    final = [failure for failure in failures if failure.final]
    if final:
        return "a promise is broken: " + ", ".join(failure.test for failure in final)
    return None


def look_again(report: Path, environment: Mapping[str, str], cache: Path) -> int:
    """Run alone what failed in `report` (`pytest --junitxml`); return 0 where all of it passes.

    `cache` is the cache folder of the run that wrote the report: it lists what failed.
    """
    failures = failures_of(report.read_text()) if report.exists() else []
    for failure in failures:
        print(f"failed beside others: {failure.module} {failure.test}: {failure.said[:200]}")
    refusal = verdict(failures)
    if refusal is not None:
        print(f"no second look: {refusal}")
        return 1
    again = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--last-failed",
        "--last-failed-no-failures=none",
        *("-o", f"cache_dir={cache}"),
    ]
    code = subprocess.run(again, env=environment, check=False).returncode
    if code == 0:
        for failure in failures:
            print(f"TO MEND, it passes alone: {failure.module} {failure.test}")
    return code
