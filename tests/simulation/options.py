"""Swarm options: what kind of bad day a run has, drawn from its seed.

Most runs have only some of the faults, some have none: a fault that is always there hides what
happens without it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields

from store_nodes.consensus.state import Limits, Timing
from store_nodes.membership import Membership

MS = 1000
SECOND = 1000 * MS


@dataclass(frozen=True, slots=True)
class Options:
    """One run. Rates are probabilities, intervals the mean time between two faults (0: none)."""

    nodes: int
    group: int
    preferred: int | None
    safety_us: int
    time_scale_percent: int
    tick_us: int
    tcp: bool
    """Messages of a link arrive in order and are lost only with their connection."""
    pump_us: int
    """Microseconds a node gathers inputs before it acts on them; 0: on each at once."""
    delay_us: int
    loss: float
    duplication: float
    spike: float
    """Chance that a message is delayed a hundredfold."""
    flush_us: int
    slow_flush: float
    slow_node: int
    """All flushes of this node take twenty times as long; 0: of none."""
    crash_every_us: int
    power_share: float
    """Share of crashes that are power cuts: what was not synced is lost."""
    crash_all: float
    """Chance that a crash takes every node at once."""
    quiet_death: float
    """Chance that nobody notices a crash by a closed connection."""
    partition_every_us: int
    flap_every_us: int
    """The interval in which a leader's connections break for a moment, while it goes on."""
    pause_every_us: int
    clock_jump_every_us: int
    drift_ppm: int
    clients: int
    window: int
    think_us: int
    deadline_us: int
    admin_every_us: int
    read_every_us: int
    everywhere: float
    open_instances: int
    ahead_instances: int
    tail_instances: int
    spares: int = 0
    """Node ids that may join while the run goes on."""
    member_every_us: int = 0
    """The interval in which nodes are added, replaced, removed, demoted."""
    damage_every_us: int = 0
    """The interval in which a crashed node comes back with a part of its log lost."""

    @property
    def membership(self) -> Membership:
        """The first one."""
        return Membership.first({n: (f"node-{n}:1", "") for n in range(1, self.nodes + 1)})

    @property
    def timing(self) -> Timing:
        """The product's times, shortened so that a short run sees many elections."""
        default = Timing()
        scaled = {
            field.name: max(1, getattr(default, field.name) * self.time_scale_percent // 100)
            for field in fields(default)
        }
        return Timing(**scaled)

    @property
    def limits(self) -> Limits:
        return Limits(
            open_instances=self.open_instances,
            ahead_instances=self.ahead_instances,
            learn_bytes=2000,
        )


def draw(rng: random.Random) -> Options:
    """Draw the options of a seed."""

    def sometimes(chance: float, value: int) -> int:
        return value if rng.random() < chance else 0

    nodes = rng.choice([3, 3, 3, 3, 5])
    tcp = rng.random() < 0.4
    return Options(
        nodes=nodes,
        group=rng.randrange(8),
        preferred=rng.choice([None, *range(1, nodes + 1)]),
        safety_us=rng.choice([2, 3, 4, 4]) * SECOND,
        time_scale_percent=rng.choice([15, 25, 40]),
        tick_us=rng.choice([5, 10, 20]) * MS,
        tcp=tcp,
        pump_us=rng.choice([0, 0, 50, 500]),
        delay_us=rng.choice([100, 300, 1000, 5000]),
        loss=0.0 if tcp else rng.choice([0.0, 0.01, 0.05, 0.2]),
        duplication=0.0 if tcp else rng.choice([0.0, 0.02, 0.1]),
        spike=rng.choice([0.0, 0.01, 0.03]),
        flush_us=rng.choice([100, 500, 2000, 10_000]),
        slow_flush=rng.choice([0.0, 0.01, 0.05]),
        slow_node=rng.choice([0, 0, *range(1, nodes + 1)]),
        crash_every_us=sometimes(0.7, rng.choice([200, 500, 1500]) * MS),
        power_share=rng.choice([0.0, 0.5, 1.0, 1.0]),
        crash_all=rng.choice([0.0, 0.0, 0.2, 0.5]),
        quiet_death=rng.choice([0.0, 0.3]),
        partition_every_us=sometimes(0.6, rng.choice([200, 500, 1500]) * MS),
        flap_every_us=sometimes(0.5, rng.choice([100, 300, 1000]) * MS),
        pause_every_us=sometimes(0.3, rng.choice([300, 1000]) * MS),
        clock_jump_every_us=sometimes(0.4, rng.choice([200, 1000]) * MS),
        drift_ppm=rng.choice([0, 500, 50_000]),
        clients=rng.randrange(2, 6),
        window=rng.choice([1, 4, 8, 16]),
        think_us=rng.choice([1, 3, 8, 40]) * MS,
        deadline_us=rng.choice([150 * MS, 600 * MS, 60 * SECOND, 60 * SECOND, 3600 * SECOND]),
        admin_every_us=sometimes(0.6, rng.choice([100, 400]) * MS),
        read_every_us=sometimes(0.5, rng.choice([5, 30]) * MS),
        everywhere=rng.choice([0.0, 0.1]),
        open_instances=rng.choice([2, 8, 32]),
        ahead_instances=rng.choice([32, 64, 1024]),
        tail_instances=rng.choice([4, 40, 512]),
        spares=rng.choice([1, 2, 3]),
        member_every_us=sometimes(0.4, rng.choice([150, 400]) * MS),
        damage_every_us=sometimes(0.3, rng.choice([300, 800]) * MS),
    )
