"""Changes of membership: the rules for them, why they are safe, and a leader's duties.

The rules
    1. A change in instance i governs the instances after i. It is proposed only while nothing is
       open, and nothing else until it is chosen: a leader never has instances of two memberships
       open.
    2. One change makes, removes, promotes or demotes one node (store_nodes/membership.py).
    3. A leader takes the next step only when the last is *confirmed*: an instance under the new
       membership is chosen in the leader's own ballot. It opens a no-op for that at once.
    4. A step waits until a majority of the remaining voters has every chosen value on its disk,
       because a voter that leaves may take its copy with it.
    5. A candidacy belongs to the membership it began under. A candidate that learns of another
       stands again in a higher ballot. One whose phase 1 finds a change that is accepted and not
       known to be chosen finishes that change, proposes nothing beyond it, and stands again.

Why that is safe
    Let M and M' be the memberships before and after the change in i. They differ in one voter at
    most, so every majority of M meets every majority of M'.

    *A ballot that proposes the change itself.* Its phase 1 had a majority of M. Whatever a lower
    ballot got accepted by a majority of M' for an instance after i, before that phase 1, a member
    of it reported; after it, no lower ballot gets a majority of M' any more. So phase 1 under M
    serves for M' too. It need not serve for the membership after M', hence rule 3: whoever chose
    the confirming instance is a majority of M' that has promised this ballot, and stands for the
    phase 1 of the next step.

    *A later ballot.* A candidate knows the chosen prefix up to some instance and the membership M
    there, which may be long outdated. If the change in i was chosen, a majority of M accepted it,
    and the candidate's phase 1 under M meets that majority: it finds the change, and by rule 5 goes
    no further. It stands again under M', finds the next, and so on, until it knows the present one.
    Had it gone on in the first ballot, it could miss what majorities of later memberships chose.

A voter that lost its votes
    A node whose log is damaged may have forgotten promises and accepts. It starts with
    `voting=False`: it stores what it is sent, and neither promises, votes nor confirms. Its own
    votes before the damage belong to memberships in which it was a voter then. So it asks, with a
    token made at that start, to leave the voters; the leader demotes it, with the token as a
    label; and only a membership with that label, which was therefore chosen *after* the damage,
    sets it free to vote. By then no candidate gets past the demotion without finding it: the
    majority that chose it did not count this node. Once the node has caught up the leader promotes
    it again.
"""

from __future__ import annotations

from store_nodes.commands import Reconfigure, encode_membership
from store_nodes.consensus.effects import VotingAllowed
from store_nodes.consensus.handover import Handover
from store_nodes.consensus.leader import Leader
from store_nodes.consensus.state import Leadership, ReplicaState
from store_nodes.errors import NotAllowed, NotLeader
from store_nodes.membership import LEARNER, REPAIR, VOTER, Membership


