"""`python -m benchmarks.against COMMIT` (make bench-against COMMIT=...): this tree beside an
earlier commit, and that commit beside itself, which tells how far two equal programs differ here.

All three installations run at the same time, for an idle one costs little, and the load goes from
one to the next in windows of a few seconds whose order turns. Installations that were measured one
after the other, each for a whole run, differed by a third on a noisy machine. Each installation
runs from its own tree with the libraries that are installed here (tests/chaos/releases.py).
"""

from __future__ import annotations

import argparse
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import json_line, warn_of_memory_disk
from benchmarks.measure import median
from benchmarks.packetboat_cluster import PacketboatCluster, run_load, settle
from benchmarks.processes import NotReady
from benchmarks.settings import BenchSettings
from benchmarks.systems import BATCH_JSON, DRAIN, DRAIN_MESSAGES, LATENCY, LATENCY_PER_S
from tests.chaos import releases
from tests.chaos.releases import CURRENT, Release

Row = dict[str, Any]
Round = Mapping[tuple[str, str], Sequence[Row]]
"""(side, case) to the windows of one round."""
POST_128 = "POST, 128 in flight"
CASES = (POST_128, BATCH_JSON, DRAIN, LATENCY)
THIS, COMMIT, AGAIN = "this tree", "the commit", "the commit again"
SIDES = (THIS, COMMIT, AGAIN)
LEAST_RATE = 0.95
MOST_CPU = 1.05
TRIES = 3
"""Tries of a turn in which a side refused or lost requests, since the machine stalled."""
DRAIN_AT_MOST_S = 30.0

console = Console(width=130, highlight=False, soft_wrap=True)


class Side:
    """An installation, one of three."""

    def __init__(self, name: str, directory: Path, release: Release) -> None:
        self.name = name
        self._cluster = PacketboatCluster(directory, release.environment(), release.tree)

    def start(self) -> None:
        """Start the installation. Raises NotReady with the reason."""
        self._cluster.start()
        for topic in ("single", "batch", "drain", "latency"):
            self._cluster.create("/topics", {"name": topic, "partitions": 4})
        for topic in ("drain", "latency"):
            self._cluster.create(f"/topics/{topic}/subscriptions", {"name": topic})

    def measure(self, case: str, window_s: float) -> Row:
        """Measure one window of a case, as http_load counts it."""
        if case == POST_128:
            return self._load("post", window_s, topic="single", connections=128)
        if case == BATCH_JSON:
            return self._load("batch", window_s, topic="batch")
        if case == DRAIN:
            self._load(
                "batch", DRAIN_AT_MOST_S, topic="drain", messages=DRAIN_MESSAGES, encoding="msgpack"
            )
            settle()
            return self._load("drain", DRAIN_AT_MOST_S, subscription="drain")
        assert case == LATENCY, case
        options = {"topic": "latency", "subscription": "latency", "rate": LATENCY_PER_S}
        return self._load("latency", window_s, **options)

    def _load(self, case: str, seconds: float, **options: object) -> Row:
        return run_load(self._cluster, case, seconds=seconds, **options)

    def stop(self) -> None:
        self._cluster.stop()


def turn(sides: Sequence[Side], case: str, number: int, window_s: float) -> dict[str, Row]:
    """Measure one window of each side, in an order that turns with the number.

    All are measured again if a side refused requests; the last try counts in any case.
    """
    rows: dict[str, Row] = {}
    for attempt in range(TRIES):
        first = (number + attempt) % len(sides)
        rows = {
            side.name: side.measure(case, window_s) for side in (*sides[first:], *sides[:first])
        }
        refused = {name: row["errors"] for name, row in rows.items() if row["failed"]}
        if not refused:
            break
        console.print(f"  {case}: requests failed, try {attempt + 1} of {TRIES}: {refused}")
    return rows


def rate(windows: Sequence[Row]) -> float:
    """Return messages a second over the windows of a round."""
    elapsed_s = sum(row["elapsed_s"] for row in windows)
    return float(sum(row["n"] for row in windows) / elapsed_s) if elapsed_s else math.nan


def server_us(windows: Sequence[Row]) -> float:
    """Return the CPU microseconds that all server processes spent on a message."""
    messages = sum(row["n"] for row in windows)
    return (
        float(sum(row["server_cpu_s"] for row in windows) / messages * 1e6)
        if messages
        else (math.nan)
    )


def p50_ms(windows: Sequence[Row]) -> float:
    """Return the median of the windows' medians."""
    return median([row["p50_ms"] for row in windows])


def p99_ms(windows: Sequence[Row]) -> float:
    """Return the median of the windows' 99th percentiles."""
    return median([row["p99_ms"] for row in windows])


