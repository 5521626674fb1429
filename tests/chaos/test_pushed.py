"""That the checker of pushes knows which answers may be forgotten."""

from __future__ import annotations

import pytest

from tests.chaos.delivery.pushed import BACK_S, COMMITTED_S, is_kept

LONG_AFTER_S = 1000.0


@pytest.mark.parametrize("lapse_s", [-BACK_S - 1, COMMITTED_S + 1])
def test_an_answer_is_kept_where_nothing_ended(lapse_s: float) -> None:
    assert is_kept(0.0, LONG_AFTER_S, [lapse_s])
    assert is_kept(0.0, LONG_AFTER_S, [])


@pytest.mark.parametrize("lapse_s", [-1.0, 0.01])
def test_an_answer_before_a_kill_may_be_forgotten_however_late_that_shows(lapse_s: float) -> None:
    assert not is_kept(0.0, LONG_AFTER_S, [lapse_s])


def test_what_is_being_written_down_may_come_again() -> None:
    assert not is_kept(0.0, COMMITTED_S, [])
