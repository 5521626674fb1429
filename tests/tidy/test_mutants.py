"""The list of mutants holds, and running one tells a killed mutant from any other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Edit, Mutant, mutated
from tests.mutants.running import Copy, Verdict, judge
from tests.parts import ALL, ROOT, Part, part_of
from tests.tidy.sources import module


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name.replace(" ", "-"))
def test_every_text_is_found_once_and_its_replacement_is_python(mutant: Mutant) -> None:
    for file, text in mutated(mutant, ROOT).items():
        compile(text, file, "exec")


def test_every_test_that_a_mutant_names_is_there() -> None:
    missing = [
        f"{mutant.name}: {mutant.killed_by}"
        for mutant in MUTANTS
        if mutant.killed_by and mutant.test_name not in functions_of(ROOT / mutant.test_file)
    ]
    assert missing == []


def test_names_are_unique_and_a_mutant_is_killed_or_equivalent_not_both() -> None:
    assert [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1] == []
    assert [one.name for one in MUTANTS if one.killed_by and one.equivalent] == []
    assert [one.name for one in MUTANTS if "\n" in one.equivalent] == []


def test_every_mutant_names_the_promise_that_it_breaks() -> None:
    page = (ROOT / "docs/GUARANTEES.md").read_text(encoding="utf-8")
    promises = set(re.findall(r"^## (P\d+) ", page, flags=re.MULTILINE))
    assert [one.name for one in MUTANTS if one.breaks not in promises] == []
    assert promises - {one.breaks for one in MUTANTS} == set(), "no mutant breaks these"


def functions_of(path: Path) -> set[str]:
    """Return the names of the test functions of a file, also of those in classes."""
    return {function.name for function in module(path).functions} if path.is_file() else set()


PRODUCT = """
def double(x: int) -> int:
    assert x < 9, "nine is too much"
    return 2 * x
"""
TESTS = """
from product import double

def test_double():
    assert double(3) == 6

def test_nothing():
    pass

def test_broken():
    assert double(3) == 7

def test_raises():
    double(3)

def test_eight():
    assert double(8) == 16
"""
KILLER = "test_product.py::test_double"
EIGHT = "test_product.py::test_eight"


def mutant(replacement: str, killed_by: str = "", text: str = "2 * x", **more: str) -> Mutant:
    return Mutant(replacement, (Edit("product.py", text, replacement),), killed_by, **more)


EXPECTED = {
    mutant("3 * x", KILLER): Verdict.KILLED,
    mutant("x * 3", "test_product.py::test_nothing"): Verdict.SURVIVED,
    mutant("x + x", equivalent="Twice x is the sum of x and x."): Verdict.EQUIVALENT,
    mutant("x"): Verdict.UNTESTED,
    mutant("4 * x", KILLER, text="5 * x"): Verdict.STALE,
    mutant("y * x", KILLER, text="x"): Verdict.STALE,
    mutant("5 * x", "test_product.py::test_broken"): Verdict.TEST_FAILS,
    mutant("2 *", KILLER): Verdict.NO_ASSERTION,
    mutant("1 // 0", KILLER): Verdict.NO_ASSERTION,
    mutant("x < 8", EIGHT, text="x < 9", trips="too much"): Verdict.KILLED,
    mutant("3 * x", EIGHT, trips="too much"): Verdict.NO_ASSERTION,
    mutant(
        "2 // 0", "test_product.py::test_raises", fails_with="ZeroDivisionError"
    ): Verdict.KILLED,
}


def test_a_mutant_is_killed_by_an_assertion_of_a_test_that_passes_without_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\ntimeout = 60\n")
    (tmp_path / "product.py").write_text(PRODUCT)
    (tmp_path / "test_product.py").write_text(TESTS)
    judged = {mutant: verdict for mutant, verdict, _ in judge(Copy(tmp_path), list(EXPECTED))}
    assert judged == EXPECTED
    assert (tmp_path / "product.py").read_text() == PRODUCT


def test_a_test_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text(PRODUCT)
    with pytest.raises(RuntimeError, match="do not run without a mutant"):
        list(judge(Copy(tmp_path), [mutant("3 * x", "test_product.py::test_gone")]))


def test_parts_hold_every_item_once_and_rotate_with_the_commits() -> None:
    items = list(range(19))
    for count in (1, 2, 8, 30):
        parts = [Part(number, count).choose(items) for number in range(1, count + 1)]
        assert sorted(item for part in parts for item in part) == items
    assert part_of("all", 8) == ALL
    assert part_of("2/3", 8) == Part(2, 3)
    rotated = {part_of("rotating", 8, lambda count=count: count) for count in range(700, 708)}
    assert rotated == {Part(number, 8) for number in range(1, 9)}


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "a/b", "1/0", "2/5/6"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"part|literal"):
        part_of(text, 8)
