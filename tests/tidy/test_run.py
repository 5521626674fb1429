"""How `make test` and `make test-long` choose what runs."""

from __future__ import annotations

import pytest

from tests.parts import ALONE, LONG, PARTS, QUICK, ROOT, rotating, share, which
from tests.run import long_tests, short_tests


def test_the_parts_are_all_long_tests_and_each_is_in_one() -> None:
    for parts in (1, 2, PARTS, 40):
        names = [name for part in range(1, parts + 1) for name in share(part, parts)]
        assert sorted(names) == sorted(LONG)


def test_parts_take_about_equally_long() -> None:
    times = [sum(LONG[name] for name in share(part, PARTS)) for part in range(1, PARTS + 1)]
    assert max(times) - min(times) <= max(LONG.values())


@pytest.mark.parametrize("text", ["", "0/5", "6/5", "2", "a/b", "-1/5", "2/5/6"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no part"):
        which(text)


def test_a_part_is_read() -> None:
    assert which("2/5") == (2, 5)
    if (ROOT / ".git").exists():
        assert which("rotating") == (rotating(PARTS), PARTS)
        assert 1 <= rotating(PARTS) <= PARTS


def test_every_name_is_of_a_test_that_exists() -> None:
    for name in (*QUICK, *ALONE, *LONG):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test.partition('[')[0]}" in (ROOT / path).read_text(), name


def test_no_name_is_within_another() -> None:
    for name in LONG:
        assert not [other for other in LONG if other != name and name.startswith(other)]


def test_every_long_test_runs_in_one_of_the_parts() -> None:
    runs = [run for part in range(1, PARTS + 1) for run in long_tests(f"{part}/{PARTS}")]
    chosen = {
        argument for run in runs for argument in run.arguments if argument.startswith("tests/")
    }
    assert chosen == {name.partition("[")[0] for name in LONG}
    whole = {argument for run in long_tests("all") for argument in run.arguments}
    assert chosen <= whole


def test_the_short_ones_leave_out_what_is_long() -> None:
    assert all("not long" in run.arguments[run.arguments.index("-m") + 1] for run in short_tests())
