"""The changes of a round of balancing.

Pure.

Sticky: only a forwarder that has been too full for a while is relieved, and only by units that
another one can take without becoming as full. Each move brings the two nearer to each other, so
under a constant load there is a last one. Local first: a topic stays together while it fits
somewhere as a whole. Back: units go back at half the load that moves them away, so that nothing
moves to and fro.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from metadata.delivery.fleet import TopicKey
from metadata.delivery.loads import UnitLoad
from metadata.types import WHOLE, Unit
from scheduler.balancing.pressure import FULL, STABLE_AFTER_S, UNEVEN, Pressure
from scheduler.balancing.view import Change, Kind, View

MAX_CHANGES = 4
"""Changes in one round."""
MAX_TOGETHER = 64
"""Partitions of a topic that is moved as a whole."""
WORTH = 0.01
"""Part of a core below which units are not worth the pause of a move; small units move together."""
MAX_AT_ONCE = 16
"""Units of one topic that make up one such change."""
ROOM = 0.6
"""Load up to which a forwarder takes units."""
EMPTY_ENOUGH = 0.5
"""Load up to which units may fill their home when they go back."""


def topics_of_interest(view: View, pressure: Pressure, now_s: float) -> frozenset[TopicKey]:
    """Return the topics whose owners `plan` has to know; mostly none."""
    full = {*pressure.pressed(now_s), *_of_growing(view, pressure, now_s)}
    return frozenset(
        (part.unit.tenant_id, part.unit.topic_uid)
        for forwarder in full
        for part in _parts(view, forwarder)
    )


def plan(view: View, pressure: Pressure, now_s: float) -> list[Change]:
    """Return at most MAX_CHANGES changes; tell `pressure` what is done with them."""
    round_ = _Round(view, pressure, now_s)
    round_.relieve(pressure.pressed(now_s))
    round_.relieve_growing()
    if not round_.changes:
        round_.bring_back()
    return round_.changes


class _Round:
    """The state of a round; loads are followed as they will be after the changes so far."""

    def __init__(self, view: View, pressure: Pressure, now_s: float) -> None:
        self.changes: list[Change] = []
        self._view = view
        self._pressure = pressure
        self._now_s = now_s
        self._cpu = {each: busy.load.cpu for each, busy in view.forwarders.items()}
        self._moved: set[Unit] = set()

    def relieve(self, forwarders: Iterable[bytes]) -> None:
        """Move load off forwarders, the fullest first, each until it is not too full any more."""
        for forwarder in sorted(forwarders, key=lambda each: -self._cpu[each]):
            while len(self.changes) < MAX_CHANGES and self._too_full(forwarder):
                if not self._relieve(forwarder, "load"):
                    break

    def relieve_growing(self) -> None:
        """Make one change for each forwarder where a backlog grows."""
        for forwarder, units in _of_growing(self._view, self._pressure, self._now_s).items():
            if len(self.changes) < MAX_CHANGES and self._cpu[forwarder] >= FULL:
                self._relieve(forwarder, "backlog", units)

    def bring_back(self) -> None:
        """Move back calm units, a topic at a time, if there is room for it at home."""
        calm = self._pressure.calm(self._now_s)
        together: dict[Unit, list[Unit]] = {}
        for unit in sorted(self._view.hints):
            head = unit if unit.subscription_uid != WHOLE else unit._replace(partition=0)
            together.setdefault(head, []).append(unit)
        for units in together.values():
            if len(self.changes) < MAX_CHANGES and self._may_go_back(units, calm):
                self._change(Kind.BACK, units, None, "calm")

    def _too_full(self, forwarder: bytes) -> bool:
        cpu = self._cpu[forwarder]
        return cpu >= FULL and cpu >= UNEVEN * sum(self._cpu.values()) / len(self._cpu)

    def _relieve(self, source: bytes, reason: str, first: Iterable[Unit] = ()) -> bool:
        """Make one change that relieves the source; return False if none helps."""
        target = self._emptiest(source)
        if target is None:
            return False
        room = min(ROOM - self._cpu[target], (self._cpu[source] - self._cpu[target]) / 2)
        for kind, choices in (
            (Kind.TOPIC, self._topics(source)),
            (Kind.PARTITION, self._partitions(source)),
            (Kind.SPLIT, self._splits(source, first)),
            (Kind.SPLIT, self._splits(source)),
        ):
            fitting = {units: cost for units, cost in choices if WORTH <= cost <= room}
            if fitting:
                units = max(fitting, key=lambda each: (fitting[each], each))
                self._cpu[source] -= fitting[units]
                self._cpu[target] += fitting[units]
                self._change(kind, units, target, reason)
                return True
        return False

    def _emptiest(self, source: bytes) -> bytes | None:
        """Return the emptiest forwarder that has been there long enough for its load to be
        meaningful.
        """
        able = [
            each
            for each, busy in self._view.forwarders.items()
            if each != source
            and busy.age_s >= STABLE_AFTER_S
            and self._pressure.is_stable(each, self._now_s)
        ]
        return min(able, key=lambda each: (self._cpu[each], each), default=None)

    def _topics(self, source: bytes) -> Iterator[tuple[tuple[Unit, ...], float]]:
        """Yield topics that are together at the source, with their costs."""
        listed = self._view.forwarders[source].load.partitions
        for key in dict.fromkeys((part.unit.tenant_id, part.unit.topic_uid) for part in listed):
            units = tuple(
                sorted(
                    unit
                    for unit in self._view.owned
                    if unit[:2] == key and unit.subscription_uid == WHOLE
                )
            )
            if 0 < len(units) <= MAX_TOGETHER and all(self._at(source, unit) for unit in units):
                yield units, self._view.cost_of(source, units)

    def _partitions(self, source: bytes) -> Iterator[tuple[tuple[Unit, ...], float]]:
        """Yield partitions of topics, each alone or as many together as are worth a move."""
        listed = self._view.forwarders[source].load.partitions
        yield from self._grouped(source, [part for part in listed if self._at(source, part.unit)])

    def _splits(
        self, source: bytes, among: Iterable[Unit] | None = None
    ) -> Iterator[tuple[tuple[Unit, ...], float]]:
        """Yield subscriptions' parts that are split off already, or can be."""
        view = self._view
        chosen = None if among is None else set(among)
        found: list[UnitLoad] = []
        for part in view.forwarders[source].load.subscriptions:
            unit = part.unit
            if chosen is not None and unit not in chosen:
                continue
            split = unit in view.owned
            if not split and unit in view.hints:
                continue  # it is on its way
            if self._free(unit) and self._at(source, unit if split else unit.base):
                found.append(part)
        yield from self._grouped(source, found)

    def _grouped(
        self, source: bytes, parts: Iterable[UnitLoad]
    ) -> Iterator[tuple[tuple[Unit, ...], float]]:
        by_topic: dict[str, list[tuple[Unit, float]]] = {}
        for part in parts:
            cost = self._view.cost(source, part.per_second)
            by_topic.setdefault(part.topic, []).append((part.unit, cost))
        for found in by_topic.values():
            units: list[Unit] = []
            together = 0.0
            for unit, cost in found:
                units.append(unit)
                together += cost
                if together >= WORTH or len(units) >= MAX_AT_ONCE:
                    yield tuple(units), together
                    units, together = [], 0.0

    def _at(self, source: bytes, unit: Unit) -> bool:
        """Return whether a unit is at the source to stay, and may be moved."""
        wanted = self._view.hints.get(unit, source)
        return self._view.owned.get(unit) == source == wanted and self._free(unit)

    def _free(self, unit: Unit) -> bool:
        return unit not in self._moved and not self._pressure.rests(unit, self._now_s)

    def _may_go_back(self, units: list[Unit], calm: set[Unit]) -> bool:
        """Return whether units may go back; those that are at home already need no move."""
        coming: dict[bytes, list[Unit]] = {}
        for unit in units:
            there, home = self._view.hints[unit], self._view.place(unit)
            if there == home:
                continue
            if unit not in calm or home not in self._cpu:
                return False
            if not self._pressure.is_stable(home, self._now_s):
                return False
            coming.setdefault(home, []).append(unit)
        costs = {home: self._cost_of(some) for home, some in coming.items()}
        if any(self._cpu[home] + cost > EMPTY_ENOUGH for home, cost in costs.items()):
            return False
        for home, cost in costs.items():
            self._cpu[home] += cost
        return True

    def _cost_of(self, units: Iterable[Unit]) -> float:
        """Return the cost of hinted units where they are."""
        there: dict[bytes, list[Unit]] = {}
        for unit in units:
            there.setdefault(self._view.hints[unit], []).append(unit)
        return sum(self._view.cost_of(each, some) for each, some in there.items())

    def _change(self, kind: Kind, units: Iterable[Unit], target: bytes | None, reason: str) -> None:
        chosen = tuple(units)
        self._moved.update(chosen)
        if target is not None and all(self._view.place(unit) == target for unit in chosen):
            target = None
        self.changes.append(Change(kind, chosen, target, reason))


def _of_growing(view: View, pressure: Pressure, now_s: float) -> Mapping[bytes, list[Unit]]:
    """Return the growing parts by the forwarder that reports them."""
    growing = pressure.growing(now_s)
    found: dict[bytes, list[Unit]] = {}
    for forwarder, busy in view.forwarders.items():
        for part in busy.load.subscriptions if growing else ():
            if part.unit in growing:
                found.setdefault(forwarder, []).append(part.unit)
    return found


def _parts(view: View, forwarder: bytes) -> Iterator[UnitLoad]:
    load = view.forwarders[forwarder].load
    yield from load.partitions
    yield from load.subscriptions
