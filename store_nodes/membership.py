"""The members of a group: pure, replicated, changed one node at a time through the group's log.

A membership value in instance i governs the instances after i. Any two memberships one step apart
have intersecting majorities. That is why a step may change one node only, and why a leader takes
the next step only when it has an instance chosen under the last one (consensus/reconfiguration.py).

    (absent) → learner → voter → learner → … ; any → removed, and a removed id never comes back

A learner receives everything and its vote does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import msgspec

from store_nodes.commands import Reconfigure
from store_nodes.errors import Conflict, NotAllowed

LEARNER = "learner"
VOTER = "voter"
REMOVED = "removed"
ZONE = "zone"
"""The label with the zone of a node."""
REPAIR = "repair"
"""The label of a voter that was demoted to repair its log: the token with which it asked.

It becomes a voter again by itself (consensus/reconfiguration.py).
"""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One learner or voter. `address` is host:port."""

    node: int
    role: str
    address: str
    labels: dict[str, str] = {}


class Membership(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The members of one group, in node order; `removed` ids are never used again."""

    version: int = 0
    members: tuple[Member, ...] = ()
    removed: tuple[int, ...] = ()

    @classmethod
    def first(cls, voters: Mapping[int, tuple[str, str]]) -> Membership:
        """Return version 0 from id → (address, zone); the settings of all first nodes must agree on
        it.
        """
        return cls(
            0,
            tuple(
                Member(node, VOTER, address, {ZONE: zone} if zone else {})
                for node, (address, zone) in sorted(voters.items())
            ),
        )

    @cached_property
    def voters(self) -> tuple[int, ...]:
        return tuple(member.node for member in self.members if member.role == VOTER)

    @cached_property
    def learners(self) -> tuple[int, ...]:
        return tuple(member.node for member in self.members if member.role == LEARNER)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def member(self, node: int) -> Member | None:
        return next((member for member in self.members if member.node == node), None)

    def after(self, step: Reconfigure) -> Membership:
        """Return the next membership; raises Conflict (another version) or NotAllowed (a rule).

        Labels of the step replace the present ones, if it has any; a label with an empty value is
        dropped.
        """
        if step.version != self.version + 1:
            raise Conflict(self.version)
        held = self.member(step.node)
        self._check(step, held)
        others = [member for member in self.members if member.node != step.node]
        removed = self.removed
        if step.role == REMOVED:
            removed = tuple(sorted({*removed, step.node}))
        else:
            address = step.address or (held.address if held else "")
            labels = step.labels or (held.labels if held else {})
            labels = {name: value for name, value in labels.items() if value}
            others.append(Member(step.node, step.role, address, labels))
        return Membership(
            step.version, tuple(sorted(others, key=lambda member: member.node)), removed
        )

    def _check(self, step: Reconfigure, held: Member | None) -> None:
        if not 0 < step.node < 1 << 16:
            raise NotAllowed("node ids are 1 to 65535")
        if step.node in self.removed:
            raise NotAllowed(f"node {step.node} was removed; its id is never used again")
        if step.role not in (LEARNER, VOTER, REMOVED):
            raise NotAllowed(f"no role {step.role!r}")
        if step.role == VOTER and held is None:
            raise NotAllowed(f"node {step.node} must be a learner first")
        if step.role == LEARNER and held is None and not step.address:
            raise NotAllowed("a new node needs an address")
        if step.role == REMOVED and held is None:
            raise NotAllowed(f"node {step.node} is no member")
        if step.role != VOTER and self.voters == (step.node,):
            raise NotAllowed("the last voter stays")

    def crowded_zone(self) -> str | None:
        """Return a zone with a majority of the voters, although the members are in three or more
        zones.

        A group's log refuses the step to it. Half of an even number is allowed here, because a
        replacement passes through it; `needed_zone` finds that, too.
        """
        return self._zone_with(self.majority)

    def needed_zone(self) -> str | None:
        """Return a zone whose loss stops the group, although the members are in three or more
        zones.

        The voters outside of it are no majority of all.
        """
        return self._zone_with(len(self.voters) - self.majority + 1)

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of the members that have one, in order."""
        return tuple(sorted({member.labels.get(ZONE, "") for member in self.members} - {""}))

    def _zone_with(self, least: int) -> str | None:
        """Return the first of three or more zones that has at least `least` voters."""
        zones = self.zones
        if len(zones) < 3:
            return None
        voting = Counter(m.labels.get(ZONE) for m in self.members if m.role == VOTER)
        return next((zone for zone in zones if voting[zone] >= least), None)