class Reconfiguration:
    """The part of a leader that changes the membership, and of a damaged voter that waits for it.

    leader.py follows a change once it is chosen.
    """

    def __init__(self, state: ReplicaState, leader: Leader, handover: Handover) -> None:
        self._state = state
        self._leader = leader
        self._handover = handover
        self._told_voting_allowed = False

    # -- a step --------------------------------------------------------------------------------

    @property
    def can_reconfigure(self) -> bool:
        """Whether this node leads, has nothing open, and has confirmed its last change."""
        state, led = self._state, self._state.leadership
        return (
            led is not None
            and not led.finishing
            and not led.leaving
            and led.transfer_to is None
            and led.next_instance == state.acceptor.chosen
            and led.confirm_at < state.acceptor.chosen
            and state.clock.ready
        )

    def quiesce(self, step: Reconfigure) -> bool:
        """Take no new work for up to `transfer_us`, so that `step` can be proposed under load, too.

        Return whether it can be proposed now. Raises the errors of `check_step`.
        """
        state = self._state
        self.check_step(step)
        led = state.leadership
        assert led is not None
        after = state.membership.after(step)
        if self.can_reconfigure and self._is_held(led, after):
            return True
        near = sum(self._is_near(led, voter) for voter in after.voters)
        if near >= after.majority and state.now_us >= led.quiet_until_us:
            led.quiet_until_us = state.now_us + state.timing.transfer_us
            led.quiet_asked = False
        if led.next_instance == state.acceptor.chosen and not led.quiet_asked:
            # The replies tell which nodes have which instances on their disks.
            led.quiet_asked = True
            self._leader.heartbeat(led)
        return False

    def _is_near(self, led: Leadership, node: int) -> bool:
        return node == self._state.me or self._handover.is_level(led, node)

    def _is_held(self, led: Leadership, after: Membership) -> bool:
        """Return whether a majority of these voters has every chosen value on its disk."""
        acceptor = self._state.acceptor
        delivered = {**led.peer_delivered, self._state.me: acceptor.delivered}
        level = [v for v in after.voters if delivered.get(v, -1) >= acceptor.chosen]
        return len(level) >= after.majority

    def check_step(self, step: Reconfigure) -> None:
        """Check a step that a leader is to propose; raises NotLeader, Conflict or NotAllowed."""
        state, led = self._state, self._state.leadership
        if led is None or led.finishing:
            raise NotLeader(state.leader)
        after = state.membership.after(step)
        promotes = step.role == VOTER and step.node not in state.voter_set
        if promotes and not self._handover.is_level(led, step.node):
            raise NotAllowed(f"node {step.node} has not caught up with the group yet")
        self._check_reach(led, after)
        crowded = after.crowded_zone()
        repairs = REPAIR in step.labels
        if crowded is not None and state.membership.crowded_zone() is None and not repairs:
            raise NotAllowed(f"zone {crowded} would hold a majority of the voters")

    def _check_reach(self, led: Leadership, after: Membership) -> None:
        reached = [voter for voter in after.voters if self._is_heard(led, voter)]
        if len(reached) < after.majority:
            raise NotAllowed(
                f"of the voters {list(after.voters)} only {reached} can be reached: no majority"
            )

    def _is_heard(self, led: Leadership, node: int) -> bool:
        state = self._state
        if node == state.me:
            return True
        heard_us = led.heard_us.get(node)
        return heard_us is not None and state.now_us - heard_us < state.timing.election_us

    def propose(self, step: Reconfigure) -> int:
        """Propose one step, if `quiesce` allowed it; return its instance.

        Raises the errors of `check_step`.
        """
        self.check_step(step)
        led = self._state.leadership
        assert led is not None
        return self._propose_step(led, step)

    def _propose_step(self, led: Leadership, step: Reconfigure) -> int:
        state = self._state
        assert self.can_reconfigure, "a change of membership beside what is open or not confirmed"
        assert self._is_held(led, state.membership.after(step)), (
            "a change of membership that leaves voters without what is chosen"
        )
        led.change_at = led.next_instance
        led.quiet_until_us = 0
        return self._leader.open_next(led, encode_membership(step, state.stamp()), False)

    # -- a voter that lost its votes -----------------------------------------------------------

    def watch_repair(self) -> None:
        """Report VotingAllowed once the answer to this node's own token is durable here."""
        state = self._state
        waits = not state.voting and not self._told_voting_allowed
        if not waits or state.acceptor.delivered < state.acceptor.member_since:
            return
        mine = state.membership.member(state.me)
        if (
            mine is not None
            and mine.role == LEARNER
            and mine.labels.get(REPAIR) == str(state.repair_token)
        ):
            self._told_voting_allowed = True
            state.outbox.report(VotingAllowed())

    def tick(self, led: Leadership) -> None:
        """Take the next step of repair, if there is one and it is allowed."""
        if self._state.leadership is not led or led.finishing or led.leaving:
            return
        step = self._repair_step(led)
        if step is None:
            return
        try:
            if self.quiesce(step):
                self._propose_step(led, step)
        except NotAllowed:
            return

    def _repair_step(self, led: Leadership) -> Reconfigure | None:
        """Return the next step of repair: broken voters leave before whole ones return."""
        membership = self._state.membership
        version = membership.version + 1
        for member in membership.members:
            node, labels = member.node, member.labels
            token = led.repairs.get(node)
            if token and labels.get(REPAIR) != str(token):
                return Reconfigure(version, node, LEARNER, "", {**labels, REPAIR: str(token)})
        for member in membership.members:
            node, labels = member.node, member.labels
            waits = member.role == LEARNER and labels.get(REPAIR) and led.repairs.get(node) == 0
            if waits and self._handover.is_level(led, node):
                return Reconfigure(version, node, VOTER, "", {**labels, REPAIR: ""})
        return None
