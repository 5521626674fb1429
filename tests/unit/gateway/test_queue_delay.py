from __future__ import annotations

import pytest

from gateway.admission.queue_delay import MANY, SHARED_TARGET_S, TARGET_S, QueueDelay

TICK_S = 0.1


def run(
    delay: QueueDelay,
    seconds: float,
    mean_s: float | None,
    running: int = 500,
    *,
    shared: bool = False,
    limited: bool = False,
) -> float:
    """Run ticks in which requests take `mean_s` on average, and the fastest half of that.

    With None as `mean_s`, no request ends. Returns the result of the last tick.
    """
    found = 0.0
    for _ in range(round(seconds / TICK_S)):
        if mean_s is not None:
            delay.note(0.5 * mean_s)
            delay.note(1.5 * mean_s)
        found = delay.tick(TICK_S, running, shared=shared, limited=limited)
    return found


def test_what_stands_for_longer_than_it_may_is_a_queue() -> None:
    delay = QueueDelay()
    assert run(delay, 5, 0.01) == 0.0
    assert run(delay, 0.4, 1.0) == 0.0, "half a second of it"
    assert run(delay, 0.2, 1.0) == pytest.approx(9.0), "ten times as long as it may"
    assert run(delay, 0.1, 0.01) == 0.0


def test_where_others_are_too_it_may_stand_for_less() -> None:
    delay = QueueDelay()
    run(delay, 5, 0.002)
    assert run(delay, 5, 0.5 * TARGET_S) == 0.0
    assert run(delay, 5, 0.5 * TARGET_S, shared=True) > 1.0
    assert run(delay, 5, 0.9 * SHARED_TARGET_S, shared=True) == 0.0


def test_few_that_take_long_are_no_queue_unless_they_are_few_by_a_limit() -> None:
    delay = QueueDelay()
    run(delay, 5, 0.01)
    assert run(delay, 5, 1.0, running=MANY - 1) == 0.0
    assert run(delay, 5, 1.0, running=MANY - 1, limited=True) > 0.0


def test_a_store_that_is_slow_by_itself_is_no_queue() -> None:
    assert run(QueueDelay(), 5, 0.5) == 0.0
    assert run(QueueDelay(), 5, 0.5, shared=True) == 0.0


def test_what_was_least_is_forgotten_slowly() -> None:
    delay = QueueDelay()
    run(delay, 1, 0.01)
    assert run(delay, 30, 1.0) > 1.0
    assert run(delay, 600, 1.0) == 0.0


def test_an_outage_alone_is_no_queue() -> None:
    delay = QueueDelay()
    run(delay, 5, 0.01)
    assert run(delay, 5, None) == 0.0