FIGURES = {"msgs/s": rate, "server µs/msg": server_us, "p50 ms": p50_ms, "p99 ms": p99_ms}
BOUNDS = {"msgs/s": LEAST_RATE, "server µs/msg": MOST_CPU}
"""Bounds of figures; figures without one are reported only."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A figure of one case.

    `ratio` is the median, over the rounds, of this tree over the commit; `spread` is the median
    distance from 1 of the commit over itself.
    """

    case: str
    figure: str
    this: float
    commit: float
    ratio: float
    spread: float

    @property
    def bound(self) -> float | None:
        """The ratio that it must not be beyond, without the spread."""
        return BOUNDS.get(self.figure)

    @property
    def is_broken(self) -> bool:
        """A bound is broken where the ratio is beyond it by more than the spread, and where
        nothing could be compared."""
        if self.bound is None:
            return False
        if math.isnan(self.ratio) or math.isnan(self.spread):
            return True
        if self.bound < 1:
            return self.ratio < self.bound - self.spread
        return self.ratio > self.bound + self.spread


def judge(rounds: Sequence[Round], cases: Sequence[str] = CASES) -> list[Judgement]:
    """Return every figure of these cases with its verdict."""
    judged = []
    for case in cases:
        for name, figure in FIGURES.items():
            told = {side: [figure(windows[side, case]) for windows in rounds] for side in SIDES}
            spread = median([abs(each - 1) for each in _ratios(told[AGAIN], told[COMMIT])])
            judged.append(
                Judgement(
                    case,
                    name,
                    median(told[THIS]),
                    median(told[COMMIT]),
                    median(_ratios(told[THIS], told[COMMIT])),
                    spread,
                )
            )
    return judged


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [our / their if their else math.nan for our, their in zip(ours, theirs, strict=True)]


def print_table(judged: Sequence[Judgement]) -> None:
    """Print every figure with its ratio, its spread and its verdict."""
    table = Table(title="medians of the rounds; ratio: this tree ÷ the commit")
    table.add_column("case", no_wrap=True)
    table.add_column("figure", no_wrap=True)
    for name in (COMMIT, THIS, "ratio", "spread", "bound", "verdict"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in judged:
        sign = "" if each.bound is None else "≥" if each.bound < 1 else "≤"
        verdict = "" if each.bound is None else "BROKEN" if each.is_broken else "met"
        table.add_row(
            each.case,
            each.figure,
            f"{each.commit:,.1f}",
            f"{each.this:,.1f}",
            f"{each.ratio:.3f}",
            f"±{each.spread:.3f}",
            f"{sign} {each.bound:g}" if each.bound is not None else "",
            verdict,
        )
    console.print(table)


def measure_round(
    sides: Sequence[Side], number: int, asked: argparse.Namespace, output: IO[str]
) -> Round:
    """Measure the cases that were asked for, their turns one after the other."""
    found: dict[tuple[str, str], list[Row]] = {}
    for case in chosen(asked.only):
        for at in range(asked.turns):
            rows = turn(sides, case, number + at, asked.window)
            for side, row in rows.items():
                found.setdefault((side, case), []).append(row)
                line = {"system": side, "case": case, "round": number, "turn": at}
                output.write(json_line(line | row) + "\n")
                output.flush()
        rates = ", ".join(f"{side} {rate(found[side, case]):,.0f}/s" for side in SIDES)
        console.print(f"  {case}: {rates}")
    return found


def compare(asked: argparse.Namespace, directory: Path, output: IO[str]) -> list[Judgement]:
    """Start the installations, measure in rounds, stop them."""
    then = releases.unpacked(directory, asked.commit)
    sides = [
        Side(name, directory / name.replace(" ", "-"), CURRENT if name == THIS else then)
        for name in SIDES
    ]
    rounds = []
    try:
        for side in sides:
            side.start()
        for number in range(asked.rounds):
            console.print(f"round {number + 1} of {asked.rounds}")
            rounds.append(measure_round(sides, number, asked, output))
    finally:
        for side in sides:
            side.stop()
    return judge(rounds, chosen(asked.only))


def chosen(words: str) -> list[str]:
    """Return the cases whose name contains these words."""
    return [case for case in CASES if words in case]


def main() -> int:
    """Exit status 1 where a bound is broken, 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="a release, or any name that Git has for a commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3, help="windows of each case in a round")
    parser.add_argument("--only", default="", metavar="WORDS", help="the cases whose name has them")
    parser.add_argument("--window", type=float, default=2.0, help="seconds of load at a time")
    asked = parser.parse_args()
    if not chosen(asked.only):
        parser.error(f"--only {asked.only!r} names none of: {', '.join(CASES)}")
    if reason := releases.missing(asked.commit):
        console.print(f"nothing to compare with: {reason}")
        return 2
    settings = BenchSettings.from_environment()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    settings.results.mkdir(parents=True, exist_ok=True)
    path = settings.results / time.strftime("against-%Y%m%d-%H%M%S.jsonl")
    directory = Path(tempfile.mkdtemp(prefix="packetboat-against-", dir=settings.directory))
    warn_of_memory_disk(directory)
    began = time.monotonic()
    try:
        with path.open("w") as output:
            judged = compare(asked, directory, output)
    except NotReady as error:
        console.print(f"nothing was compared: {error}")
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print_table(judged)
    broken = [f"{each.case}, {each.figure}" for each in judged if each.is_broken]
    console.print(f"{time.monotonic() - began:.0f} s; every window is in {path}")
    console.print(f"BROKEN beyond the spread: {'; '.join(broken)}" if broken else "within bounds")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
