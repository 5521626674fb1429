"""The choice of tests of `make test` and `make test-long`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import tests.run
from tests.conftest import due_cases
from tests.long_tests import ALL_LONG, ALONE, IN_TURN, LONG, SHARES, name_of, names_of
from tests.parts import ALL, CASES, LONG_TESTS, ROOT, Part
from tests.run import AT_ONCE, Run, _may_start, link_compiled, long_tests, run, short_tests, slowest


def test_the_parts_are_all_long_tests_and_each_is_in_one() -> None:
    for count in (1, 2, LONG_TESTS, 40):
        names = [name for number in range(1, count + 1) for name in names_of(Part(number, count))]
        assert sorted(names) == sorted(ALL_LONG)
    assert sorted(names_of(ALL)) == sorted(ALL_LONG)


def test_parts_take_about_equally_long() -> None:
    parts = [names_of(Part(number, LONG_TESTS)) for number in range(1, LONG_TESTS + 1)]
    times = [sum(ALL_LONG[name] for name in names) for names in parts]
    assert max(times) - min(times) <= max(ALL_LONG.values())
    alone = [sum(ALL_LONG[name] for name in names if name.startswith(ALONE)) for names in parts]
    assert max(alone) - min(alone) <= max(ALL_LONG.values())


def test_every_name_is_of_a_test_that_exists() -> None:
    shared = [path for share in SHARES for path in share.paths]
    for name in (*shared, *ALONE, *ALL_LONG):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test.partition('[')[0]}" in (ROOT / path).read_text(), name


@pytest.mark.parametrize("names", [LONG, IN_TURN])
def test_no_name_is_within_another(names: Mapping[str, int]) -> None:
    for name in names:
        assert not [other for other in names if other != name and name.startswith(other)]


def test_a_case_that_is_long_has_no_turn() -> None:
    guide = "tests/e2e/test_guides.py::test_the_blocks_of_a_guide_run"
    long, other = f"{guide}[tutorial]", f"{guide}[filters]"
    assert (name_of(long), name_of(other)) == (f"{guide}[tutorial]", guide)
    assert due_cases([long, other], ALL) == {other}


def test_every_long_test_runs_in_one_of_the_parts() -> None:
    parts = [long_tests(f"{n}/{LONG_TESTS}") for n in range(1, LONG_TESTS + 1)]
    runs = [run for stages in parts for stage in stages for run in stage]
    chosen = {
        argument for run in runs for argument in run.arguments if argument.startswith("tests/")
    }
    assert chosen == {name.partition("[")[0] for name in ALL_LONG}
    stages = long_tests("all")
    whole = {argument for stage in stages for run in stage for argument in run.arguments}
    assert chosen <= whole


def test_each_case_in_turn_runs_at_one_of_as_many_commits_as_there_are_turns() -> None:
    cases = [f"{test}[{number}]" for test in IN_TURN for number in range(7)]
    names = ["tests/unit/test_reads.py::test_it", *cases]
    turns = [due_cases(names, Part(number, CASES)) for number in range(1, CASES + 1)]
    assert sorted(case for turn in turns for case in turn) == sorted(cases)
    assert [len(turn) for turn in turns] == [3 * len(IN_TURN)] + [2 * len(IN_TURN)] * 2


def test_the_short_ones_leave_out_what_is_long() -> None:
    runs = [run for stage in short_tests() for run in stage]
    assert all("not long" in run.arguments[run.arguments.index("-m") + 1] for run in runs)


def test_how_long_it_takes_is_said_at_the_start_and_in_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tests.run"])
    monkeypatch.setattr(tests.run, "run", lambda *_: 0)
    minutes = tests.run.MINUTES
    assert tests.run.main() == 0
    assert capsys.readouterr().out.endswith(f"about {minutes} minutes on two cores.\n")
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (told,) = [line for line in text.splitlines() if line.startswith("test: ")]
    written = {10: "ten", 20: "twenty", 30: "thirty", 40: "forty"}.get(minutes, str(minutes))
    assert f"in {written} minutes" in told


def test_beside_a_run_that_is_to_be_alone_only_those_run_that_leave_it_the_processors() -> None:
    alone, nice, other = Run("a", (), alone=True), Run("n", (), niceness=5), Run("o", ())
    assert _may_start(alone, [])
    assert _may_start(alone, [nice])
    assert not _may_start(alone, [nice, other])
    assert _may_start(nice, [alone])
    assert not _may_start(other, [alone, nice])
    assert _may_start(other, [nice])
    assert not _may_start(nice, [nice] * AT_ONCE)


def test_each_file_of_tests_is_in_one_share() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = str(path.relative_to(ROOT))
        shares = [share.name for share in SHARES if share.has(name)]
        assert len(shares) == 1, name


def test_ci_runs_each_long_test_within_five_commits() -> None:
    assert LONG_TESTS == 5


def test_the_slowest_are_of_all_reports(tmp_path: Path) -> None:
    for name, times in (("one", (3, 1)), ("other", (2, 4))):
        cases = "".join(f'<testcase classname="{name}" name="{s}" time="{s}"/>' for s in times)
        (tmp_path / name).write_text(f"<testsuites>{cases}</testsuites>")
    found = slowest([tmp_path / "one", tmp_path / "other", tmp_path / "never written"])
    assert found == [(4, "other 4"), (3, "one 3"), (2, "other 2"), (1, "one 1")]


def test_what_pip_has_compiled_is_not_compiled_again(tmp_path: Path) -> None:
    library, compiled = tmp_path / "site", tmp_path / "compiled"
    library.mkdir()
    (library / "one.py").write_text("WORD = 'there'")
    command = [sys.executable, "-Bv", "-c", "import one; print(one.WORD)"]
    subprocess.run([sys.executable, "-m", "compileall", "-q", library], check=True, env={})
    link_compiled(library, compiled)
    link_compiled(library, compiled)
    names = {"PYTHONPATH": str(library), "PYTHONPYCACHEPREFIX": str(compiled)}
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=True)
    assert done.stdout == "there\n"
    assert re.search(rf"code object from '{compiled}/.*/one\.cpython-", done.stderr)


def test_what_fails_in_one_run_of_a_stage_fails_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import sys; print(sys.argv); sys.exit('test_bad.py' in sys.argv)"
    monkeypatch.setattr(tests.run, "PYTEST", (sys.executable, "-Sc", program))
    monkeypatch.setattr(tests.run, "REPORTS", tmp_path / "reports")
    good, bad = (Run(name, (f"test_{name}.py",)) for name in ("good", "bad"))
    assert run([[good]], ()) == 0
    assert run([[good, bad]], ()) == 1
    assert run([[bad], [good]], ()) == 1
    printed = capsys.readouterr().out
    assert "good: ok" in printed
    assert "bad: FAILED" in printed
    assert "['-c', '--junitxml=" in printed
    assert "failed: bad" in printed
    assert "the 10 slowest tests:" in printed
