"""`python -m benchmarks.against COMMIT` (make bench-against COMMIT=...): this tree beside an
earlier commit, and that commit beside itself, which tells how far two equal programs differ here.

All three installations run at the same time, for an idle one costs little, and the load goes from
one to the next in windows of a few seconds, in each of the six orders in turn: so no side always
follows the same other one. Installations that were measured one after the other, each for a whole
run, differed by a third on a noisy machine. Each installation runs from its own tree with the
libraries that are installed here (harness/releases.py).

With `--sdk` the SDKs are compared: that of this tree and that of the commit publish to one
installation of this tree, by the loops of `sdk_load`, a process for each window. Rates and CPU
depend on the machine; the messages of a request hardly do, and show a publisher that sends smaller
batches.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import IO, Any, NamedTuple, Protocol

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import json_line, warn_of_memory_disk
from benchmarks.cases import BATCH_JSON, DRAIN, DRAIN_MESSAGES, LATENCY, LATENCY_PER_S
from benchmarks.packetboat_cluster import PacketboatCluster, pause, run_load
from benchmarks.sdk_publish import OURS, Ours
from benchmarks.settings import BenchSettings
from harness import releases
from harness.measure import median
from harness.processes import NotReady
from harness.releases import CURRENT, Release

Row = dict[str, Any]
Round = Mapping[tuple[str, str], Sequence[Row]]
"""(side, case) to the windows of one round, turn by turn."""
POST_128 = "POST, 128 in flight"
CASES = (POST_128, BATCH_JSON, DRAIN, LATENCY)
THIS, COMMIT, AGAIN = "this tree", "the commit", "the commit again"
SIDES = (THIS, COMMIT, AGAIN)
ORDERS = tuple(itertools.permutations(range(len(SIDES))))
"""The orders of a turn. In all six together each side has each place, and follows each other
side, equally often."""
LEAST_RATE = 0.95
MOST_CPU = 1.05
ERRORS_OF_MEDIAN = 2
TRIES = 3
"""Tries of a turn in which a side refused or lost requests, since the machine stalled."""
DRAIN_AT_MOST_S = 30.0

console = Console(width=130, highlight=False, soft_wrap=True)


class Side(Protocol):
    """A side is one of the three that are compared."""

    @property
    def name(self) -> str: ...

    def measure(self, case: str, window_s: float) -> Row:
        """Measure one window of a case. Raises NotReady."""
        ...


class Installation:
    """A side that is an installation."""

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
            pause()
            return self._load("drain", DRAIN_AT_MOST_S, subscription="drain")
        assert case == LATENCY, case
        options = {"topic": "latency", "subscription": "latency", "rate": LATENCY_PER_S}
        return self._load("latency", window_s, **options)

    def _load(self, case: str, seconds: float, **options: object) -> Row:
        return run_load(self._cluster, case, seconds=seconds, **options)

    def stop(self) -> None:
        self._cluster.stop()


@contextmanager
def installations(directory: Path, then: Release) -> Iterator[Sequence[Side]]:
    """Yield three running installations."""
    sides = [
        Installation(name, directory / name.replace(" ", "-"), CURRENT if name == THIS else then)
        for name in SIDES
    ]
    try:
        for side in sides:
            side.start()
        yield sides
    finally:
        for side in sides:
            side.stop()


class Sdk:
    """A side that is the SDK of a tree; it publishes to the installation of all three."""

    def __init__(self, name: str, installation: Ours, release: Release) -> None:
        self.name = name
        self._installation = installation
        self._release = release

    def measure(self, case: str, window_s: float) -> Row:
        """Measure one window of a case. Raises NotReady, also where another SDK was imported."""
        environment = self._release.environment()
        row = self._installation.run(dict(OURS)[case], window_s, environment)
        if not Path(row["sdk"]).is_relative_to(self._release.tree):
            raise NotReady(f"{row['sdk']} was imported, which is not in {self._release.tree}")
        pause()
        return row


@contextmanager
def sdks(directory: Path, then: Release) -> Iterator[Sequence[Side]]:
    """Yield three SDKs, with a running installation of this tree."""
    installation = Ours(directory)
    try:
        installation.start()
        yield [Sdk(name, installation, CURRENT if name == THIS else then) for name in SIDES]
    finally:
        installation.stop()


def turn(sides: Sequence[Side], case: str, number: int, window_s: float) -> dict[str, Row]:
    """Measure one window of each side, in the order that comes next with the number.

    All are measured again if a side refused requests; the last try counts in any case.
    """
    order = [sides[at] for at in ORDERS[number % len(ORDERS)]]
    rows: dict[str, Row] = {}
    for attempt in range(TRIES):
        rows = {side.name: side.measure(case, window_s) for side in order}
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


def client_us(windows: Sequence[Row]) -> float:
    """Return the CPU microseconds that the clients spent on a message."""
    messages = sum(row["n"] for row in windows)
    clients_cpu_s = sum(row["clients_cpu_s"] for row in windows)
    return float(clients_cpu_s / messages * 1e6) if messages else math.nan


def messages_a_request(windows: Sequence[Row]) -> float:
    """Return the messages of a request that the installation was sent."""
    requests = sum(row["requests"] for row in windows)
    return float(sum(row["n"] for row in windows) / requests) if requests else math.nan


def p50_ms(windows: Sequence[Row]) -> float:
    """Return the median of the windows' medians."""
    return median([row["p50_ms"] for row in windows])


