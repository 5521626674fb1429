"""The limits of all schemas of openapi.yaml, one by one, as test_openapi.py tries them in turn.

They are made up when the file is collected, which takes half a minute: `make test` leaves it out.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase

from tests.contract.test_openapi import Way, answers_are_as_described, contract, drawn, ways

__all__ = ["ways"]


@contract.parametrize()
@drawn(phases=(Phase.explicit,))
def test_all_answers_at_limits_are_as_described(case: Any, ways: list[Way]) -> None:
    answers_are_as_described(case, ways)
