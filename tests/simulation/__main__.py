"""`python -m tests.simulation --runs 2000`: seeded runs, a summary, exit status 1 on any finding.

--seed N --runs 1     reproduce one run; prints its options and its trace digest
--runs N              seeds from --seed on, over --processes
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.cluster import fork_options
from tests.simulation.coverage import REQUIRED
from tests.simulation.runner import Summary, run_many, summarise

FULL_SET_RUNS = 1000
"""From here on a set of runs must also reach what is merely expected, and be busy enough."""
MEDIAN_EVENTS = 5000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--traces", action="store_true", help="print the trace digest of each run")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    seeds = range(options.seed, options.seed + options.runs)
    results = []
    for result in run_many(seeds, options.processes if options.runs > 1 else 1):
        results.append(result)
        if options.traces or options.runs == 1:
            print(f"seed {result.seed} trace {result.trace} events {result.events}")
        if result.failure:
            print(f"seed {result.seed} FAILED: {result.failure}", flush=True)
    if options.runs == 1:
        print(fork_options(options.seed))
    summary = summarise(results)
    report(summary, time.perf_counter() - began)
    return 1 if findings(summary) else 0


def findings(summary: Summary) -> list[str]:
    """Return why a set of runs fails, in words; empty if it does not."""
    found = [f"seed {result.seed}: {result.failure}" for result in summary.failures]
    if summary.runs > 1:
        full = summary.runs >= FULL_SET_RUNS
        found += [f"never reached: {name}" for name in summary.missing(also_expected=full)]
        if full and summary.median_events < MEDIAN_EVENTS:
            found.append(f"median of {summary.median_events:.0f} events is below {MEDIAN_EVENTS}")
    return found


def report(summary: Summary, seconds: float) -> None:
    print(
        f"{summary.runs} runs in {seconds:.0f} s: {len(summary.failures)} failed; "
        f"{summary.events:,} events (median {summary.median_events:,.0f} a run); "
        f"{summary.acked:,} appends acknowledged; slowest convergence "
        f"{summary.slowest_convergence_us / 1e6:.1f} s of virtual time"
    )
    for name, runs in sorted(summary.coverage.items(), key=lambda item: -item[1]):
        print(f"  {runs:5} runs: {name}{' (required)' if name in REQUIRED else ''}")
    for text in findings(summary):
        print(f"FINDING {text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
