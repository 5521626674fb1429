"""This tree beside a commit: what a ratio is, and when a bound is broken."""

from __future__ import annotations

import argparse
import io
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest

from benchmarks.against import (
    AGAIN,
    CASES,
    COMMIT,
    DRAIN,
    FIGURES,
    OF_SDKS,
    OF_SERVERS,
    POST_128,
    SIDES,
    THIS,
    TRIES,
    Comparison,
    Judgement,
    Round,
    Row,
    Sdk,
    Side,
    compare,
    judge,
    turn,
)
from benchmarks.sdk_publish import Ours
from harness import releases
from harness.processes import NotReady
from harness.releases import CURRENT, Release


def window(rate: float, cpu_us: float = 100.0) -> Row:
    """Return one second of a measurement."""
    latency = {"p50_ms": 5.0, "p99_ms": 9.0, "failed": 0}
    cpu_s = {"server_cpu_s": rate * cpu_us / 1e6, "clients_cpu_s": rate * cpu_us / 1e6}
    return {"n": rate, "elapsed_s": 1.0, "requests": rate / 128} | cpu_s | latency


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


def test_a_ratio_is_the_median_of_the_turns_and_the_spread_that_of_the_commit_with_itself() -> None:
    rates = {THIS: [90, 240, 330], COMMIT: [100, 200, 300], AGAIN: [110, 200, 285]}
    found = judged(rates)["msgs/s"]
    assert found.ratio == pytest.approx(1.1)
    error = 0.05 / 0.6745 * math.sqrt(math.pi / 2 / 3)
    assert found.spread == pytest.approx(2 * error, rel=1e-4)
    assert (found.this, found.commit) == (240, 200)


def test_a_bound_is_broken_beyond_the_spread_alone() -> None:
    quiet = {COMMIT: [100] * 5, AGAIN: [100] * 5}
    loud = {COMMIT: [100] * 5, AGAIN: [94, 106, 94, 106, 94]}
    slower: dict[str, Sequence[float]] = {THIS: [92] * 5}
    assert judged(quiet | slower)["msgs/s"].is_broken
    assert not judged(loud | slower)["msgs/s"].is_broken
    assert not judged(quiet | {THIS: [95] * 5})["msgs/s"].is_broken
    assert judged(loud | {THIS: [84] * 5})["msgs/s"].is_broken


def test_every_turn_of_a_round_counts_and_more_turns_make_the_spread_smaller() -> None:
    loud = {COMMIT: [100] * 5, AGAIN: [94, 106, 94, 106, 94], THIS: [90] * 5}
    (found,) = (each for each in judge(rounds_of(loud, {}), [DRAIN], FIGURES) if is_rate(each))
    rounds = [
        {place: list(windows) * 4 for place, windows in one.items()} for one in rounds_of(loud, {})
    ]
    (sharper,) = (each for each in judge(rounds, [DRAIN], FIGURES) if is_rate(each))
    assert sharper.spread == pytest.approx(found.spread / 2)
    assert sharper.is_broken
    assert not found.is_broken


def test_one_stalled_window_does_not_decide() -> None:
    rates: dict[str, Sequence[float]] = {side: [100] * 5 for side in SIDES}
    assert not judged(rates | {THIS: [100, 100, 3, 100, 100]})["msgs/s"].is_broken


def is_rate(each: Judgement) -> bool:
    return each.figure == "msgs/s"


def test_cpu_a_message_has_its_bound_too_and_latency_has_none() -> None:
    same = {side: [100.0] * 5 for side in SIDES}
    assert judged(same, {THIS: 106})["server µs/msg"].is_broken
    assert not judged(same, {THIS: 105})["server µs/msg"].is_broken
    assert judged(same)["p99 ms"].bound is None
    assert not judged(same)["p99 ms"].is_broken


def of_sdks(figure: str, rounds: list[Round]) -> Judgement:
    """Return the judgement of this figure where SDKs are compared."""
    (found,) = (
        each for each in judge(rounds, [POST_128], OF_SDKS.figures) if each.figure == figure
    )
    return found


def test_the_cpu_of_clients_has_a_bound_where_sdks_are_compared() -> None:
    rates = {side: [100.0] * 5 for side in SIDES}
    assert of_sdks("client µs/msg", rounds_of(rates, {THIS: 106})).is_broken
    assert not of_sdks("client µs/msg", rounds_of(rates, {THIS: 105})).is_broken


@pytest.mark.parametrize(("requests", "broken"), [(1.0, False), (1.04, False), (1.1, True)])
def test_an_sdk_that_sends_smaller_batches_breaks_a_bound(requests: float, broken: bool) -> None:
    rounds = rounds_of({side: [100.0] * 5 for side in SIDES}, {})
    for one in rounds:
        for row in one[THIS, POST_128]:
            row["requests"] *= requests
    assert of_sdks("msgs/request", rounds).is_broken is broken


def test_requests_that_were_not_counted_are_not_within_bounds() -> None:
    rounds = rounds_of({side: [100.0] * 5 for side in SIDES}, {})
    for one in rounds:
        for windows in one.values():
            windows[0]["requests"] = 0
    assert of_sdks("msgs/request", rounds).is_broken


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
    assert order[:3] == ["a", "c", "b"]
    assert len(order) == 3 * tries


def test_each_side_has_each_place_and_follows_each_other_side_equally_often() -> None:
    order: list[str] = []
    sides = cast("list[Side]", [Refusing(name, 0, order) for name in "abc"])
    for number in range(12):
        turn(sides, DRAIN, number, 1.0)
    turns = [order[at : at + 3] for at in range(0, len(order), 3)]
    for place in range(3):
        assert set(Counter(each[place] for each in turns).values()) == {4}
    pairs = Counter(pair for each in turns for pair in itertools.pairwise(each))
    assert set(pairs.values()) == {4}
    assert len(pairs) == 6


def test_a_turn_that_is_not_counted_comes_before_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "unpacked", lambda *_: CURRENT)
    order: list[str] = []
    sides = cast("list[Side]", [Refusing(name, 0, order) for name in SIDES])
    of = Comparison([DRAIN], FIGURES, lambda *_: nullcontext(sides))
    asked = argparse.Namespace(only="", commit="HEAD", rounds=2, turns=1, window=1.0)
    output = io.StringIO()
    compare(of, asked, tmp_path, output)
    assert len(order) == 9
    assert len(output.getvalue().splitlines()) == 6


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
