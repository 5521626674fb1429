"""The list of a journey has what each round called, and not what a platform does all the time."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from tests.journeys import pages
from tests.journeys.__main__ import HEADS, Calls, Function, journey

ROUNDS = 4
A = Function("server", "gateway/a.py", "A.publish")
B = Function("store nodes", "store_nodes/b.py", "B.append")
C = Function("server", "gateway/c.py", "c")
TICK = Function("server", "gateway/a.py", "A.tick")


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.journeys.__main__.QUIET_BEFORE_S", 0.0)


class Site:
    """Answers with calls that the test gives, for rounds and for idle times by turns."""

    def __init__(self, *answers: Calls) -> None:
        self._answers = cycle(answers)

    def traced(self, act: Callable[[], None]) -> Calls:
        return next(self._answers)


def made(*answers: Calls) -> Calls:
    return journey(Site(*answers), lambda: None, lambda: None, ROUNDS)  # type: ignore[arg-type]


def test_functions_are_in_the_order_of_their_first_calls() -> None:
    assert list(made({B: 20, A: 10}, {})) == [A, B]


def test_a_function_that_idle_times_call_too_is_left_out() -> None:
    assert list(made({A: 10, TICK: 5}, {TICK: 5})) == [A]
    assert list(made({A: 10, TICK: 5}, {TICK: 5}, *[{A: 10, TICK: 5}, {}] * 3)) == [TICK, A]


def test_a_function_that_one_round_did_not_call_is_left_out() -> None:
    assert list(made({A: 10, B: 20}, {}, {A: 10}, {})) == [A]


def test_a_page_says_what_the_code_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text(
        """'''Puts a message into a box. It is a model.'''


class A:
    def publish(self):
        '''Return the offset of the message.

        Raises nothing.
        '''

    def tick(self): ...
"""
    )
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", tmp_path / "pages")
    pages.write(
        "publish",
        "A publish",
        [Function("server", "a.py", "A.publish"), Function("server", "a.py", "A.tick")],
    )
    assert (
        (tmp_path / "pages" / "publish.md")
        .read_text()
        .endswith(
            "2 functions in 1 files, in the order of first calls. The journey itself is in "
            "[ARCHITECTURE.md](../../ARCHITECTURE.md).\n"
            "\n## In the server\n"
            "\n**a.py**: Puts a message into a box.\n"
            "\n- `A.publish`: Return the offset of the message.\n- `A.tick`\n"
        )
    )


@pytest.mark.parametrize("name", HEADS)
def test_the_pages_name_functions_that_exist(name: str) -> None:
    """A page that is out of date is written again by `make journeys`."""
    file = ""
    missing = []
    for line in (pages.PAGES / f"{name}.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\*\*(.+\.py)\*\*: ", line):
            file = match[1]
        function = re.match(r"- `(.+?)`", line)
        if function and function[1] not in pages.sentences(file):
            missing.append(f"{file}: {function[1]}")
    assert not missing, "run make journeys"
