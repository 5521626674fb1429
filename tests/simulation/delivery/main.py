"""Seeds of the delivery half, a process each, and what they came to."""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess as Process
from typing import IO, NamedTuple

import msgspec

from tests.simulation.delivery import exported, growing
from tests.simulation.delivery.mutations import MUTATIONS
from tests.simulation.delivery.runs import Result, run

FULL_SET_RUNS = 10
"""From here on a set of runs must have had all that is required."""
REQUIRED = (
    "kill a server",
    "kill in a stall",
    "slow scheduler",
    "stop a server",
    "pause a server",
    "kill a store node",
    "kill one of several store nodes",
    "stalls",
    "cut connections",
    "failovers",
    "went back in time",
    "lost answers of commits",
    "lost requests",
    "late units",
    "statements that waited for a lock",
    *growing.SITUATIONS,
    exported.OVERTAKEN,
)
LAST_LINES = 60
"""Lines of the log of a failed seed that are printed; a single seed prints its whole log."""
SEED_S = 900
"""Real seconds that may go by without a result."""
_FORKING = multiprocessing.get_context("fork")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.delivery")
    parser.add_argument("--seed", type=int, help="the first seed; 0, or with --hours a new one")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--hours", type=float, help="new seeds for so long, instead of --runs")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutation", choices=list(MUTATIONS), help="break this of the product")
    parser.add_argument(
        "--as-drawn", action="store_true", help="not aimed at the mutation: what `make sim` runs"
    )
    parser.add_argument("--one", action="store_true", help="one seed here; its result as JSON")
    options = parser.parse_args(arguments)
    first = options.seed
    if first is None:
        first = 0 if options.hours is None else int.from_bytes(os.urandom(3)) * 1000
    if options.one:
        (result,) = run_many([first], 1, options.mutation, aimed=not options.as_drawn)
        print(msgspec.json.encode(result).decode())
        return 0
    began_s = time.perf_counter()
    seeds: Iterable[int] = range(first, first + options.runs)
    if options.hours is not None:
        until_s = began_s + options.hours * 3600
        seeds = itertools.takewhile(lambda _: time.perf_counter() < until_s, itertools.count(first))
    results = []
    for result in run_many(seeds, options.processes, options.mutation, aimed=not options.as_drawn):
        results.append(result)
        print(
            f"seed {result.seed} trace {result.trace} {result.statements} statements,"
            f" {result.events} events, {result.virtual_s:.0f} virtual seconds",
            flush=True,
        )
        if result.failure:
            shown = result.log if options.runs == 1 else result.log[-LAST_LINES:]
            print("\n  ".join((f"  {result.options}", *shown)))
            print(f"seed {result.seed} FAILED: {result.failure}", flush=True)
    return report(results, time.perf_counter() - began_s)


def report(results: Sequence[Result], seconds: float) -> int:
    """Print what they came to; the exit status."""
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    print(
        f"{len(results)} runs in {seconds:.0f} s: {sum(bool(each.failure) for each in results)}"
        f" failed; {sum(each.virtual_s for each in results) / 3600:.2f} virtual hours,"
        f" {sum(each.events for each in results):,} events,"
        f" {sum(each.statements for each in results):,} statements"
    )
    for name, count in counts.most_common():
        print(f"  {count:7} {name}{' (required)' if name in REQUIRED else ''}")
    found = findings(results)
    for text in found:
        print(f"FINDING {text}")
    return 1 if found else 0


def findings(results: Sequence[Result]) -> list[str]:
    """Return the reasons why a set of runs fails; none if it passes."""
    found = [
        f"seed {each.seed}: {each.failure.splitlines()[-1]}" for each in results if each.failure
    ]
    if len(results) >= FULL_SET_RUNS:
        happened = {name for each in results for name, count in each.counts.items() if count}
        found += [f"never happened: {name}" for name in REQUIRED if name not in happened]
    return found


class _Running(NamedTuple):
    """A seed's process, and where what it says of failures goes that are none of the seed's."""

    seed: int
    process: Process
    said: IO[str]


def run_many(
    seeds: Iterable[int], processes: int, mutation: str | None = None, *, aimed: bool = True
) -> Iterator[Result]:
    """Results as they come; a seed is taken when there is a process for it. Each has one that does
    nothing else, forked off this one, where all is imported and nothing has run."""
    gc.freeze()
    running: dict[Connection, _Running] = {}
    for seed in seeds:
        here, there = _FORKING.Pipe(duplex=False)
        said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the result
        process = _FORKING.Process(target=_run_one, args=(there, said, seed, mutation, aimed))
        process.start()
        there.close()
        running[here] = _Running(seed, process, said)
        if len(running) >= processes:
            yield from _ended(running)
    while running:
        yield from _ended(running)


def _run_one(
    results: Connection, said: IO[str], seed: int, mutation: str | None, aimed: bool
) -> None:
    os.dup2(said.fileno(), sys.stderr.fileno())
    results.send_bytes(msgspec.json.encode(run(seed, mutation, aimed=aimed)))


def _ended(running: dict[Connection, _Running]) -> Iterator[Result]:
    """Wait for at least one, and take out those that have ended."""
    at_hand = wait(list(running), SEED_S)
    ready = [here for here in running if here in at_hand]
    for here in ready or list(running):
        seed, process, said = running.pop(here)
        result = Result(seed, "", failure=f"no result after {SEED_S} s")
        try:
            if ready:
                result = msgspec.json.decode(here.recv_bytes(), type=Result)
            else:
                process.kill()
        except EOFError:
            said.seek(0)
            result.failure = f"no result: {said.read()[-3000:]}"
        process.join()
        here.close()
        said.close()
        yield result
