"""A small set of seeded runs for every test run; CI runs 1,000 (`make sim`), these among them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.parts import ROOT
from tests.simulation.__main__ import findings
from tests.simulation.cluster import Result, fork_options, harsh_options
from tests.simulation.coverage import ALSO_EXPECTED, REQUIRED
from tests.simulation.misfits import misfit
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.mutations_members import MUTATIONS_OF_MEMBERS
from tests.simulation.runner import run, run_many, summarise

RUNS = 40
"""Seeds with which all that must happen happens: 25 would be enough."""
MUTATION_SEEDS = 600
CAUGHT_BY = {
    "phase_1_ignores_reported_values": 15,
    "phase_1_picks_the_lower_ballot": 11,
    "a_hole_is_not_filled": 37,
    "an_accept_of_a_stale_ballot_is_taken": 5,
    "a_vote_counts_twice": 19,
    "chosen_is_believed_without_the_ballot": 5,
    "a_read_is_not_confirmed": 21,
    "a_new_leader_goes_on_beyond_a_change_it_found": 6,
    "a_candidate_keeps_its_promises_over_a_change": 14,
    "an_old_demotion_sets_a_damaged_node_free": 49,
}
"""Seeds that catch a mutation which few seeds catch: they are tried before all others."""


def test_a_set_of_runs() -> None:
    """No violation, every run converges, and every required situation occurs."""
    summary = summarise(run_many(range(RUNS), processes=2))
    assert findings(summary) == []


def test_a_seed_is_one_run() -> None:
    assert run(11) == run(11)
    assert run(11).trace != run(12).trace


def test_the_order_of_hashing_changes_nothing() -> None:
    """Run the same seeds in processes that hash strings differently."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "21", "--runs", "3"]
    outputs = [
        subprocess.run(
            [*command, "--processes", "1", "--traces"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
        ).stdout.splitlines()[:3]
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == 3
    assert all("trace" in line for line in outputs[0])


def test_options_are_drawn_from_the_seed_alone() -> None:
    assert fork_options(5) == fork_options(5)
    assert len({fork_options(seed) for seed in range(50)}) == 50


def test_a_set_that_missed_a_situation_fails() -> None:
    def result(coverage: tuple[str, ...]) -> Result:
        hits = dict.fromkeys(coverage, 1)
        return Result(0, None, "", 9000, 1, 1, 1, 0, hits)

    whole = summarise([result(REQUIRED), result(())])
    assert findings(whole) == []
    for name in REQUIRED:
        without = summarise([result(tuple(n for n in REQUIRED if n != name)), result(())])
        assert findings(without) == [f"never reached: {name}"]
    assert whole.missing(also_expected=True) == list(ALSO_EXPECTED)


def test_every_mutation_names_the_promise_that_it_breaks() -> None:
    page = (ROOT / "docs/GUARANTEES.md").read_text(encoding="utf-8")
    for mutation in MUTATIONS:
        named = re.search(r"\((P\d+)\)\.$", mutation.__doc__ or "")
        assert named is not None, mutation.__name__
        assert f"\n## {named[1]} " in page


def test_a_mutation_that_the_product_has_outgrown_is_told() -> None:
    """An AttributeError shows nothing: the mutation of installs failed by one, unnoticed."""
    stopped = """Violation: node 1 left with 70: AttributeError("'list' object has no attribute")"""
    assert misfit(stopped) == "AttributeError"
    assert misfit("Violation: offset 3 of queue 2 is lost at node 1") is None
    assert misfit(None) is None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    members = mutation in MUTATIONS_OF_MEMBERS
    likely = [CAUGHT_BY[mutation.__name__]] if mutation.__name__ in CAUGHT_BY else []
    with mutation():
        for seed in (*likely, *range(MUTATION_SEEDS)):
            if (failure := run(seed, harsh_options(seed, members=members)).failure) is not None:
                assert misfit(failure) is None, failure
                return
    pytest.fail(f"{mutation.__name__}: {MUTATION_SEEDS} runs and nothing noticed")
