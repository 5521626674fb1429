"""The kind of bad day that a run of the store has, drawn from its seed.

Seeds are weighted towards the causes of earlier data loss: nodes that lag and install checkpoints,
short tails and small segments, sources that die meanwhile.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields

KIB = 1024


@dataclass(frozen=True, slots=True)
class Options:
    """One run. Intervals are the mean virtual time between two faults of a kind (0: none)."""

    nodes: int
    groups: int
    safety_s: int
    """Seconds in which everything may fail; then all is mended, and the cluster must converge."""
    # The product's settings and bounds.
    segment_bytes: int
    lag_cap_bytes: int
    hoarder: int
    """This node keeps its raw log for long: others are told by one peer to install, and may learn
    from another. 0: none."""
    copy_bytes_per_s: int
    history: str
    """The history of an earlier breach, which is played.

    "passed": a source dies as soon as it has given its machine, and the group goes on from the
    hoarder's log while the install copies. "behind": two nodes lag, one after the other, and the
    source of the second dies before it gives anything, so that only the first, which still copies,
    is left to ask. "deposed": a reader hears of one node only, which does not hear that it leads no
    more. Else empty.
    """
    checkpoint_bytes: int
    checkpoint_s: int
    tail_instances: int
    fetch_bytes: int
    min_raw: int
    # The load.
    clients: int
    writers: int
    queues: int
    think_ms: int
    body_bytes: int
    window: int
    dedup: float
    """Share of appends with an id, which are sent anew when their outcome is unknown."""
    append_timeout_s: float
    """Seconds a client waits for the answer to an append."""
    read_ms: int
    stage: float
    """Share of messages that are staged, and released later."""
    grow: bool
    """A group is added."""
    replace: bool
    """A node loses its disk for good, and another takes its place."""
    seal_every_s: float
    truncate_every_s: float
    # Faults.
    crash_every_s: float
    power_share: float
    doom_share: float
    """Share of crashes that come at an effect on the disk, not between two turns."""
    crash_all: float
    away_s: float
    """Seconds a node is away, at most; one in three is back at once."""
    lag_every_s: float
    """A node is away until the others have gone on without it."""
    kill_source: float
    """The chance that the source of an install dies while it goes on, and that the third node does
    when it is done: what remains must have all."""
    doom_install: float
    """The chance that a node that begins an install loses its power at one of its next effects. In
    what is played it ends its install."""
    soles: int
    """The times that one of three nodes is left with what was acknowledged, and starts from a
    checkpoint that has just come to count."""
    stop_every_s: float
    pause_every_s: float
    partition_every_s: float
    reset_every_s: float
    slow_link_ms: int
    slow_disk: int
    stall: float
    clock_every_s: float
    drift_ppm: int
    rot_every_s: float
    stray_every_s: float

    def __str__(self) -> str:
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


def draw(rng: random.Random) -> Options:
    """Draw the options of a seed."""

    def sometimes(share: float, *values: float) -> float:
        return rng.choice(values) if rng.random() < share else 0

    lagging = rng.random() < 0.75
    damaged = rng.random() < (0.1 if lagging else 0.6)
    alone = not lagging and not damaged and rng.random() < 0.4
    history = ""
    if lagging and not damaged:
        history = rng.choice(["", "passed", "passed", "behind", "behind"])
    elif not alone:
        history = rng.choice(["", "deposed", "deposed", "deposed"])
    calm = history in ("passed", "behind") and rng.random() < 0.7
    body_bytes = rng.choice([600, 2000] if lagging else [100, 600, 2000])
    copy_bytes_per_s = rng.choice([32, 64, 1024]) * KIB
    if history == "passed":
        copy_bytes_per_s = 24 * body_bytes

    def unrest(share: float, *values: float) -> float:
        return 0 if calm else sometimes(share, *values)

    return Options(
        nodes=1 if alone else 3,
        groups=2 if history == "passed" else rng.choice([1, 2] if lagging else [1, 2, 3]),
        safety_s=30 if history in ("passed", "behind") else rng.choice([15, 25]),
        segment_bytes=rng.choice([12, 16] if lagging else [16, 64, 256]) * KIB,
        lag_cap_bytes=rng.choice([16, 32] if lagging else [64, 1024]) * KIB,
        hoarder=rng.choice([1, 2, 3] if history == "passed" else [0, 0, 0, 1, 2, 3])
        if lagging
        else 0,
        copy_bytes_per_s=copy_bytes_per_s,
        history=history,
        checkpoint_bytes=rng.choice([4, 16] if lagging else [32, 256]) * KIB,
        checkpoint_s=rng.choice([2, 10]),
        tail_instances=rng.choice([2, 8] if lagging else [2, 40, 512]),
        fetch_bytes=rng.choice([2, 16, 1024]) * KIB,
        min_raw=rng.choice([1, 2] if lagging else [1, 2, 4]),
        clients=1,
        writers=rng.choice([2, 3]),
        queues=3 if history == "deposed" else rng.choice([1, 2, 3]),
        think_ms=rng.choice([80, 150] if lagging else [80, 150, 300]),
        body_bytes=body_bytes,
        window=rng.choice([1, 1, 2, 6]),
        dedup=rng.choice([0.0, 0.3, 1.0]),
        read_ms=50 if history == "deposed" else rng.choice([30, 100, 400]),
        stage=0.5 if history == "deposed" else rng.choice([0.0, 0.2, 0.5]),
        grow=rng.random() < 0.3,
        replace=not alone and not calm and rng.random() < 0.7,
        seal_every_s=sometimes(0.4, 4, 10),
        truncate_every_s=sometimes(0.5, 2, 6),
        crash_every_s=unrest(0.4, 5, 10) if lagging else sometimes(0.8, 2, 5, 10),
        power_share=rng.choice([0.0, 0.5, 1.0]),
        doom_share=rng.choice([0.0, 0.5, 1.0]),
        crash_all=rng.choice([0.0, 0.0, 0.1, 0.3]),
        away_s=rng.choice([1, 3, 8]),
        lag_every_s=rng.choice([3, 5]) if lagging else 0,
        kill_source=1.0 if history else rng.choice([0.0, 0.7, 1.0]) if lagging else 0.5,
        stop_every_s=unrest(0.2, 4, 10),
        pause_every_s=unrest(0.2, 3, 8),
        partition_every_s=unrest(0.4, 3, 8),
        reset_every_s=unrest(0.3, 1, 4),
        slow_link_ms=int(sometimes(0.2, 5, 40, 150)),
        slow_disk=rng.choice([1, 1, 1, 20]),
        stall=sometimes(0.2, 0.002, 0.02),
        clock_every_s=sometimes(0.2, 3, 8),
        drift_ppm=rng.choice([0, 200, 10_000]),
        rot_every_s=sometimes(1.0, 4, 10) if damaged else 0,
        stray_every_s=sometimes(0.5, 6) if damaged else 0,
        append_timeout_s=rng.choice([0.3, 1.0, 3.0]),
        soles=rng.choice([0, 1] if calm else [0, 1, 3]) if lagging else 0,
        doom_install=0 if history in ("passed", "behind") else rng.choice([0.3, 0.6]),
    )
