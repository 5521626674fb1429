"""Hands the group to another node, because an operator or the balance wants it, or this node should
go.

It should go if its disk is slow, or if it left the voters. The leader takes no new work, waits
until nothing is open, and asks the other node to stand without a pre-vote. It leads until it hears
of the higher ballot; if that does not come in time, it takes work again.

A slow disk delays answers, because they wait for the leader's own disk even though a majority does
not need it. So when the leader's record of a chosen instance keeps coming `slow_us` after the
majority's, or one has not come for twice that time, the group goes to the best voter that is level
and not slow itself. This node is then no candidate of the balance for a while.
"""

from __future__ import annotations

from store_nodes.consensus.core import ReplicaCore
from store_nodes.consensus.leadership import Leadership
from store_nodes.consensus.messages import Flag, TransferLeadership

LATE_IN_A_ROW = 3


class HandingOver(ReplicaCore):
    """The part of a replica that hands over its leadership, and decides when."""

    def prefer(self, now_us: int, node: int | None) -> None:
        """Name the node that should lead; None lets the balance spread the groups over the
        voters.
        """
        self._now_us = now_us
        self.wish = node
        self._take_preference()

    def transfer(self, now_us: int, to: int) -> None:
        """Hand the group to voter `to` once nothing is open; give up after `transfer_us`."""
        self._now_us = now_us
        led = self.leadership
        if led is None or led.finishing or to == self.me:
            return
        if to not in self._connected or to not in self._voters:
            return
        led.transfer_to = to
        led.transfer_deadline_us = now_us + self.timing.transfer_us
        led.transfer_asked = False
        self._continue_transfer(led)

    def _continue_transfer(self, led: Leadership) -> None:
        assert led.transfer_to is not None
        if led.next_instance == self.acceptor.chosen and not led.transfer_asked:
            led.transfer_asked = True
            self._outbox.send(led.transfer_to, TransferLeadership(led.ballot))

    def _balance(self, led: Leadership) -> None:
        """Hand the group to its preferred node once that one has caught up."""
        if led.transfer_to is not None:
            if self._now_us >= led.transfer_deadline_us:
                led.transfer_to = None
                led.next_transfer_us = self._now_us + self.timing.settle_us
            return
        to = self.preferred
        if self.slow:
            to = self._successor(led)
        if to is None or to == self.me or self._now_us < led.next_transfer_us:
            return
        if self._is_level(led, to) and not led.flags.get(to, 0) & Flag.SLOW:
            self.transfer(self._now_us, to)

    def _successor(self, led: Leadership) -> int | None:
        """Return the best voter to lead instead of this node: level, not slow, with the most
        delivered.
        """
        fit = [
            voter
            for voter in self.voters
            if voter != self.me
            and voter in self._connected
            and self._is_level(led, voter)
            and not led.flags.get(voter, 0) & Flag.SLOW
        ]
        return max(fit, key=lambda voter: led.peer_delivered.get(voter, 0), default=None)

    def _is_level(self, led: Leadership, node: int) -> bool:
        """Return whether a node was heard recently, is whole, and lacks no more than a leader may
        have open.
        """
        heard_us = led.heard_us.get(node, 0)
        missing = self.acceptor.chosen - led.peer_delivered.get(node, -1)
        return (
            missing <= self.limits.open_instances
            and self._now_us - heard_us < 2 * self.timing.heartbeat_us
            and not led.flags.get(node, 0) & (Flag.DAMAGED | Flag.INSTALLING)
        )

    # -- the disk here -------------------------------------------------------------------------

    @property
    def slow(self) -> bool:
        """Whether this node recently handed groups over because of its disk."""
        return self._now_us < self._slow_until_us

    def _watch_own_disk(self, led: Leadership) -> None:
        """Check for a slow disk: when a value was chosen or became durable, and on ticks."""
        acceptor = self.acceptor
        if led.behind_since_us and acceptor.delivered > led.behind_for:
            late = self._now_us - led.behind_since_us > self.timing.slow_us
            led.late_in_a_row = led.late_in_a_row + 1 if late else 0
            led.behind_since_us = 0
        if not led.behind_since_us and acceptor.delivered < acceptor.chosen:
            led.behind_for = acceptor.chosen - 1
            led.behind_since_us = self._now_us
        stuck = (
            led.behind_since_us != 0
            and self._now_us - led.behind_since_us > 2 * self.timing.slow_us
        )
        if (stuck or led.late_in_a_row >= LATE_IN_A_ROW) and not self.slow:
            self._leave_for_slowness(led)

    def _leave_for_slowness(self, led: Leadership) -> None:
        to = self._successor(led)
        if to is not None and led.transfer_to is None and not led.finishing:
            led.late_in_a_row = 0
            self._slow_until_us = self._now_us + self.timing.slow_mark_us
            self.transfer(self._now_us, to)
