"""The delivery half as a whole: a seed is one history, and seeded bugs are noticed.

`make sim` runs more seeds; these tests hold that a run of them can fail.
"""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from tests.simulation.delivery.main import FULL_SET_RUNS, REQUIRED, findings
from tests.simulation.delivery.mutations import MUTATIONS
from tests.simulation.delivery.options import ACTORS, EXPORTING, FAULTS, GROWING, draw
from tests.simulation.delivery.runs import Result
from tests.simulation.misfits import misfit

SEEDS = range(1, 4)


def run_apart(seed: int, mutation: str | None = None) -> Result:
    """Run a seed in a process whose modules see the simulation's clocks from their import on."""
    command = [sys.executable, "-m", "tests.simulation.delivery", "--one", "--seed", str(seed)]
    command += [] if mutation is None else ["--mutation", mutation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.stdout, done.stderr[-3000:]
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)


def test_options_are_drawn_from_the_seed_alone() -> None:
    assert draw(5) == draw(5)
    drawn = [draw(seed) for seed in range(FULL_SET_RUNS + 3)]
    assert {each for options in drawn for each in options.actors} == {*ACTORS, *GROWING, *EXPORTING}
    assert {each for options in drawn for each in options.faults} == set(FAULTS)


def test_a_set_that_missed_a_fault_fails() -> None:
    whole = [Result(seed, "", counts=dict.fromkeys(REQUIRED, 1)) for seed in range(FULL_SET_RUNS)]
    assert findings(whole) == []
    for name in REQUIRED:
        for each in whole:
            each.counts = {one: 1 for one in REQUIRED if one != name}
        assert findings(whole) == [f"never happened: {name}"]
    assert findings([Result(7, "", failure="first\nlast")]) == ["seed 7: last"]


def test_a_seed_is_one_history() -> None:
    """Two runs have the same events, and the same statements with the same results."""
    first, second = run_apart(3), run_apart(3)
    assert first.failure == second.failure == ""
    assert first.trace == second.trace
    assert first.counts == second.counts


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_mutation_is_noticed(name: str) -> None:
    failures = (run_apart(seed, name).failure for seed in SEEDS)
    failure = next(filter(None, failures), None)
    assert failure is not None, "nothing noticed"
    assert misfit(failure) is None, failure
