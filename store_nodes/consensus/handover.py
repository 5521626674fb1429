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

from store_nodes.consensus.messages import Flag, TransferLeadership
from store_nodes.consensus.state import Leadership, ReplicaState

LATE_IN_A_ROW = 3


class Handover:
    """The part of a leader that hands its group over, and decides when and to whom."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def transfer(self, to: int) -> None:
        """Hand the group to voter `to` once nothing is open; give up after `transfer_us`."""
        state, led = self._state, self._state.leadership
        if led is None or led.finishing or to == state.me:
            return
        if to not in state.connected or to not in state.voter_set:
            return
        led.transfer_to = to
        led.transfer_deadline_us = state.now_us + state.timing.transfer_us
        led.transfer_asked = False
        self.continue_transfer(led)

    def continue_transfer(self, led: Leadership) -> None:
        """Ask the other node to stand, once nothing is open."""
        assert led.transfer_to is not None
        if led.next_instance == self._state.acceptor.chosen and not led.transfer_asked:
            led.transfer_asked = True
            self._state.outbox.send(led.transfer_to, TransferLeadership(led.ballot))

    def balance(self, led: Leadership) -> None:
        """Hand the group to its preferred node once that one has caught up."""
        state = self._state
        if led.transfer_to is not None:
            if state.now_us >= led.transfer_deadline_us:
                led.transfer_to = None
                led.next_transfer_us = state.now_us + state.timing.keep_us
            return
        to = state.preferred
        if state.slow:
            to = self.successor(led)
        if to is None or to == state.me or state.now_us < led.next_transfer_us:
            return
        if self.is_level(led, to) and not led.flags.get(to, 0) & Flag.SLOW:
            self.transfer(to)

    def successor(self, led: Leadership) -> int | None:
        """Return the best voter to lead instead of this node: level, not slow, with the most
        delivered.
        """
        state = self._state
        fit = [
            voter
            for voter in state.voters
            if voter != state.me
            and voter in state.connected
            and self.is_level(led, voter)
            and not led.flags.get(voter, 0) & Flag.SLOW
        ]
        return max(fit, key=lambda voter: led.peer_delivered.get(voter, 0), default=None)

    def is_level(self, led: Leadership, node: int) -> bool:
        """Return whether a node was heard recently, is whole, and lacks no more than a leader may
        have open.
        """
        state, timing = self._state, self._state.timing
        heard_us = led.heard_us.get(node, 0)
        missing = state.acceptor.chosen - led.peer_delivered.get(node, -1)
        return (
            missing <= state.limits.open_instances
            and state.now_us - heard_us < timing.idle_heartbeat_us + timing.heartbeat_us
            and not led.flags.get(node, 0) & (Flag.DAMAGED | Flag.INSTALLING)
        )

    # -- the disk here -------------------------------------------------------------------------

    def watch_own_disk(self, led: Leadership) -> None:
        """Check for a slow disk: when a value was chosen or became durable, and on ticks."""
        state, acceptor = self._state, self._state.acceptor
        if led.behind_since_us and acceptor.delivered > led.behind_for:
            late = state.now_us - led.behind_since_us > state.timing.slow_us
            led.late_in_a_row = led.late_in_a_row + 1 if late else 0
            led.behind_since_us = 0
        if not led.behind_since_us and acceptor.delivered < acceptor.chosen:
            led.behind_for = acceptor.chosen - 1
            led.behind_since_us = state.now_us
        stuck = led.behind_since_us != 0 and state.now_us > self.stuck_us(led)
        if (stuck or led.late_in_a_row >= LATE_IN_A_ROW) and not state.slow:
            self._leave_for_slowness(led)

    def stuck_us(self, led: Leadership) -> int:
        """Return the time after which the disk here is stuck, since a record is behind."""
        return led.behind_since_us + 2 * self._state.timing.slow_us

    def _leave_for_slowness(self, led: Leadership) -> None:
        state = self._state
        to = self.successor(led)
        if to is not None and led.transfer_to is None and not led.finishing:
            led.late_in_a_row = 0
            state.slow_until_us = state.now_us + state.timing.slow_mark_us
            self.transfer(to)
