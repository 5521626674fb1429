"""The list of a journey has what each round called, and not what a platform does all the time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from tests.journeys.__main__ import Calls, Function, journey, listed

ROUNDS = 4
A = Function("server", "gateway/a.py", "A.publish")
B = Function("store nodes", "store_nodes/b.py", "B.append")
C = Function("server", "gateway/c.py", "c")
TICK = Function("server", "gateway/a.py", "A.tick")


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


def test_the_list_has_a_line_for_each_file() -> None:
    assert listed([C, B, A]) == (
        "\nserver:\n  gateway/c.py: c\n  gateway/a.py: A.publish\n"
        "\nstore nodes:\n  store_nodes/b.py: B.append"
    )
