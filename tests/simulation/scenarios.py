"""Scripted bad days: the faults of RELIABILITY.md §10 one by one, at chosen moments, under load.

A scenario is a script of moments over a cluster that has no faults of its own. It must keep the
rules of every run (oracle.py), converge, and keep the rule that its test adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.cluster import Cluster, fork_options
from tests.simulation.options import MS, SECOND, Options
from tests.simulation.runner import quiet_and_small

FIRST_US = 600 * MS
"""By then a leader is elected and work goes on."""


def quiet_options(seed: int, **changes: Any) -> Options:
    """Return the options of a seed's cluster of three, with load and without faults."""
    steady = replace(
        fork_options(seed),
        nodes=3,
        preferred=None,
        safety_us=2600 * MS,
        time_scale_percent=25,
        tick_us=5 * MS,
        delay_us=300,
        loss=0.0,
        duplication=0.0,
        spike=0.0,
        flush_us=500,
        slow_flush=0.0,
        slow_node=0,
        crash_every_us=0,
        partition_every_us=0,
        flap_every_us=0,
        pause_every_us=0,
        clock_jump_every_us=0,
        drift_ppm=0,
        clients=4,
        window=4,
        think_us=6 * MS,
        deadline_us=60 * SECOND,
        ahead_instances=64,
        member_every_us=0,
        damage_every_us=0,
        everywhere=0.0,
        open_instances=8,
        read_every_us=30 * MS,
        admin_every_us=400 * MS,
        spares=3,
    )
    return replace(steady, **changes)


@dataclass(slots=True)
class Progress:
    """Appends acknowledged, and ballots begun, up to a moment."""

    acked: int
    ballots: int


class Scenario:
    """One scripted run."""

    def __init__(self, options: Options, seed: int) -> None:
        self.cluster = Cluster(seed, options)
        self.marks: dict[str, Progress] = {}

    def at(self, when_us: int, do: Callable[..., object], *args: Any) -> None:
        self.cluster.scheduler.after(when_us, "script", do, *args)

    def mark(self, when_us: int, name: str) -> None:
        self.at(when_us, self._mark, name)

    def _mark(self, name: str) -> None:
        oracle = self.cluster.oracle
        self.marks[name] = Progress(oracle.acked, oracle.votes.ballots)

    def between(self, first: str, last: str) -> Progress:
        a, b = self.marks[first], self.marks[last]
        return Progress(b.acked - a.acked, b.ballots - a.ballots)

    def run(self) -> Cluster:
        """Raises Violation."""
        with quiet_and_small(self.cluster.options.tail_instances):
            self.cluster.run()
        return self.cluster

    # -- moments -------------------------------------------------------------------------------

    @property
    def leader(self) -> int:
        """Return the leader of the highest ballot, else any voter."""
        leaders = [n for n in self.cluster.ids if self.cluster.nodes[n].leading]
        return max(
            leaders,
            key=lambda n: self.cluster.nodes[n].group.replica.state.leader_ballot,
            default=self.cluster.oracle.reference.membership.voters[0],
        )

    @property
    def follower(self) -> int:
        voters = self.cluster.oracle.reference.membership.voters
        return next(n for n in voters if n != self.leader)

    def power_cut(self, n: int, back_us: int) -> None:
        """Cut the power: the node loses unsynced bytes, and starts again after `back_us`."""
        cluster = self.cluster
        if cluster.alive(n):
            cluster.held_down.add(n)
            cluster.faults.crash(n, power=True)
            cluster.scheduler.after(back_us, "script", self._back, n)

    def _back(self, n: int) -> None:
        self.cluster.held_down.discard(n)
        self.cluster.restart(n)

    def cut(self, sources: list[int], targets: list[int]) -> None:
        """Nothing gets from one of these to one of those."""
        for a in sources:
            for b in targets:
                if a != b:
                    self.cluster.network.cut(a, b)

    def isolate(self, n: int, direction: str) -> None:
        """Cut a node off: "both" ways, or what it would "send", or "receive"."""
        others = [other for other in self.cluster.ids if other != n]
        if direction != "receive":
            self.cut([n], others)
        if direction != "send":
            self.cut(others, [n])

    def heal(self) -> None:
        cluster = self.cluster
        cluster.network.heal()
        for a in cluster.ids:
            for b in cluster.ids:
                if a < b and cluster.alive(a) and cluster.alive(b):
                    cluster.faults.reconnect(a, b)
