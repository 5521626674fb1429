from __future__ import annotations

import pytest

from gateway.admission.publish_limit import CALM_S, CUT_S, LEAST, LEAST_SHARED, PublishLimit

TICK_S = 0.1


def run(
    crowd: PublishLimit,
    seconds: float,
    *,
    queued: float = 0.0,
    held: bool = True,
    shared: bool = False,
    wanted: int = 1000,
) -> float | None:
    """Run `seconds` of ticks with `wanted` publishes that want to run; return the limit
    afterwards.
    """
    for _ in range(round(seconds / TICK_S)):
        running = wanted if crowd.limit is None else min(wanted, int(crowd.limit))
        crowd.tick(running=running, queued=queued, held=held, shared=shared, took_s=TICK_S)
    return crowd.limit


def test_there_is_none_while_nothing_queues() -> None:
    assert run(PublishLimit(), 60) is None


def test_it_falls_by_steps_to_full_batches_and_to_half_of_them_where_others_are() -> None:
    crowd = PublishLimit()
    assert run(crowd, TICK_S, queued=1.0) == pytest.approx(500)
    assert run(crowd, CUT_S, queued=1.0) == pytest.approx(250), "each cut needs to show"
    assert run(crowd, 10, queued=1.0) == LEAST
    assert run(crowd, 10, queued=1.0, shared=True) == LEAST_SHARED


def test_it_rises_to_full_batches_at_once_when_nobody_else_publishes_little() -> None:
    crowd = PublishLimit()
    assert run(crowd, 10, queued=1.0, shared=True) == LEAST_SHARED
    assert run(crowd, TICK_S, shared=True) == pytest.approx(LEAST_SHARED, rel=0.02)
    assert run(crowd, TICK_S) == pytest.approx(LEAST, rel=0.02)


def test_it_grows_slowly_while_it_holds_somebody() -> None:
    crowd = PublishLimit()
    low = run(crowd, 10, queued=1.0)
    assert low is not None
    found = run(crowd, 5)
    assert found is not None
    assert 1.5 * low < found < 1.8 * low


def test_it_is_over_when_it_has_held_nobody_for_a_while() -> None:
    crowd = PublishLimit()
    run(crowd, 10, queued=1.0)
    assert run(crowd, CALM_S - TICK_S, held=False) is not None
    run(crowd, TICK_S, held=True)
    assert run(crowd, CALM_S - TICK_S, held=False) is not None
    assert run(crowd, 2 * TICK_S, held=False) is None
