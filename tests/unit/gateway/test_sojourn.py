from __future__ import annotations

from gateway.admission.sojourn import CROWD, Sojourn

TICK_S = 0.1


def run(sojourn: Sojourn, seconds: float, each_s: float | None, running: int = 500) -> float:
    """So long takes the fastest of each tick; None: none ends."""
    found = 0.0
    for _ in range(round(seconds / TICK_S)):
        if each_s is not None:
            sojourn.note(each_s)
            sojourn.note(10 * each_s)
        found = sojourn.tick(TICK_S, running)
    return found


def test_what_even_the_luckiest_waits_for_is_a_queue() -> None:
    sojourn = Sojourn()
    assert run(sojourn, 5, 0.01) == 0.0
    assert run(sojourn, 0.4, 1.0) == 0.0, "half a second of it"
    assert run(sojourn, 0.2, 1.0) == 1.0
    assert run(sojourn, 0.1, 0.01) == 0.0


def test_few_that_take_long_are_no_queue() -> None:
    sojourn = Sojourn()
    run(sojourn, 5, 0.01)
    assert run(sojourn, 5, 1.0, running=CROWD - 1) == 0.0


def test_a_store_that_is_slow_by_itself_is_no_queue() -> None:
    assert run(Sojourn(), 5, 0.5) == 0.0


def test_what_was_least_is_forgotten_slowly() -> None:
    sojourn = Sojourn()
    run(sojourn, 1, 0.01)
    assert run(sojourn, 30, 1.0) == 1.0
    assert run(sojourn, 600, 1.0) == 0.0


def test_an_outage_alone_is_no_queue() -> None:
    sojourn = Sojourn()
    run(sojourn, 5, 0.01)
    assert run(sojourn, 5, None) == 0.0
