"""A small set of seeded runs of the product's own store nodes; CI runs more (`make sim`)."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from unittest.mock import Mock

import pytest

from tests.simulation.kernel.world import SECOND, World
from tests.simulation.store.__main__ import FULL_SET_RUNS, missing
from tests.simulation.store.clients import Load
from tests.simulation.store.cluster import Cluster
from tests.simulation.store.coverage import REQUIRED, UNREACHED, modules, unreached
from tests.simulation.store.faults import Faults, is_of_the_disk
from tests.simulation.store.oracle import Oracle
from tests.simulation.store.runner import CONVERGE_S, Result, options_of, run

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run(seed: int) -> None:
    """No promise is broken, and the cluster converges."""
    result = run(seed)
    assert result.failure is None
    assert result.acked > 50


def test_row_19_a_lagging_node_installs_and_it_or_its_source_loses_power_meanwhile() -> None:
    """The node misses more than the others keep. Known ids survive; in the end all have all."""
    wanted = {
        "checkpoint installed",
        "power cut at an effect of an install",
        "source of an install died",
        "known id refused",
    }
    for seed in range(100):
        # In a history that is played, an install is to come to its end.
        options = replace(options_of(seed), history="", doom_install=0.3)
        if options.lag_every_s and options.kill_source and options.dedup:
            result = run(seed, options)
            assert result.failure is None
            wanted -= result.hits.keys()
            if not wanted:
                return
    pytest.fail(f"never happened: {wanted}")


def test_a_seed_is_one_run_whatever_the_order_of_hashing() -> None:
    """Two processes hash strings differently, and their traces have each event at the same time."""
    command = [sys.executable, "-m", "tests.simulation.store", "--seed", "4", "--runs", "1"]
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    one, other = [process.communicate()[0].splitlines()[:2] for process in running]
    assert one == other
    assert "trace" in one[0]


def test_options_are_drawn_from_the_seed_alone() -> None:
    assert options_of(5) == options_of(5)
    assert len({options_of(seed) for seed in range(50)}) == 50
    assert {options_of(seed).nodes for seed in range(FULL_SET_RUNS)} == {1, 3}


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_log_time_goes_on_in_every_run(seed: int, nodes: int) -> None:
    """No majority of clocks is so far ahead that log time would stand for the rest of a run.

    Log time never goes back, and staged messages wait for it. Once all is mended every clock is
    right. (Seed 33: the clock of a lone voter was an hour ahead.)
    """
    with closing(World(seed)) as world:
        options = replace(options_of(33), nodes=nodes, clock_every_s=0.5, crash_every_s=0)
        cluster = Cluster(world, options)
        faults = Faults(cluster, Load(cluster, Oracle(world)))
        faults.start()
        ahead_us: set[int] = set()
        while world.hits.get("clock stepped", 0) < 30:
            world.run(world.now_us + SECOND // 10)
            skews = sorted(cluster.machine(node).wall_skew_us for node in cluster.ids)
            ahead_us.add(skews[(nodes - 1) // 2])
        assert max(ahead_us) <= (0 if nodes > 1 else 30 * SECOND) < CONVERGE_S * SECOND / 2
        cluster.machine(1).wall_skew_us = SECOND
        faults.heal()
        assert all(cluster.machine(node).wall_skew_us == 0 for node in cluster.ids)


def test_no_two_clocks_count_as_an_hour_ahead() -> None:
    """The clock of a node was an hour ahead a second after another's was set right. (Seed
    279229695883: a majority was ahead, and the store forgot an id.)"""
    with closing(World(1)) as world:
        cluster = Cluster(world, replace(options_of(33), nodes=3))
        faults = Faults(cluster, Load(cluster, Oracle(world)))
        world.rng.choice = Mock(side_effect=lambda of: 3600 if 3600 in of else of[0])
        world.rng.random = Mock(return_value=0.2)  # A clock is set right after one second.
        steps_s: list[tuple[int, int]] = []
        for node, after_s in ((1, 2), (2, 2), (2, 10), (3, 2), (3, 2)):
            faults._any = Mock(return_value=node)
            faults._step_clock()
            steps_s.append((node, cluster.machine(node).wall_skew_us // SECOND))
            world.after(after_s * SECOND, lambda: None)
            world.run(world.now_us + after_s * SECOND)
            assert not cluster.machine(node).wall_skew_us
        assert steps_s == [(1, 3600), (2, 30), (2, 30), (3, 3600), (3, 3600)]


def test_a_set_that_missed_a_fault_fails() -> None:
    def results(names: tuple[str, ...]) -> list[Result]:
        result = Result(0, None, "", 1, 1, 1, 1, 1, dict.fromkeys(names, 1))
        return [result] * FULL_SET_RUNS

    assert missing(results(REQUIRED)) == []
    for name in REQUIRED:
        assert missing(results(tuple(one for one in REQUIRED if one != name))) == [name]


def test_a_module_that_no_run_executes_is_told_with_its_name() -> None:
    assert unreached(modules()) == []
    without = {path for path in modules() if not path.endswith("store_nodes/node/install.py")}
    assert unreached(without) == [
        "no run executed store_nodes/node/install.py, and no reason is written down"
    ]
    assert all(reason for reason in UNREACHED.values())


@pytest.mark.parametrize(
    ("damage", "of_the_disk"),
    [
        ("segment 13 at 10048: payload", True),
        ("segment 4294967295 at 2: an install in start 2 lacked messages", False),
        (
            "segment 13 at 10048: payload; "
            "segment 4294967295 at 2: an install in start 2 lacked messages",
            True,
        ),
    ],
)
def test_messages_that_an_install_lacked_are_no_damage_of_the_disk(
    damage: str, of_the_disk: bool
) -> None:
    """Seed 475595549471: the source's disk had rotted, and the third node was away."""
    assert is_of_the_disk({"votes_lost": False, "damage": damage}) is of_the_disk


def test_other_damage_is_of_the_disk() -> None:
    assert is_of_the_disk({"damages": ["segment 13 at 10048: payload"], "batches": 0})
