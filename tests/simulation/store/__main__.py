"""`python -m tests.simulation.store --runs 25`: seeded runs, a summary, exit status 1 on a finding.

--seed N --runs 1     reproduce one run; prints its options and its trace digest
--notes FILE          of one run: what happened, a line each
--runs N              seeds from --seed on, over --processes
--hours H             new seeds until the time is over, and at least --runs of them
--modules N           of the first N seeds, which modules of the store they execute
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.simulation.store.coverage import REQUIRED, unreached
from tests.simulation.store.runner import Result, options_of, run, run_many

FULL_SET_RUNS = 25
"""From here on a set of runs must reach all that is required."""
CHUNK = 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.store", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; new ones where --hours is given")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--modules", type=int, default=0)
    parser.add_argument("--traces", action="store_true", help="print the trace digest of each run")
    options = parser.parse_args(arguments)
    first = options.seed
    if first is None:
        first = random.SystemRandom().randrange(1 << 40) if options.hours else 0
    began_s = time.perf_counter()
    findings: list[str] = []
    results: list[Result] = []
    for result in _results(first, options, began_s):
        results.append(result)
        if options.traces or options.runs == 1:
            print(f"seed {result.seed} trace {result.trace} events {result.events}")
        if result.failure:
            findings.append(f"seed {result.seed}: {result.failure}")
            print(f"seed {result.seed} FAILED: {result.failure}", flush=True)
    if options.runs == 1 and not options.hours:
        print(options_of(first))
    findings += [f"never happened: {name}" for name in missing(results)]
    if options.modules:
        findings += unreached({one for result in results for one in result.modules})
    report(results, time.perf_counter() - began_s)
    for text in findings:
        print(f"FINDING {text}")
    return 1 if findings else 0


def _results(first: int, options: argparse.Namespace, began_s: float) -> Iterator[Result]:
    if options.runs == 1 and not options.hours:
        notes: list[str] | None = [] if options.notes else None
        yield run(first, notes=notes)
        if notes is not None:
            options.notes.write_text("\n".join([*notes, ""]))
        return
    seed = first
    while True:
        count = CHUNK if options.hours else options.runs
        looking = options.modules if seed == first else 0
        yield from run_many(range(seed, seed + count), options.processes, looking)
        seed += count
        over = time.perf_counter() - began_s >= options.hours * 3600
        if over and seed - first >= options.runs:
            return


def missing(results: list[Result]) -> list[str]:
    """Return the situations that a large set of runs should have reached, and did not."""
    if len(results) < FULL_SET_RUNS:
        return []
    return [name for name in REQUIRED if not any(name in result.hits for result in results)]


def report(results: list[Result], seconds: float) -> None:
    virtual_h = sum(result.virtual_us for result in results) / 3.6e9
    print(
        f"{len(results)} runs of the store in {seconds:.0f} s, seeds {results[0].seed} to "
        f"{results[-1].seed}: {sum(result.failure is not None for result in results)} failed; "
        f"{virtual_h:.2f} virtual hours, {sum(result.events for result in results):,} events, "
        f"{sum(result.acked for result in results):,} appends acknowledged; slowest convergence "
        f"{max(result.converged_us for result in results) / 1e6:.1f} s of virtual time"
    )
    names = sorted({name for result in results for name in result.hits})
    for name in names:
        times = sum(result.hits.get(name, 0) for result in results)
        runs = sum(name in result.hits for result in results)
        print(f"  {times:6} times in {runs:5} runs: {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
