"""Which nodes there are, as the logs of the groups say; the settings are only where to begin.

A first node also waits here. A directory in which nothing was ever written may be that of a node
that is new, or of one that has lost everything it promised; it cannot know which. So before it
takes part for the first time it meets every other first node once, and those remember whom they
met (known_peers.py): one that lost its directory is found out by whichever it meets.
"""

from __future__ import annotations

from collections.abc import Iterable

from store_nodes.membership import Membership
from store_nodes.settings import Address, StoreNodeSettings, parse_address
from store_nodes.wire import NodeView


def first_of(membership: Membership) -> Membership:
    """Version 0 of a group that is added: the members, in their roles, of the one that adds it."""
    return Membership(0, membership.members, membership.removed)


class Members:
    """The union over all groups of this node."""

    def __init__(self, settings: StoreNodeSettings, to_meet: Iterable[int] = ()) -> None:
        """`to_meet`: the first nodes that must be met before this one takes part."""
        self._settings = settings
        self._to_meet = set(to_meet) - {settings.node_id}
        self._by_group: dict[int, Membership] = {}
        self.views: tuple[NodeView, ...] = ()
        self.removed: frozenset[int] = frozenset()
        """Out of every group, having been in one."""
        self._refresh()

    @property
    def may_take_part(self) -> bool:
        return not self._to_meet

    @property
    def to_meet(self) -> list[int]:
        return sorted(self._to_meet)

    def met(self, node: int) -> bool:
        """A peer was let in and let us in; True if it was the last that was waited for."""
        waited = bool(self._to_meet)
        self._to_meet.discard(node)
        return waited and not self._to_meet

    def put(self, group: int, membership: Membership) -> bool:
        """A group's members are these; True if the nodes there are, are others now."""
        before = self.views, self.removed
        self._by_group[group] = membership
        self._refresh()
        return before != (self.views, self.removed)

    def addresses(self) -> dict[int, Address]:
        """Where each is; what the settings say wins, for an address may be this node's own way."""
        told = {view.node: parse_address(view.address) for view in self.views}
        seeds = self._settings.peers
        if not told:
            return dict(seeds)
        # A first node that is still waiting for the others, or one that is in no group yet,
        # speaks to all that it was told of.
        alone = self._settings.node_id not in told
        return {
            **told,
            **{
                node: at
                for node, at in seeds.items()
                if node in told or (alone and node not in self.removed)
            },
        }

    def _refresh(self) -> None:
        found: dict[int, NodeView] = {}
        removed: set[int] = set()
        for membership in self._by_group.values():
            removed.update(membership.removed)
            for member in membership.members:
                found[member.node] = NodeView(member.node, member.address, dict(member.labels))
        self.removed = frozenset(removed - found.keys())
        self.views = tuple(found[node] for node in sorted(found))
