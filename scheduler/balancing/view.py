"""The facts for a round of balancing: live forwarders with their loads, owners, and hints."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from metadata.delivery.loads import Load
from metadata.types import WHOLE, Unit

Home = Callable[[bytes, Mapping[bytes, float]], bytes | None]
"""Returns the forwarder that owns everything of a topic uid without hints, from (uid, weights)."""


class Busy(NamedTuple):
    """A live forwarder that has reported its load."""

    load: Load
    weight: float
    age_s: float


class View(NamedTuple):
    """The fleet, by incarnation and by unit."""

    forwarders: Mapping[bytes, Busy]
    weights: Mapping[bytes, float]
    """Weights of all live forwarders, including those without a report."""
    hints: Mapping[Unit, bytes]
    owned: Mapping[Unit, bytes | None]
    """Owners of all units of the topics that matter."""
    home: Home

    def place(self, unit: Unit) -> bytes | None:
        """Return where a unit is wanted without a hint of its own.

        A topic's partition is wanted at its home, a part that is split off with its partition.
        """
        if unit.subscription_uid != WHOLE and unit.base in self.hints:
            return self.hints[unit.base]
        return self.home(unit.topic_uid, self.weights)

    def cost(self, forwarder: bytes, per_second: float) -> float:
        """Return the part of a forwarder's CPU load that deliveries at this rate account for."""
        load = self.forwarders[forwarder].load
        return load.cpu * per_second / load.per_second if load.per_second > 0 else 0.0

    def cost_of(self, forwarder: bytes, units: Collection[Unit]) -> float:
        """Return the cost of units of one kind at a forwarder.

        A unit that is not among the costliest counts as much as the last of these, as long as the
        forwarder's load has that much left.
        """
        if forwarder not in self.forwarders:
            return 0.0
        load = self.forwarders[forwarder].load
        split = any(unit.subscription_uid != WHOLE for unit in units)
        listed = load.subscriptions if split else load.partitions
        rates = {part.unit: part.per_second for part in listed}
        named = [rates[unit] for unit in units if unit in rates]
        others = max(0.0, load.per_second - sum(rates.values()))
        least = min(rates.values(), default=others)
        return self.cost(forwarder, sum(named) + min(others, (len(units) - len(named)) * least))


class Kind(enum.Enum):
    """The kind of a change; earlier kinds are tried first."""

    TOPIC = "topic"
    """A whole topic moves, so that its subscriptions still have one owner each."""
    PARTITION = "partition"
    """A single partition of a topic moves."""
    SPLIT = "split"
    """One subscription's part of a partition moves, split off it."""
    BACK = "back"
    """Hints are removed: their units move back, or are at home already."""


class Change(NamedTuple):
    """One decision: these units are wanted at the target; None stands for no hints."""

    kind: Kind
    units: tuple[Unit, ...]
    target: bytes | None
    reason: str
