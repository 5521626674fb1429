"""Runs one replica of one Paxos group: inputs in, effects out.

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

The roles are objects over one state (state.py), and each calls only those above it here:

    candidate.py        pre-vote and phase 1
    handover.py         who should lead instead of this node, and when
    leader.py           proposals, votes, heartbeats, reads; follows a change that is chosen
    reconfiguration.py  changes of membership, and why they are safe
    follower.py         obeys a leader, answers candidates, learns

`Replica` notes the time of an input and hands the input to the roles that it concerns.
"""

from __future__ import annotations

from collections.abc import Sequence

from store_nodes.beats import next_multiple
from store_nodes.commands import Reconfigure, encode_value
from store_nodes.consensus.candidate import Candidate
from store_nodes.consensus.effects import Effects
from store_nodes.consensus.follower import Follower
from store_nodes.consensus.handover import Handover
from store_nodes.consensus.leader import Leader
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
from store_nodes.consensus.reconfiguration import Reconfiguration
from store_nodes.consensus.state import ReplicaState, Stage

MARK_EVERY_INSTANCES = 32


class Replica:
    """The inputs of a replica, each with `now_us`, a monotonic time; `state` is what it knows.

    The shell reads `state`, and changes nothing there except `installing`.
    """

    def __init__(self, state: ReplicaState) -> None:
        self.state = state
        self._candidate = Candidate(state)
        self._handover = Handover(state)
        self._leader = Leader(state, self._candidate, self._handover)
        self._reconfiguration = Reconfiguration(state, self._leader, self._handover)
        self._follower = Follower(state, self._leader)
        self._ticked_us = 0
        self._next_mark_us = state.now_us + state.timing.mark_us

    def take(self) -> Effects:
        """Return the effects since the last call."""
        state, acceptor = self.state, self.state.acceptor
        assert state.membership is acceptor.membership, (
            f"the membership of {acceptor.member_since} was chosen and not adopted"
        )
        if (
            state.outbox.has_records
            and acceptor.delivered - acceptor.marked >= MARK_EVERY_INSTANCES
        ):
            acceptor.mark_lazily()
        return state.outbox.take()

    # -- the shell asks ------------------------------------------------------------------------

    def log_time_us(self, now_us: int) -> int:
        """Return the stamp for an entry proposed now; a guess if this node does not lead."""
        self.state.now_us = now_us
        return self.state.stamp()

    def propose(self, now_us: int, commands: Sequence[bytes], *, everywhere: bool = False) -> int:
        """Propose whole commands as one value, while `can_propose`; return the instance.

        With `everywhere`, Replicated follows once all connected voters have it.
        """
        state = self.state
        state.now_us = now_us
        led = state.leadership
        assert led is not None
        assert state.can_propose
        return self._leader.open_next(led, encode_value(commands, state.stamp()), everywhere)

    def read_barrier(self, now_us: int, token: int) -> None:
        """Ask a quorum whether this node still leads; ReadReady or ReadFailed follows."""
        self.state.now_us = now_us
        self._leader.read_barrier(token)

    def quiesce(self, now_us: int, step: Reconfigure) -> bool:
        """Take no new work for a while, so that a step of membership can be proposed.

        Return whether it can be proposed now. Raises NotLeader, Conflict or NotAllowed.
        """
        self.state.now_us = now_us
        return self._reconfiguration.quiesce(step)

    def propose_membership(self, now_us: int, step: Reconfigure) -> int:
        """Propose one step, if `quiesce` allowed it; return its instance.

        Raises NotLeader, Conflict or NotAllowed.
        """
        self.state.now_us = now_us
        return self._reconfiguration.propose(step)

    def prefer(self, now_us: int, node: int | None) -> None:
        """Name the node that should lead; None lets the balance spread the groups over the
        voters.
        """
        self.state.now_us = now_us
        self.state.prefer(node)

    # -- the shell tells -----------------------------------------------------------------------

    def persisted(self, now_us: int, upto: int) -> None:
        """Count votes and send messages that waited for records up to `upto`, durable now."""
        state = self.state
        state.now_us = now_us
        own = state.acceptor.persisted(upto, state.me)
        state.outbox.release(upto)
        if state.leadership is not None:
            self._leader.persisted(state.leadership, own)
        if state.candidacy is not None and self._candidate.persisted(state.candidacy, upto):
            self._leader.lead()
        self._reconfiguration.watch_repair()

    def note_digest(self, instance: int, digest: bytes) -> None:
        """Note the state's chained digest after `instance`; every node notes it at the same
        instances.
        """
        self.state.digests.note(instance, digest)

    def set_voting(self) -> None:
        """Allow this node to vote; the shell has recorded that it is whole (VotingAllowed)."""
        self.state.voting = True
        self.state.repair_token = 0

    def send_too_old(self, to: int, oldest: int | None = None) -> None:
        """Answer a ReadChosen that the log cannot serve any more.

        `oldest` is the first instance that it can serve; the default is the first in memory.
        """
        state = self.state
        state.outbox.send(to, TooOld(state.acceptor.floor if oldest is None else oldest))

    def peer_connected(self, now_us: int, node: int) -> None:
        state = self.state
        state.now_us = now_us
        state.connected.add(node)
        if state.leadership is not None:
            self._leader.greet(state.leadership, node)
        elif state.leader is None and state.candidacy is None and state.preferred == state.me:
            state.election_us = min(state.election_us, now_us + state.backoff())

    def peer_lost(self, now_us: int, node: int) -> None:
        """Note that a node's connection closed: most likely its process ended."""
        state = self.state
        state.now_us = now_us
        state.connected.discard(node)
        if state.leadership is not None:
            self._leader.lose(state.leadership)
        self._follower.lose(node)

    @property
    def due_us(self) -> int:
        """The time of the next tick that this replica needs, unless an input comes before.

        A time that is over asks for ticks every 25 ms or so. A tick comes at least once a
        heartbeat to a leader, and each `look_us` to others, so that the wall clock is known.
        """
        state = self.state
        led = state.leadership
        if led is not None:
            due_us = state.next_beat_us(self._ticked_us, idle=self._leader.is_idle(led))
            return min(due_us, self._leader.due_us(led))
        due_us = next_multiple(self._ticked_us, state.timing.look_us)
        if state.candidacy is not None:
            return min(due_us, state.candidacy.deadline_us)
        return min(due_us, state.election_us)

    def tick(self, now_us: int, wall_us: int) -> None:
        """Let time pass; call this when it is due, or more often."""
        state = self.state
        state.now_us = self._ticked_us = now_us
        if state.halted:
            return
        state.clock.report(state.me, wall_us, now_us)
        if now_us >= self._next_mark_us:
            self._next_mark_us = now_us + state.timing.mark_us
            state.acceptor.mark_lazily()
        led = state.leadership
        if led is not None:
            self._leader.tick(led)
            self._reconfiguration.tick(led)
        elif state.candidacy is not None:
            self._candidate.tick(state.candidacy)
        elif now_us >= state.election_us:
            if state.eligible:
                self._candidate.stand(Stage.PRE_VOTE)
            else:
                self._follower.miss_a_leader()
        self._reconfiguration.watch_repair()

    def receive(self, now_us: int, source: int, message: Message) -> None:
        """Handle a message of node `source`; only votes of voters count.

        The node need be no member as far as this node knows: it may know of changes that this one
        does not.
        """
        state = self.state
        state.now_us = now_us
        if state.halted or source == state.me:
            return
        match message:
            case Accept():
                self._follower.on_accept(source, message)
            case Accepted():
                self._leader.on_accepted(source, message)
            case Heartbeat():
                self._follower.on_heartbeat(source, message)
            case HeartbeatReply():
                self._leader.on_heartbeat_reply(source, message)
            case PreVote():
                self._follower.on_pre_vote(source, message)
            case PreVoteReply():
                self._candidate.on_pre_vote_reply(source, message)
            case Prepare():
                self._follower.on_prepare(source, message)
            case Promise():
                if self._candidate.on_promise(source, message):
                    self._leader.lead()
            case Nack():
                self._leader.on_nack(message)
                self._candidate.on_nack(source, message)
            case LearnRequest():
                self._follower.on_learn_request(source, message)
            case Learned():
                self._follower.on_learned(source, message)
            case TooOld():
                self._follower.on_too_old(source, message)
            case TransferLeadership():
                higher = message.ballot >= state.acceptor.promised
                if higher and state.eligible and state.leadership is None:
                    self._candidate.stand(Stage.PROMISING)
