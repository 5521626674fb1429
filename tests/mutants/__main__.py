"""`python -m tests.mutants`: break one rule of the product at a time, and see that a test fails.

--part K/N         run the K-th of N parts
--part rotating    run the part whose turn it is at this commit
--only TEXT        run those mutants whose name contains this text

The exit status is 1 if any mutant survives, and if an entry of the list does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests import parts
from tests.mutants.listed import MUTANTS
from tests.mutants.running import Verdict, copied, judge


def part_of(text: str) -> parts.Part:
    """Read the option; raise ValueError for a text that names no part."""
    return parts.part_of(text, parts.MUTANTS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", type=part_of, default=parts.ALL)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    mutants = [one for one in options.part.choose(MUTANTS) if options.only in one.name]
    print(f"part {options.part}: {len(mutants)} of {len(MUTANTS)} mutants", flush=True)
    began = time.perf_counter()
    verdicts: Counter[Verdict] = Counter()
    with copied(parts.ROOT) as copy:
        for number, (mutant, verdict, why) in enumerate(judge(copy, mutants), 1):
            verdicts[verdict] += 1
            said = f"{verdict.value}: {mutant.name} [{mutant.breaks}] ({why})"
            print(f"{number}/{len(mutants)} {said}", flush=True)
    said = ", ".join(f"{count} {verdict.value}" for verdict, count in verdicts.items())
    print(f"{len(mutants)} mutants in {time.perf_counter() - began:.0f} s: {said or 'none'}")
    return 0 if mutants and all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
