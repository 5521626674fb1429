"""The nodes of the cluster, as the logs of the groups say; the settings only name the first ones.

A first node also waits here. A directory in which nothing was ever written may be that of a new
node, or of one that has lost everything it promised; the node cannot know which. So before it takes
part for the first time, it meets every other first node once, and those remember whom they met
(known_peers.py). A node that lost its directory is recognised by every peer that it meets.
"""

from __future__ import annotations

from collections.abc import Iterable

from store_nodes.membership import Membership
from store_nodes.settings import Address, StoreNodeSettings, parse_address
from store_nodes.wire import NodeView


def first_of(membership: Membership) -> Membership:
    """Return version 0 of an added group: the members, in their roles, of the group that adds
    it.
    """
    return Membership(0, membership.members, membership.removed)


class Members:
    """The members of all groups of this node."""

    def __init__(self, settings: StoreNodeSettings, to_meet: Iterable[int] = ()) -> None:
        """Prepare the members; `to_meet` are the first nodes to meet before this one takes part."""
        self._settings = settings
        self._to_meet = set(to_meet) - {settings.node_id}
        self._by_group: dict[int, Membership] = {}
        self.views: tuple[NodeView, ...] = ()
        self.removed: frozenset[int] = frozenset()
        """Nodes that were in a group and are in none any more."""
        self._refresh()

    @property
    def may_take_part(self) -> bool:
        return not self._to_meet

    @property
    def to_meet(self) -> list[int]:
        return sorted(self._to_meet)

    def met(self, node: int) -> bool:
        """Note that a peer and this node have accepted each other; return whether it was the last
        to meet.
        """
        waited = bool(self._to_meet)
        self._to_meet.discard(node)
        return waited and not self._to_meet

    def put(self, group: int, membership: Membership) -> bool:
        """Note a group's members; return whether the nodes of the cluster have changed."""
        before = self.views, self.removed
        self._by_group[group] = membership
        self._refresh()
        return before != (self.views, self.removed)

    def addresses(self) -> dict[int, Address]:
        """Return each node's address; an address in the settings may be this node's own way, and
        counts first.
        """
        told = {view.node: parse_address(view.address) for view in self.views}
        seeds = self._settings.peers
        if not told:
            return dict(seeds)
        # A first node that still waits for the others, or one that is in no group yet, speaks to
        # all nodes that it was told of.
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
