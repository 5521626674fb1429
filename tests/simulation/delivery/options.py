"""What one seed of the delivery half is made of; everything is drawn from the seed alone."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

from tests.chaos.delivery import (
    choosing,
    effects,
    jobs,
    keyed,
    moving,
    parked,
    published,
    redriven,
    retrying,
    tasks,
)
from tests.chaos.delivery.actor import Actor
from tests.simulation.delivery import acked

ACTORS: tuple[type[Actor], ...] = (
    acked.Acked,
    retrying.Retrying,
    keyed.Keyed,
    effects.ExactlyOnce,
    effects.AtMostOnce,
    tasks.Tasks,
    jobs.Jobs,
    choosing.Filtered,
    choosing.Ranked,
    moving.Moving,
    parked.Parked,
    redriven.Redriven,
    published.Published,
)
"""Those of `make torture` that speak over connections of their own: streams and webhooks do not."""
FAULTS = (
    "kill a server",
    "stop a server",
    "pause a server",
    "kill a store node",
    "stall Postgres",
    "cut connections to Postgres",
    "fail over",
    "lose answers",
)


@dataclass(frozen=True, slots=True)
class Options:
    """Of one seed."""

    seed: int
    actors: tuple[type[Actor], ...]
    faults: tuple[str, ...]
    """Kinds of faults that may happen."""
    busy_s: float
    """Virtual seconds of publishing amid faults."""
    every_s: float
    """The mean time between faults."""
    lost_answers: float
    lost_requests: float
    slow: float
    """Chance of a unit of Postgres' protocol to be slow."""
    slow_most_s: float
    nodes: int

    def __str__(self) -> str:
        return ", ".join(
            f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self)
        )


def draw(seed: int) -> Options:
    dice = Random(f"delivery {seed}")
    loses = dice.random() < 0.6
    kinds = tuple(kind for kind in FAULTS[:-1] if dice.random() < 0.45)
    return Options(
        seed=seed,
        # Each in its turn, so that a few seeds in a row have had all of them.
        actors=(ACTORS[seed % len(ACTORS)], ACTORS[(seed + 5) % len(ACTORS)]),
        faults=kinds + (("lose answers",) if loses else ()),
        busy_s=dice.uniform(4, 8),
        every_s=dice.uniform(0.4, 2.0),
        lost_answers=dice.choice((0.002, 0.01, 0.03)) if loses else 0.0,
        lost_requests=dice.choice((0.0, 0.002, 0.01)) if loses else 0.0,
        slow=dice.choice((0.0, 0.02, 0.1)),
        slow_most_s=dice.choice((0.05, 0.4, 1.5)),
        nodes=1,
    )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(getattr(each, "__name__", str(each)) for each in value) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
