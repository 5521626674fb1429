"""Finds the leader of each group, and the time of its log, from the reports of the nodes.

Each node's last claim is kept while it is connected. The claim with the highest ballot names the
leader, unless that node itself denies it at the same ballot or later, or a majority has moved to a
higher ballot without knowing a leader yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from store_nodes.wire import LeaderView


class LogClock:
    """Estimates a group's log time from the last reading and this machine's monotonic clock.

    No wall clock of ours counts once a leader has reported.
    """

    __slots__ = ("_offset_us", "known")

    def __init__(self) -> None:
        self._offset_us = int(time.time() * 1e6) - monotonic_us()
        self.known = False

    def now_us(self) -> int:
        return monotonic_us() + self._offset_us

    def read(self, log_time_us: int) -> None:
        """Take a reading of the leader."""
        self._offset_us = log_time_us - monotonic_us()
        self.known = True

    def at_least(self, log_time_us: int) -> None:
        """Note the time of an entry, which log time has reached."""
        if not self.known or log_time_us > self.now_us():
            self.read(log_time_us)


def monotonic_us() -> int:
    """Return this machine's monotonic clock."""
    return time.monotonic_ns() // 1000


class LeaderTable:
    """The claims of connected nodes; a group that one of them names is known from then on."""

    def __init__(self, groups: Iterable[int], nodes: int) -> None:
        self.groups = tuple(sorted(groups))
        self._claims: dict[int, dict[int, LeaderView]] = {group: {} for group in self.groups}
        self._leaders: dict[int, int | None] = dict.fromkeys(self._claims)
        self._clocks: dict[int, LogClock] = {}
        self.expect_nodes(nodes)

    def expect_nodes(self, nodes: int) -> None:
        """Set the number of nodes in the cluster."""
        self._majority = nodes // 2 + 1

    def leader(self, group: int) -> int | None:
        """Return the leader of a group, as far as is known."""
        return self._leaders.get(group)

    def clock(self, group: int) -> LogClock:
        """Return the group's log time, always the same object."""
        clock = self._clocks.get(group)
        if clock is None:
            clock = self._clocks[group] = LogClock()
        return clock

    def claimed(self, node: int, views: Iterable[LeaderView]) -> list[int]:
        """Note a node's claims; return the groups whose leader is now another."""
        changed = []
        for view in views:
            if view.group not in self._claims:
                self._claims[view.group] = {}
                self._leaders[view.group] = None
                self.groups = tuple(sorted(self._claims))
            self._claims[view.group][node] = view
            clock = self.clock(view.group)
            if view.leader == node or not clock.known:
                clock.read(view.log_time_us)
            changed += self._decide(view.group)
        return changed

    def refused(self, node: int, group: int, hint: int | None) -> list[int]:
        """Note that a node answered that it does not lead; it counts until the node claims
        otherwise.
        """
        claims = self._claims.setdefault(group, {})
        ballot = max((view.ballot for view in claims.values()), default=0)
        leader = hint if hint != node else None
        claims[node] = LeaderView(group, leader, ballot, 0)
        return self._decide(group)

    def disconnected(self, node: int) -> list[int]:
        """Drop the claims of a node."""
        changed = []
        for group, claims in self._claims.items():
            if claims.pop(node, None) is not None:
                changed += self._decide(group)
        return changed

    def _decide(self, group: int) -> list[int]:
        leader = self._best(self._claims[group])
        if leader == self._leaders.get(group):
            return []
        self._leaders[group] = leader
        return [group]

    def _best(self, claims: dict[int, LeaderView]) -> int | None:
        named = [view for view in claims.values() if view.leader is not None]
        if not named:
            return None
        best = max(named, key=lambda view: view.ballot)
        own = claims.get(best.leader) if best.leader is not None else None
        if own is not None and own.ballot >= best.ballot and own.leader != best.leader:
            return own.leader
        electing = sum(
            view.leader is None and view.ballot > best.ballot for view in claims.values()
        )
        return None if electing >= self._majority else best.leader
