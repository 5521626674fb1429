"""The next steps of a forwarder for the units that it owns or that nobody owns; pure.

Each unit is wanted in one place. A topic has a home, and all its partitions are wanted there, so
that a subscription normally has one owner. Only hints spread them: a hint names a partition, or one
subscription's part of it, which then is split off. A hint whose forwarder does not live says
nothing; then a partition is wanted at home, and a split-off part back in its partition.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from metadata.types import WHOLE, Unit
from subscribe_forwarder.fleet.members import Member
from subscribe_forwarder.fleet.rendezvous import home

MAX_GIVEN = 100
"""Units given away in one round."""
MAX_PARTED = 8
"""Units split off, and merged back, in one round."""


class WantedOwners:
    """The places where units are wanted, as long as nobody comes or goes and no hint changes."""

    def __init__(self, living: Mapping[bytes, Member], hints: Mapping[Unit, bytes]) -> None:
        self.living = living
        self._hints = hints
        self._weights = {key: one.weight for key, one in living.items()}
        self._homes: dict[bytes, bytes | None] = {}

    def of(self, unit: Unit) -> bytes | None:
        """Return the incarnation of a living forwarder; None where there is none."""
        hinted = self._hinted(unit)
        if hinted is None and unit.subscription_uid != WHOLE:
            hinted = self._hinted(unit.base)
        return hinted or self._home(unit.topic_uid)

    def parted(self, unit: Unit) -> bytes | None:
        """Return where a hint wants a subscription's part, if not where its partition is wanted."""
        hinted = self._hinted(unit)
        return None if hinted == self.of(unit.base) else hinted

    def to_split(self) -> Iterable[Unit]:
        """Return all parts that hints name and want elsewhere than their partition."""
        return [
            unit
            for unit in self._hints
            if unit.subscription_uid != WHOLE and self.parted(unit) is not None
        ]

    def _hinted(self, unit: Unit) -> bytes | None:
        hint = self._hints.get(unit)
        return hint if hint in self.living else None

    def _home(self, topic_uid: bytes) -> bytes | None:
        if topic_uid not in self._homes:
            self._homes[topic_uid] = home(topic_uid, self._weights)
        return self._homes[topic_uid]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, in the order in which they are done.

    Merges happen only where nobody owns the split-off part.
    """

    give: list[Unit] = field(default_factory=list)
    split: list[Unit] = field(default_factory=list)
    merge: list[Unit] = field(default_factory=list)
    claim: list[Unit] = field(default_factory=list)


def plan(
    me: bytes,
    places: WantedOwners,
    owned: Mapping[Unit, frozenset[bytes]],
    nobodys: Iterable[Unit],
    now_s: float,
    *,
    reachable: Container[bytes] = (),
) -> Plan:
    """Plan the next steps.

    `owned`: our units, with the parts split off each; `nobodys`: units known to have no live owner;
    `reachable`: the forwarders to which we have a link.

    Units that we own and that are wanted elsewhere are given away once their new owner has lived
    for a while and can be reached from here, up to a limit each round, topic by topic. A part that
    is wanted where its partition is goes at once.
    """
    free = set(nobodys)
    leaves = (unit for unit in owned if _given(me, unit, places, now_s, reachable))
    give = sorted(leaves)[:MAX_GIVEN]
    split = [
        unit
        for unit in places.to_split()
        if unit.base in owned
        and unit.base not in give
        and unit.subscription_uid not in owned[unit.base]
        and _receives(places.parted(unit), me, places, now_s, reachable)
    ]
    merge = [
        part
        for base, parts in owned.items()
        for part in sorted(base._replace(subscription_uid=uid) for uid in parts)
        if part in free and places.parted(part) is None
    ]
    claim = [unit for unit in sorted(free) if _claimed(me, unit, places)]
    return Plan(give, split[:MAX_PARTED], merge[:MAX_PARTED], claim)


def _receives(
    wanted: bytes | None, me: bytes, places: WantedOwners, now_s: float, reachable: Container[bytes]
) -> bool:
    """Return whether it is another forwarder that has lived for a while and can be reached."""
    if wanted is None or wanted == me or wanted not in reachable:
        return False
    return places.living[wanted].settled_s <= now_s


def _given(
    me: bytes,
    unit: Unit,
    places: WantedOwners,
    now_s: float,
    reachable: Container[bytes],
) -> bool:
    if unit.subscription_uid != WHOLE and places.parted(unit) is None:
        return True
    return _receives(places.of(unit), me, places, now_s, reachable)


def _claimed(me: bytes, unit: Unit, places: WantedOwners) -> bool:
    """Return whether we claim the unit.

    A split-off part is claimed only where a hint wants it here; else it goes back to its partition.
    """
    wanted = places.of(unit) if unit.subscription_uid == WHOLE else places.parted(unit)
    return wanted == me
