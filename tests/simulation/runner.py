"""One seed → one result; many seeds → a summary, over several processes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from unittest import mock

import structlog

from store_nodes.consensus import acceptor
from store_nodes.node import group
from tests.simulation.cluster import Cluster, Result
from tests.simulation.coverage import ALSO_EXPECTED, REQUIRED
from tests.simulation.options import Options

CHUNK = 20


@contextmanager
def quiet_and_small(tail_instances: int) -> Iterator[None]:
    """Keep log lines off, and as little of the log in memory as the run asks for."""
    silent = structlog.wrap_logger(None, processors=[_drop])
    with (
        mock.patch.object(group, "log", silent),
        mock.patch.object(acceptor, "TAIL_INSTANCES", tail_instances),
    ):
        yield


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def run(seed: int, options: Options | None = None) -> Result:
    """Run one seed to its end or its first violation."""
    cluster = Cluster(seed, options)
    failure = None
    converged_us = 0
    with quiet_and_small(cluster.options.tail_instances):
        try:
            converged_us = cluster.run()
        except Exception as error:  # each break is a finding of this seed
            failure = f"{type(error).__name__}: {error}"
            frames = []
            trace = error.__traceback__
            while trace is not None:
                code = trace.tb_frame.f_code
                frames.append(f"{code.co_name}:{trace.tb_lineno}")
                trace = trace.tb_next
            failure += f" at {cluster.scheduler.now} µs in {' < '.join(frames[-4:][::-1])}"
    return Result(
        seed=seed,
        failure=failure,
        trace=cluster.scheduler.trace_digest(),
        events=cluster.scheduler.events,
        instances=cluster.oracle.instances,
        acked=cluster.oracle.acked,
        ballots=cluster.oracle.votes.ballots,
        converged_us=converged_us,
        coverage=cluster.coverage.hits,
    )


def run_chunk(seeds: Sequence[int]) -> list[Result]:
    return [run(seed) for seed in seeds]


def run_many(seeds: Sequence[int], processes: int) -> Iterator[Result]:
    """Results in the order of the seeds."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if processes == 1:
        for chunk in chunks:
            yield from run_chunk(chunk)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for results in pool.map(run_chunk, chunks):
            yield from results


@dataclass(slots=True)
class Summary:
    """The result of a set of runs."""

    runs: int
    failures: list[Result]
    median_events: float
    events: int
    acked: int
    coverage: dict[str, int]
    """The number of runs in which each situation occurred."""
    slowest_convergence_us: int

    def missing(self, *, also_expected: bool) -> list[str]:
        """Return the situations that no run reached."""
        names = (*REQUIRED, *ALSO_EXPECTED) if also_expected else REQUIRED
        return [name for name in names if not self.coverage.get(name)]


def summarise(results: Iterable[Result]) -> Summary:
    found = list(results)
    coverage: dict[str, int] = {}
    for result in found:
        for name in result.coverage:
            coverage[name] = coverage.get(name, 0) + 1
    return Summary(
        runs=len(found),
        failures=[result for result in found if result.failure],
        median_events=statistics.median(result.events for result in found),
        events=sum(result.events for result in found),
        acked=sum(result.acked for result in found),
        coverage=coverage,
        slowest_convergence_us=max(result.converged_us for result in found),
    )
