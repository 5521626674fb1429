"""Replays take turns, and rest where others need the loop."""

from __future__ import annotations

import asyncio

import pytest

from subscribe_forwarder.api.replay import ARROW, NDJSON
from subscribe_forwarder.delivery.reading import parts, time_slices
from subscribe_forwarder.delivery.reading.time_slices import (
    LATE_S,
    MOST_RESTS,
    OWN,
    SHARED,
    TimeSlices,
    TurnPause,
)
from tests.unit.subscribe_forwarder.replay_support import Site

TURN_S = 0.004


def standing(others: float, late_s: float = 0.0) -> float:
    """Return the rest after many turns in seconds, while others take the part `others` of
    the loop.
    """
    courtesy = TurnPause()
    others_s = TURN_S * others / (1.0 - others)
    return [courtesy.rest_s(TURN_S, others_s, late_s) for _ in range(100)][-1]


def test_alone_they_do_not_rest() -> None:
    assert standing(0.0) == 0.0
    assert standing(OWN) == 0.0


def test_the_more_others_take_the_longer_they_rest() -> None:
    rests = [standing(part / 100) for part in range(0, 99, 3)]
    assert rests == sorted(rests)
    assert standing(SHARED) == pytest.approx(TURN_S)
    assert standing(0.99) == pytest.approx(TURN_S), "an equal part is left to them"


def test_a_loop_that_is_late_leaves_them_a_twentieth() -> None:
    rests = [standing(0.0, late_s / 1000) for late_s in range(0, 500, 10)]
    assert rests == sorted(rests)
    assert standing(0.0, LATE_S) == 0.0, "as late as their own turns make it"
    assert standing(0.0, 1.0) == pytest.approx(MOST_RESTS * TURN_S)
    assert TURN_S / (TURN_S + standing(0.5, 1.0)) == pytest.approx(0.05)


def test_one_turn_in_which_others_had_much_to_do_is_no_reason() -> None:
    courtesy = TurnPause()
    assert courtesy.rest_s(TURN_S, TURN_S, 0.0) == 0.0


def test_a_rest_has_an_end() -> None:
    assert TurnPause().rest_s(10.0, 0.0, 10.0) == pytest.approx(0.1)


class Times:
    """A clock that stands still but for what is slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        monkeypatch.setattr(time_slices, "_sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


async def test_who_reads_while_the_loop_is_late_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    times, late_s = Times(monkeypatch), 0.0
    taking = TimeSlices(lambda: late_s, clock=lambda: times.now_s)

    async def turn() -> float:
        await taking.begin()
        times.now_s += TURN_S
        assert taking.over
        taking.end()
        return sum(times.slept)

    assert await turn() == await turn() == 0.0
    late_s = 1.0
    assert await turn() == pytest.approx(MOST_RESTS * TURN_S)
    late_s = 0.0
    assert await turn() == await turn(), "no longer than it has to"


async def test_turns_are_of_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rests count, too: many replays together take no more than one would."""
    times = Times(monkeypatch)
    taking = TimeSlices(lambda: 1.0, clock=lambda: times.now_s)
    order: list[int] = []

    async def work(number: int) -> None:
        for _ in range(3):
            await taking.begin()
            times.now_s += TURN_S
            order.append(number)
            taking.end()

    await asyncio.gather(*(work(number) for number in range(4)))
    assert order == [0, 1, 2, 3] * 3
    assert sum(times.slept) == pytest.approx(11 * MOST_RESTS * TURN_S), "after each but the last"


@pytest.mark.parametrize("accept", [ARROW, NDJSON, b"application/json"])
async def test_others_are_served_between_parts(
    monkeypatch: pytest.MonkeyPatch, accept: bytes
) -> None:
    """The size of a fetch does not matter: a ready task has a turn after each part."""
    monkeypatch.setattr(parts, "PART_MESSAGES", 10)
    monkeypatch.setattr(time_slices, "TURN_S", 0.0)
    site = Site()
    for _ in range(50):
        site.store.publish(*[b"x"] * 10)
    served = 0

    async def serve() -> None:
        nonlocal served
        while True:
            served += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(serve())
    await site.ask("max_messages=1000", accept=accept)
    others.cancel()
    assert len(site.store.fetches) == 1
    assert served >= 50


async def test_a_filter_that_matches_nothing_takes_turns_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_slices, "TURN_S", 0.0)
    site = Site()
    for _ in range(50):
        site.store.publish(*[b"x"] * 10)
    begin, begun = TimeSlices.begin, 0

    async def counted(self: TimeSlices) -> None:
        nonlocal begun
        begun += 1
        await begin(self)

    monkeypatch.setattr(TimeSlices, "begin", counted)
    await site.ask("filter=attributes.kind%20==%20'x'", accept=ARROW)
    assert begun >= 50
