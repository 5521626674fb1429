"""What a round of balancing goes by: who lives with which load, who owns what, what was wished."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from metadata.delivery.loads import Load
from metadata.types import WHOLE, Unit

Home = Callable[[bytes, Mapping[bytes, float]], bytes | None]
"""Of a topic's uid among forwarders with their weights: where everything of it is without hints."""


class Busy(NamedTuple):
    """A live forwarder that has reported."""

    load: Load
    weight: float
    age_s: float


class View(NamedTuple):
    """By incarnation and by unit."""

    forwarders: Mapping[bytes, Busy]
    weights: Mapping[bytes, float]
    """Of all that live, those without a report included."""
    hints: Mapping[Unit, bytes]
    owned: Mapping[Unit, bytes | None]
    """All units of the topics that matter."""
    home: Home

    def place(self, unit: Unit) -> bytes | None:
        """Where it is wanted without a hint of its own: a topic's partition at its home, what is
        split off with its partition."""
        if unit.subscription_uid != WHOLE and unit.base in self.hints:
            return self.hints[unit.base]
        return self.home(unit.topic_uid, self.weights)

    def cost(self, forwarder: bytes, per_second: float) -> float:
        """Of the CPU that the forwarder uses, what hand-outs at this rate account for."""
        load = self.forwarders[forwarder].load
        return load.cpu * per_second / load.per_second if load.per_second > 0 else 0.0

    def cost_of(self, forwarder: bytes, units: Collection[Unit]) -> float:
        """Of units of one kind that are there: what is not among the costliest counts as much as
        the last of these, as long as the forwarder's load has that much left."""
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
    """What a change does; the earlier are tried first."""

    TOPIC = "topic"
    """A whole topic goes elsewhere, so that its subscriptions still have one owner each."""
    PARTITION = "partition"
    """One of a topic's partitions goes elsewhere."""
    SPLIT = "split"
    """One subscription's part of a partition goes elsewhere, split off it."""
    BACK = "back"
    """Hints are taken away: what they named goes back where it was, or is there already."""


class Change(NamedTuple):
    """One decision: these units are wanted there; None: where they are without hints."""

    kind: Kind
    units: tuple[Unit, ...]
    target: bytes | None
    reason: str
