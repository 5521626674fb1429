"""How `make test` and `make test-long` choose what runs."""

from __future__ import annotations

from tests.long_tests import ALONE, LONG, QUICK, names_of
from tests.parts import ALL, LONG_TESTS, ROOT, Part
from tests.run import long_tests, short_tests


def test_the_parts_are_all_long_tests_and_each_is_in_one() -> None:
    for count in (1, 2, LONG_TESTS, 40):
        names = [name for number in range(1, count + 1) for name in names_of(Part(number, count))]
        assert sorted(names) == sorted(LONG)
    assert sorted(names_of(ALL)) == sorted(LONG)


def test_parts_take_about_equally_long() -> None:
    parts = [names_of(Part(number, LONG_TESTS)) for number in range(1, LONG_TESTS + 1)]
    times = [sum(LONG[name] for name in names) for names in parts]
    assert max(times) - min(times) <= max(LONG.values())


def test_every_name_is_of_a_test_that_exists() -> None:
    for name in (*QUICK, *ALONE, *LONG):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test.partition('[')[0]}" in (ROOT / path).read_text(), name


def test_no_name_is_within_another() -> None:
    for name in LONG:
        assert not [other for other in LONG if other != name and name.startswith(other)]


def test_every_long_test_runs_in_one_of_the_parts() -> None:
    runs = [run for n in range(1, LONG_TESTS + 1) for run in long_tests(f"{n}/{LONG_TESTS}")]
    chosen = {
        argument for run in runs for argument in run.arguments if argument.startswith("tests/")
    }
    assert chosen == {name.partition("[")[0] for name in LONG}
    whole = {argument for run in long_tests("all") for argument in run.arguments}
    assert chosen <= whole


def test_the_short_ones_leave_out_what_is_long() -> None:
    assert all("not long" in run.arguments[run.arguments.index("-m") + 1] for run in short_tests())
