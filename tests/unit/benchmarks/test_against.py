"""This tree beside a commit: what a ratio is, and when a bound is broken."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from benchmarks.against import (
    AGAIN,
    CASES,
    COMMIT,
    DRAIN,
    OF_SDKS,
    OF_SERVERS,
    POST_128,
    SIDES,
    THIS,
    TRIES,
    Judgement,
    Round,
    Row,
    Sdk,
    Side,
    judge,
    turn,
)
from benchmarks.processes import NotReady
from benchmarks.sdk_publish import Ours
from tests.chaos.releases import CURRENT, Release


def window(rate: float, cpu_us: float = 100.0) -> Row:
    """Return one second of a measurement."""
    latency = {"p50_ms": 5.0, "p99_ms": 9.0, "failed": 0}
    cpu_s = {"server_cpu_s": rate * cpu_us / 1e6, "clients_cpu_s": rate * cpu_us / 1e6}
    return {"n": rate, "elapsed_s": 1.0} | cpu_s | latency


def rounds_of(rates: Mapping[str, Sequence[float]], cpu_us: Mapping[str, float]) -> list[Round]:
    """Return rounds with the same numbers in every case."""
    return [
        {
            (side, case): [window(rates[side][at], cpu_us.get(side, 100.0))]
            for side in SIDES
            for case in CASES
        }
        for at in range(len(rates[THIS]))
    ]


def judged(
    rates: Mapping[str, Sequence[float]], cpu_us: Mapping[str, float] | None = None
) -> dict[str, Judgement]:
    """Judge the rounds; return the judgements of one case by figure."""
    found = judge(rounds_of(rates, cpu_us or {}))
    return {each.figure: each for each in found if each.case == POST_128}


def test_a_ratio_is_the_median_of_the_rounds_and_the_spread_that_of_the_commit_with_itself() -> (
    None
):
    rates = {THIS: [90, 240, 330], COMMIT: [100, 200, 300], AGAIN: [110, 200, 285]}
    found = judged(rates)["msgs/s"]
    assert found.ratio == pytest.approx(1.1)
    assert found.spread == pytest.approx(0.05)
    assert (found.this, found.commit) == (240, 200)


def test_a_bound_is_broken_beyond_the_spread_alone() -> None:
    quiet = {COMMIT: [100] * 5, AGAIN: [100] * 5}
    loud = {COMMIT: [100] * 5, AGAIN: [94, 106, 94, 106, 94]}
    slower: dict[str, Sequence[float]] = {THIS: [92] * 5}
    assert judged(quiet | slower)["msgs/s"].is_broken
    assert not judged(loud | slower)["msgs/s"].is_broken
    assert not judged(quiet | {THIS: [95] * 5})["msgs/s"].is_broken
    assert judged(loud | {THIS: [88] * 5})["msgs/s"].is_broken


def test_cpu_a_message_has_its_bound_too_and_latency_has_none() -> None:
    same = {side: [100.0] * 5 for side in SIDES}
    assert judged(same, {THIS: 106})["server µs/msg"].is_broken
    assert not judged(same, {THIS: 105})["server µs/msg"].is_broken
    assert judged(same)["p99 ms"].bound is None
    assert not judged(same)["p99 ms"].is_broken


def test_the_cpu_of_clients_has_a_bound_where_sdks_are_compared() -> None:
    def found(client_us: float) -> Judgement:
        rates = {side: [100.0] * 5 for side in SIDES}
        rounds = rounds_of(rates, {THIS: client_us})
        (told,) = (
            each
            for each in judge(rounds, [POST_128], OF_SDKS.figures)
            if each.figure == "client µs/msg"
        )
        return told

    assert found(106).is_broken
    assert not found(105).is_broken


def test_what_was_not_measured_is_not_within_bounds() -> None:
    nothing = {THIS: [0.0] * 5, COMMIT: [0.0] * 5, AGAIN: [0.0] * 5}
    found = judged(nothing)["msgs/s"]
    assert math.isnan(found.ratio)
    assert found.is_broken


class Refusing:
    """A side that refuses requests in its first windows."""

    def __init__(self, name: str, refusals: int, order: list[str]) -> None:
        self.name = name
        self._refusals = refusals
        self._order = order

    def measure(self, case: str, window_s: float) -> Row:
        self._order.append(self.name)
        self._refusals -= 1
        return window(100) | {"failed": int(self._refusals >= 0), "errors": ["503"]}


@pytest.mark.parametrize(("refusals", "tries"), [(0, 1), (1, 2), (9, TRIES)])
def test_a_turn_is_measured_again_where_a_side_refused_requests(refusals: int, tries: int) -> None:
    order: list[str] = []
    sides = [Refusing("a", 0, order), Refusing("b", refusals, order), Refusing("c", 0, order)]
    assert set(turn(cast("list[Side]", sides), DRAIN, 1, 1.0)) == {"a", "b", "c"}
    assert order[:3] == ["b", "c", "a"]
    assert len(order) == 3 * tries


class Publishing:
    """An installation to which an SDK of some place has published."""

    def __init__(self, sdk: Path) -> None:
        self._sdk = sdk
        self.asked: list[tuple[list[str], Mapping[str, str]]] = []

    def run(self, case: list[str], seconds: float, environment: Mapping[str, str]) -> Row:
        self.asked.append((case, environment))
        return window(100) | {"sdk": str(self._sdk / "sdk/python/packetboat/__init__.py")}


def test_an_sdk_is_imported_from_its_own_tree_or_nothing_is_compared(tmp_path: Path) -> None:
    then = Release("then", tmp_path)
    publishing = Publishing(tmp_path)
    row = Sdk(COMMIT, cast(Ours, publishing), then).measure("threads", 1.0)
    assert row["n"] == 100
    assert publishing.asked == [(["sync"], then.environment())]
    with pytest.raises(NotReady, match="was imported"):
        Sdk(THIS, cast(Ours, publishing), CURRENT).measure("threads", 1.0)


def test_cases_are_chosen_by_words_of_their_names() -> None:
    assert OF_SERVERS.chosen("") == list(CASES)
    assert OF_SERVERS.chosen("drain") == [DRAIN]
    assert OF_SERVERS.chosen("nothing like it") == []
    assert OF_SDKS.chosen("threads") == ["threads"]
