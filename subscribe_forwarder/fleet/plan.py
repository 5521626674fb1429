"""What a forwarder does next about what it owns and what nobody owns: pure.

Each unit is wanted in one place. A topic has a home, and all its partitions are wanted there, so
that a subscription normally has one owner. Only hints spread them: of a partition, or of one
subscription's part of it, which then is split off. A hint whose forwarder does not live says
nothing; then a partition is wanted at home, and what is split off, back in its partition.
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


class Places:
    """Where units are wanted, as long as nobody comes or goes and no hint changes."""

    def __init__(self, living: Mapping[bytes, Member], hints: Mapping[Unit, bytes]) -> None:
        self.living = living
        self._hints = hints
        self._weights = {key: one.weight for key, one in living.items()}
        self._homes: dict[bytes, bytes | None] = {}

    def of(self, unit: Unit) -> bytes | None:
        """The incarnation of a living forwarder; None where there is none."""
        hinted = self._hinted(unit)
        if hinted is None and unit.subscription_uid != WHOLE:
            hinted = self._hinted(unit.base)
        return hinted or self._home(unit.topic_uid)

    def parted(self, unit: Unit) -> bytes | None:
        """Where a hint wants a subscription's part, if not where its partition is wanted."""
        hinted = self._hinted(unit)
        return None if hinted == self.of(unit.base) else hinted

    def to_split(self) -> Iterable[Unit]:
        """All parts that hints name and want elsewhere than their partition."""
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
    """In the order in which it is done: merges only where what is split off is nobody's."""

    give: list[Unit] = field(default_factory=list)
    split: list[Unit] = field(default_factory=list)
    merge: list[Unit] = field(default_factory=list)
    claim: list[Unit] = field(default_factory=list)


def plan(
    me: bytes,
    places: Places,
    owned: Mapping[Unit, frozenset[bytes]],
    nobodys: Iterable[Unit],
    now_s: float,
    *,
    reachable: Container[bytes] = (),
) -> Plan:
    """`owned`: our units, with what is split off each; `nobodys`: known to have no live owner;
    `reachable`: those whom we have a link to.

    What we own and is wanted elsewhere is given away once its new owner has lived for a while and
    can be reached from here, so much a round, topic by topic; a part that is wanted where its
    partition is, at once.
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
    wanted: bytes | None, me: bytes, places: Places, now_s: float, reachable: Container[bytes]
) -> bool:
    """Whether it is another that has lived for a while and can be reached."""
    if wanted is None or wanted == me or wanted not in reachable:
        return False
    return places.living[wanted].settled_s <= now_s


def _given(
    me: bytes,
    unit: Unit,
    places: Places,
    now_s: float,
    reachable: Container[bytes],
) -> bool:
    if unit.subscription_uid != WHOLE and places.parted(unit) is None:
        return True
    return _receives(places.of(unit), me, places, now_s, reachable)


def _claimed(me: bytes, unit: Unit, places: Places) -> bool:
    """Of what is split off, only what a hint wants here; the rest goes back to its partition."""
    wanted = places.of(unit) if unit.subscription_uid == WHOLE else places.parted(unit)
    return wanted == me