def p99_ms(windows: Sequence[Row]) -> float:
    """Return the median of the windows' 99th percentiles."""
    return median([row["p99_ms"] for row in windows])


Figures = dict[str, Callable[[Sequence[Row]], float]]
FIGURES: Figures = {
    "msgs/s": rate,
    "server µs/msg": server_us,
    "p50 ms": p50_ms,
    "p99 ms": p99_ms,
}
OF_CLIENTS: Figures = {"client µs/msg": client_us, "msgs/request": messages_a_request}
BOUNDS = {
    "msgs/s": LEAST_RATE,
    "server µs/msg": MOST_CPU,
    "client µs/msg": MOST_CPU,
    "msgs/request": LEAST_RATE,
}
"""Bounds of figures; figures without one are reported only."""


class Comparison(NamedTuple):
    """A comparison has cases, figures, and a way to start and stop its sides."""

    cases: Sequence[str]
    figures: Figures
    sides: Callable[[Path, Release], AbstractContextManager[Sequence[Side]]]

    def chosen(self, words: str) -> list[str]:
        """Return the cases whose name contains these words."""
        return [case for case in self.cases if words in case]


OF_SERVERS = Comparison(CASES, FIGURES, installations)
OF_SDKS = Comparison([name for name, _ in OURS], FIGURES | OF_CLIENTS, sdks)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A figure of one case.

    `ratio` is the median, over the turns, of this tree over the commit; `spread` is two standard
    errors of such a median, by the commit over itself.
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


def judge(
    rounds: Sequence[Round], cases: Sequence[str] = CASES, figures: Figures = FIGURES
) -> list[Judgement]:
    """Return every figure of these cases with its verdict."""
    judged = []
    for case in cases:
        for name, figure in figures.items():
            told = {
                side: [figure([window]) for windows in rounds for window in windows[side, case]]
                for side in SIDES
            }
            spread = standard_error([each - 1 for each in _ratios(told[AGAIN], told[COMMIT])])
            judged.append(
                Judgement(
                    case,
                    name,
                    median(told[THIS]),
                    median(told[COMMIT]),
                    median(_ratios(told[THIS], told[COMMIT])),
                    ERRORS_OF_MEDIAN * spread,
                )
            )
    return judged


def standard_error(distances: Sequence[float]) -> float:
    """Return the standard error of the median of samples with these distances from their true
    value, as if these were normal: a few stalled windows count for no more than others.
    """
    deviation = median([abs(each) for each in distances]) / NormalDist().inv_cdf(0.75)
    return deviation * math.sqrt(math.pi / 2 / len(distances))


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [our / their if their else math.nan for our, their in zip(ours, theirs, strict=True)]


def print_table(judged: Sequence[Judgement]) -> None:
    """Print every figure with its ratio, its spread and its verdict."""
    table = Table(title="medians of the turns; ratio: this tree ÷ the commit")
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
    sides: Sequence[Side],
    cases: Sequence[str],
    number: int,
    asked: argparse.Namespace,
    output: IO[str],
) -> Round:
    """Measure the cases, their turns one after the other."""
    found: dict[tuple[str, str], list[Row]] = {}
    for case in cases:
        for at in range(asked.turns):
            rows = turn(sides, case, number * asked.turns + at, asked.window)
            for side, row in rows.items():
                found.setdefault((side, case), []).append(row)
                line = {"system": side, "case": case, "round": number, "turn": at}
                output.write(json_line(line | row) + "\n")
                output.flush()
        rates = ", ".join(f"{side} {rate(found[side, case]):,.0f}/s" for side in SIDES)
        console.print(f"  {case}: {rates}")
    return found


def compare(
    of: Comparison, asked: argparse.Namespace, directory: Path, output: IO[str]
) -> list[Judgement]:
    """Start the sides, measure in rounds, stop them. A turn before them warms everything up."""
    cases = of.chosen(asked.only)
    rounds = []
    with of.sides(directory, releases.unpacked(directory, asked.commit)) as sides:
        for case in cases:
            turn(sides, case, 0, asked.window)
        for number in range(asked.rounds):
            console.print(f"round {number + 1} of {asked.rounds}")
            rounds.append(measure_round(sides, cases, number, asked, output))
    return judge(rounds, cases, of.figures)


def main() -> int:
    """Exit status 1 where a bound is broken, 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="a release, or any name that Git has for a commit")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3, help="windows of each case in a round")
    parser.add_argument("--only", default="", metavar="WORDS", help="the cases whose name has them")
    parser.add_argument("--window", type=float, default=1.5, help="seconds of load at a time")
    parser.add_argument("--sdk", action="store_true", help="compare the SDKs, as they publish")
    asked = parser.parse_args()
    of = OF_SDKS if asked.sdk else OF_SERVERS
    if not of.chosen(asked.only):
        parser.error(f"--only {asked.only!r} names none of: {', '.join(of.cases)}")
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
            judged = compare(of, asked, directory, output)
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
