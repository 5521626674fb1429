"""The failures that CI looks at again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.second_look import MOST, Failure, failures_of, verdict

E2E = Failure("tests.e2e.test_up", "test_it_starts", "AssertionError: assert 503 == 200")
LOST = Failure("tests.chaos.test_fleet", "test_kills", "AssertionError: message 7 is lost")
SIMULATED = Failure("tests.simulation.test_simulation", "test_seeds[7]", "TimeoutError")


def test_what_says_nothing_of_the_product_is_looked_at_again() -> None:
    unseen = LOST._replace(said="AssertionError: never seen: ['a torn tail']; seen: {}")
    assert verdict([E2E]) is None
    assert verdict([E2E, unseen, LOST._replace(said="TimeoutError")]) is None


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([LOST], "promise"),
        ([E2E, LOST], "promise"),
        ([SIMULATED._replace(said="AssertionError: two leaders")], "promise"),
        ([E2E] * (MOST + 1), "at most"),
        ([], "nothing"),
    ],
    ids=["lost", "lost beside others", "simulated", "many", "none"],
)
def test_the_rest_is_not(failures: list[Failure], said: str) -> None:
    refusal = verdict(failures)
    assert refusal is not None
    assert said in refusal


def test_reports_are_those_of_pytest(pytester_report: str) -> None:
    bad, broken = failures_of(pytester_report)
    assert bad.test == "test_bad[a b]"
    assert bad.said.startswith("AssertionError: never seen: 1")
    assert "failed on setup" in broken.said


@pytest.fixture
def pytester_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the report of one test that passes, one that fails, and one whose fixture fails."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    test = tmp_path / "test_some.py"
    test.write_text(
        dedent(
            """
            import pytest

            @pytest.fixture
            def thing():
                raise OSError("away")

            def test_good(): pass

            @pytest.mark.parametrize("x", ["a b"])
            def test_bad(x):
                assert not x, "never seen: 1"

            def test_broken(thing): pass
            """
        )
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "test_some.py"]
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 1
    return report.read_text()
