"""One seed → one result; many seeds → results, over several processes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from unittest import mock

import structlog

from store_nodes.consensus import acceptor
from store_nodes.node import aging, copying, housekeeping
from store_nodes.settings import StoreNodeSettings
from store_nodes.storage.storage import StorageSettings
from tests.simulation.kernel.stdlib import installed
from tests.simulation.kernel.world import SECOND, World
from tests.simulation.store.clients import Load
from tests.simulation.store.cluster import Cluster
from tests.simulation.store.coverage import modules, modules_seen
from tests.simulation.store.faults import Faults
from tests.simulation.store.options import Options, draw
from tests.simulation.store.oracle import Oracle, Violation

COMPACTION_RATE = 4 * 1024 * 1024
CALM_S = 4
CONVERGE_S = 240
"""Seconds of virtual time in which a healed cluster has repaired, installed and said everything."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one seed."""

    seed: int
    failure: str | None
    trace: str
    events: int
    virtual_us: int
    acked: int
    reads: int
    converged_us: int
    """The time that it took after everything was mended."""
    hits: dict[str, int]
    modules: frozenset[str] = frozenset()
    """The modules that ran, where they were looked at."""


@contextmanager
def small(options: Options) -> Iterator[None]:
    """Keep bounds of the product that no setting names as small as the run asks for."""
    original = aging.storage_settings

    def storage_settings(settings: StoreNodeSettings) -> StorageSettings:
        found = original(settings)
        rules = found.rules._replace(min_raw=options.min_raw, measure_every_s=2.0)
        return found._replace(
            rules=rules, compaction_rate=COMPACTION_RATE, scrub_pass_s=3.0, remove_after_s=1.0
        )

    with ExitStack() as stack:
        for module, name, value in (
            (acceptor, "TAIL_INSTANCES", options.tail_instances),
            (housekeeping, "CHECKPOINT_BYTES", options.checkpoint_bytes),
            (housekeeping, "CHECKPOINT_S", options.checkpoint_s),
            (copying, "FETCH_BYTES", options.fetch_bytes),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch("store_nodes.node.node.storage_settings", storage_settings))
        yield


def options_of(seed: int) -> Options:
    """Draw the options from the seed alone."""
    return draw(random.Random(f"options {seed}"))


def run(seed: int, options: Options | None = None, *, notes: list[str] | None = None) -> Result:
    """Run one seed to its end or its first violation. `notes` gets what happened, in words."""
    options = options or options_of(seed)
    world = World(seed)
    world.notes = notes
    before = structlog.get_config()
    failure = None
    converged_us = 0
    cluster = Cluster(world, options)
    oracle = Oracle(world)
    with installed(world, seed), small(options), cluster.drafts_watched():
        cluster.listen_to_logs()
        try:
            converged_us = _history(world, cluster, oracle)
        except Exception as error:  # each break is a finding of this seed
            failure = f"{type(error).__name__}: {error} at {world.now_us} µs"
        finally:
            world.close()
            structlog.configure(**before)
    return Result(
        seed=seed,
        failure=failure,
        trace=world.trace(),
        events=world.events,
        virtual_us=world.now_us,
        acked=oracle.acked,
        reads=oracle.reads,
        converged_us=converged_us,
        hits=dict(sorted(world.hits.items())),
    )


def _history(world: World, cluster: Cluster, oracle: Oracle) -> int:
    options = cluster.options
    for node in range(1, options.nodes + 1):
        cluster.start(node)
    load = Load(cluster, oracle)
    load.start()
    world.run(2 * SECOND)
    faults = Faults(cluster, load)
    faults.start()
    world.run((2 + options.safety_s) * SECOND)
    faults.heal()
    healed_us = world.now_us
    until_us = healed_us + CONVERGE_S * SECOND
    # Installs and repairs of now get to see a cluster that goes on.
    world.run(healed_us + CALM_S * SECOND)
    load.stopping = True
    if not world.run(until_us, lambda: load.done):
        raise Violation("clients did not come to an end")
    checker = load.check_all(cluster.ids)
    if not world.run(until_us, lambda: checker.dead):
        raise Violation(f"not converged after {CONVERGE_S} s: nodes {sorted(cluster.running)}")
    return world.now_us - healed_us


def run_looking(seed: int) -> Result:
    """As `run`, at a third of its speed: the result says which modules ran."""
    seen: set[str] = set()
    with modules_seen(seen):
        result = run(seed)
    return replace(result, modules=frozenset(seen & modules()))


def run_many(seeds: Sequence[int], processes: int, looking: int = 0) -> Iterator[Result]:
    """Yield results in the order of the seeds; the first `looking` have the modules that ran."""
    if processes == 1:
        yield from map(run_looking, seeds[:looking])
        yield from map(run, seeds[looking:])
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        looked = pool.map(run_looking, seeds[:looking])
        others = pool.map(run, seeds[looking:])
        yield from looked
        yield from others
