"""The options of one seed of the delivery half; all are drawn from the seed alone."""

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
from tests.simulation.delivery import acked, exported, growing, locked
from tests.simulation.delivery.forgetting import Forgetting

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
    locked.Locked,
)
"""The actors of `make torture` that speak over connections of their own.

Those of streams and webhooks do not.
"""
GO_BACK = "go back in time"
KILL_NODE = "kill a store node"
KILL_IN_STALL = "kill in a stall"
SLOW = "slow scheduler"
LOSE = "lose answers"
TURNS = 5
"""The length of a cycle of seeds: in each, one has a Postgres that goes back in time, one
has three store nodes, and one has an export.
"""
GROWING: tuple[type[Actor], ...] = (growing.Ordered, growing.Delayed)
"""The actors of which each seed has one: their rules break only when several things fail."""
EXPORTING: tuple[type[Actor], ...] = (exported.Exported,)
FAULTS = (
    "kill a server",
    KILL_IN_STALL,
    "stop a server",
    "pause a server",
    KILL_NODE,
    "stall Postgres",
    "cut connections to Postgres",
    "fail over",
    GO_BACK,
    SLOW,
    LOSE,
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one seed."""

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
    late: float
    """Chance of a packet between servers and store node to be late: each connection for itself."""

    def __str__(self) -> str:
        return ", ".join(
            f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self)
        )


def draw(seed: int) -> Options:
    dice = Random(f"delivery {seed}")
    loses = dice.random() < 0.6
    goes_back, has_three = seed % TURNS == 2, seed % TURNS == 4
    kinds = {kind for kind in FAULTS if kind not in (GO_BACK, LOSE) and dice.random() < 0.6}
    kinds |= {GO_BACK} if goes_back else {KILL_NODE} if has_three else set()
    grows = GROWING[seed % len(GROWING)]
    played = {growing.Ordered: KILL_IN_STALL, growing.Delayed: SLOW}[grows]
    # In their turn, so that a few seeds in a row have had all of it: half of the others have one
    # fault only, which needs that a topic can grow undisturbed before it.
    calm = seed // len(GROWING) % 2 == 0 and not goes_back and not has_three
    if calm:
        loses, kinds = False, set()
    if not goes_back:
        kinds.add(played)
    if loses:
        kinds.add(LOSE)
    two = _two(seed - (seed + 2) // TURNS)
    return Options(
        seed=seed,
        actors=_forgetting() if goes_back else (*two, grows, *EXPORTING[: seed % TURNS == 3]),
        faults=tuple(each for each in FAULTS if each in kinds),
        # A repair takes four seconds and more.
        busy_s=dice.uniform(10, 14) if goes_back else dice.uniform(7, 8),
        every_s=dice.uniform(0.4, 2.0),
        lost_answers=dice.choice((0.002, 0.01, 0.03)) if loses else 0.0,
        lost_requests=dice.choice((0.0, 0.002, 0.01)) if loses else 0.0,
        slow=0.0 if calm else dice.choice((0.0, 0.02, 0.1)),
        slow_most_s=dice.choice((0.05, 0.4, 1.5)),
        nodes=3 if has_three else 1,
        late=0.01 if calm else dice.choice((0.01, 0.04, 0.1)),
    )


def _two(number: int) -> tuple[type[Actor], ...]:
    """Each in its turn, so that a few seeds in a row have had all of them."""
    return tuple(ACTORS[each % len(ACTORS)] for each in (2 * number, 2 * number + 1))


def _forgetting() -> tuple[type[Actor], ...]:
    """Return the actors whose rules name the facts that a Postgres that went back may have
    forgotten.
    """
    return tuple(each for each in ACTORS if issubclass(each, Forgetting))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(getattr(each, "__name__", str(each)) for each in value) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
