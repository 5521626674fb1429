"""One replica of one Paxos group: inputs in, effects out.

Inputs are messages, ticks, proposals, connections made and lost, and "this was persisted"; time
comes with them. After any input, `take()` returns the effects. The shell must

    1. append `Effects.records` to the log in order, after those of earlier effects,
    2. call `persisted(persist_upto)` once they are on stable storage, never before,
    3. send `Effects.sends` at once (messages that have to wait for a record are held back here),
    4. apply `Effects.chosen` in order.

Records that must be durable before a message leaves
    * a Promise: the promise, and every accept made before it (one log, in order);
    * an Accepted: the accept record;
    * a Prepare: this node's own promise of that ballot, so that a ballot is never used twice;
    * an Accept may leave before the leader's own record: its own vote counts when it is durable;
    * a delivered value: its record on this node, and the votes of a majority.

Leadership: the pre-vote keeps a returning or half-connected node from replacing a good leader, and
check-quorum makes a leader that hears no majority step down. Phase 1 runs once per leadership over
all open instances; it re-proposes what was reported, fills holes with no-ops, then takes new work.

Each role is a module: core.py (state) ← handover.py ← leading.py ← standing.py ← reconfiguring.py
(membership, and why changing it is safe) ← following.py ← this one, the surface.
"""

from __future__ import annotations

from collections.abc import Sequence

from store_nodes.commands import encode_value
from store_nodes.consensus.core import Limits, Timing
from store_nodes.consensus.effects import Effects
from store_nodes.consensus.election import Stage
from store_nodes.consensus.following import Following
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Heartbeat,
    HeartbeatReply,
    Learned,
    LearnRequest,
    Message,
    Nack,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
    TooOld,
    TransferLeadership,
)

__all__ = ["MARK_EVERY_INSTANCES", "Limits", "Replica", "Timing"]

MARK_EVERY_INSTANCES = 32


class Replica(Following):
    """The replica of `group` at node `me`, which need be neither a voter nor a member.

    Every input takes `now_us`, a monotonic time. `membership` is the one as of `recovered.applied`.
    `voting=False` is for a node whose log may have lost votes (reconfiguring.py).
    """

    def take(self) -> Effects:
        """Return the effects since the last call."""
        if (
            self._outbox.has_records
            and self.acceptor.delivered - self.acceptor.marked >= MARK_EVERY_INSTANCES
        ):
            self.acceptor.mark_lazily()
        return self._outbox.take()

    def tick(self, now_us: int, wall_us: int) -> None:
        """Let time pass; call this every 20 ms or so."""
        self._now_us = now_us
        if self._halted:
            return
        self._clock.report(self.me, wall_us, now_us)
        if now_us >= self._next_mark_us:
            self._next_mark_us = now_us + self.timing.mark_us
            self.acceptor.mark_lazily()
        if self.leadership is not None:
            self._tick_leader(self.leadership)
        elif self._candidacy is not None:
            self._tick_candidate(self._candidacy)
        elif now_us >= self._election_us:
            if self._eligible:
                self._stand(Stage.PRE_VOTE)
            else:
                self._miss_a_leader()
        self._watch_repair()

    def propose(self, now_us: int, commands: Sequence[bytes], *, everywhere: bool = False) -> int:
        """Propose whole commands as one value, while `can_propose`; return the instance.

        With `everywhere`, Replicated follows once all connected voters have it.
        """
        self._now_us = now_us
        led = self.leadership
        assert led is not None
        assert self.can_propose
        return self._open_next(led, encode_value(commands, self._stamp()), everywhere)

    def persisted(self, now_us: int, upto: int) -> None:
        """Learn that every record numbered up to `upto` is on stable storage."""
        self._now_us = now_us
        own = self.acceptor.persisted(upto, self.me)
        self._outbox.release(upto)
        led = self.leadership
        if led is not None:
            for instance, ballot in own:
                if ballot == led.ballot:
                    self._count_vote(led, instance, self.me)
            self._watch_own_disk(led)
        standing = self._candidacy
        if (
            standing is not None
            and standing.stage is Stage.PROMISING
            and standing.promise_number <= upto
        ):
            self._prepare(standing)
        self._watch_repair()

    def note_digest(self, instance: int, digest: bytes) -> None:
        """Note the state's chained digest after `instance`; every node notes it at the same
        instances.
        """
        self._digests.note(instance, digest)

    def peer_connected(self, now_us: int, node: int) -> None:
        self._now_us = now_us
        self._connected.add(node)
        led = self.leadership
        if led is not None:
            if node not in self.peers:
                return
            for instance, entry in led.open.items():
                if not entry.chosen and node not in entry.votes:
                    self._send_accept(led, node, instance, entry.value)
            self._outbox.send(node, self._heartbeat_message(led))
        elif self._leader is None and self._candidacy is None and self.preferred == self.me:
            self._election_us = min(self._election_us, now_us + self._backoff())

    def peer_lost(self, now_us: int, node: int) -> None:
        """Note that a node's connection closed: most likely its process ended."""
        self._now_us = now_us
        self._connected.discard(node)
        led = self.leadership
        if led is not None:
            for instance in [i for i, entry in led.open.items() if entry.chosen]:
                self._check_everywhere(led, instance)
        if self._leader == node:
            self._set_leader(None)
            others = [voter for voter in self.voters if voter != node]
            if self.me in others:
                turn = (others.index(self.me) + self.group // len(self.voters)) % len(others)
                wait = self.timing.lost_leader_us
                self._election_us = now_us + turn * 3 * wait + self._rng.randrange(wait)

    def receive(self, now_us: int, source: int, message: Message) -> None:
        """Handle a message of node `source`; only votes of voters count.

        The node need be no member as far as this node knows: it may know of changes that this one
        does not.
        """
        self._now_us = now_us
        if self._halted or source == self.me:
            return
        match message:
            case Accept():
                self._on_accept(source, message)
            case Accepted():
                self._on_accepted(source, message)
            case Heartbeat():
                self._on_heartbeat(source, message)
            case HeartbeatReply():
                self._on_heartbeat_reply(source, message)
            case PreVote():
                self._on_pre_vote(source, message)
            case PreVoteReply():
                self._on_pre_vote_reply(source, message)
            case Prepare():
                self._on_prepare(source, message)
            case Promise():
                self._on_promise(source, message)
            case Nack():
                self._on_nack(source, message)
            case LearnRequest():
                self._on_learn_request(source, message)
            case Learned():
                self._on_learned(source, message)
            case TooOld():
                self._on_too_old(source, message)
            case TransferLeadership():
                higher = message.ballot >= self.acceptor.promised
                if higher and self._eligible and self.leadership is None:
                    self._stand(Stage.PROMISING)
