"""`python -m tests.simulation.store.breaking --seed 7000 NAME …`: each mutation, or those named,
with one seed after the other until a run fails. Exit status 1 where one survives all of them, or
makes the product fail by an error of Python: it does not fit the product any more.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.misfits import misfit
from tests.simulation.store.mutations import MUTATIONS, Mutation
from tests.simulation.store.runner import Result, run

CI_RUNS = 25


def first_failure(mutation: Mutation, seed: int, runs: int = CI_RUNS) -> Result | None:
    """Return the first of `runs` seeds that notices."""
    with mutation():
        for one in range(seed, seed + runs):
            result = run(one)
            if result.failure is not None:
                return result
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.store.breaking", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="of mutations; all of them where none is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=CI_RUNS)
    options = parser.parse_args(arguments)
    unnoticed = 0
    for mutation in MUTATIONS:
        if options.names and mutation.__name__ not in options.names:
            continue
        began_s = time.perf_counter()
        found = first_failure(mutation, options.seed, options.runs)
        seconds = time.perf_counter() - began_s
        if found is None:
            unnoticed += 1
            print(
                f"{mutation.__name__} SURVIVES {options.runs} seeds ({seconds:.0f} s)", flush=True
            )
        else:
            unfit = misfit(found.failure) is not None
            unnoticed += unfit
            print(
                f"{mutation.__name__}{' DOES NOT FIT' if unfit else ''}: seed {found.seed}"
                f" ({seconds:.0f} s): {found.failure}",
                flush=True,
            )
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
