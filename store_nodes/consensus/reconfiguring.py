"""Changes of membership: the rules for them, why they are safe, and a leader's duties.

The rules
    1. A change in instance i governs the instances after i. It is proposed only while nothing is
       open, and nothing else until it is chosen: a leader never has instances of two memberships
       open.
    2. One change makes, removes, promotes or demotes one node (store_nodes/membership.py).
    3. A leader takes the next step only when the last is *settled*: an instance under the new
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
    the settling instance is a majority of M' that has promised this ballot, and stands for the
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

from store_nodes.commands import Reconfigure, encode_membership, encode_noop
from store_nodes.consensus.effects import MembershipChanged, VotingAllowed
from store_nodes.consensus.leadership import Leadership
from store_nodes.consensus.standing import Standing
from store_nodes.errors import NotAllowed, NotLeader
from store_nodes.membership import LEARNER, REPAIR, VOTER, Membership


class Reconfiguring(Standing):
    """The part of a replica that changes the membership of its group."""

    _told_voting_allowed = False

    # -- calls of the shell --------------------------------------------------------------------

    @property
    def can_reconfigure(self) -> bool:
        """Whether this node leads, has nothing open, and has settled its last change."""
        led = self.leadership
        return (
            led is not None
            and not led.finishing
            and not led.leaving
            and led.transfer_to is None
            and led.next_instance == self.acceptor.chosen
            and led.settle_at < self.acceptor.chosen
            and self._clock.ready
        )

    def quiesce(self, now_us: int, step: Reconfigure) -> bool:
        """Take no new work for up to `transfer_us`, so that `step` can be proposed under load, too.

        Return whether it can be proposed now. Raises the errors of `check_step`.
        """
        self._now_us = now_us
        self.check_step(step)
        led = self.leadership
        assert led is not None
        after = self.membership.after(step)
        if self.can_reconfigure and self._is_held(led, after):
            return True
        near = sum(self._is_near(led, voter) for voter in after.voters)
        if near >= after.majority and now_us >= led.quiet_until_us:
            led.quiet_until_us = now_us + self.timing.transfer_us
            led.quiet_asked = False
        if led.next_instance == self.acceptor.chosen and not led.quiet_asked:
            # The replies tell which nodes have which instances on their disks.
            led.quiet_asked = True
            self._heartbeat(led)
        return False

    def _is_near(self, led: Leadership, node: int) -> bool:
        return node == self.me or self._is_level(led, node)

    def _is_held(self, led: Leadership, after: Membership) -> bool:
        """Return whether a majority of these voters has every chosen value on its disk."""
        delivered = {**led.peer_delivered, self.me: self.acceptor.delivered}
        level = [v for v in after.voters if delivered.get(v, -1) >= self.acceptor.chosen]
        return len(level) >= after.majority

    def check_step(self, step: Reconfigure) -> None:
        """Check a step that a leader is to propose; raises NotLeader, Conflict or NotAllowed."""
        led = self.leadership
        if led is None or led.finishing:
            raise NotLeader(self.leader)
        after = self.membership.after(step)
        promotes = step.role == VOTER and step.node not in self._voters
        if promotes and not self._is_level(led, step.node):
            raise NotAllowed(f"node {step.node} has not caught up with the group yet")
        self._check_reach(led, after)
        crowded = after.crowded_zone()
        repairs = REPAIR in step.labels
        if crowded is not None and self.membership.crowded_zone() is None and not repairs:
            raise NotAllowed(f"zone {crowded} would hold a majority of the voters")

    def _check_reach(self, led: Leadership, after: Membership) -> None:
        reached = [voter for voter in after.voters if self._is_heard(led, voter)]
        if len(reached) < after.majority:
            raise NotAllowed(
                f"of the voters {list(after.voters)} only {reached} can be reached: no majority"
            )

    def _is_heard(self, led: Leadership, node: int) -> bool:
        if node == self.me:
            return True
        heard_us = led.heard_us.get(node)
        return heard_us is not None and self._now_us - heard_us < self.timing.election_us

    def propose_membership(self, now_us: int, step: Reconfigure) -> int:
        """Propose one step, if `quiesce` allowed it; return its instance.

        Raises the errors of `check_step`.
        """
        self._now_us = now_us
        led = self.leadership
        assert led is not None
        self.check_step(step)
        return self._propose_step(led, step)

    def _propose_step(self, led: Leadership, step: Reconfigure) -> int:
        assert self.can_reconfigure, "a change of membership beside what is open or not settled"
        assert self._is_held(led, self.membership.after(step)), (
            "a change of membership that leaves voters without what is chosen"
        )
        led.change_at = led.next_instance
        led.quiet_until_us = 0
        return self._open_next(led, encode_membership(step, self._stamp()), False)

    def set_voting(self) -> None:
        """Allow this node to vote; the shell has recorded that it is whole (VotingAllowed)."""
        self.voting = True
        self.repair_token = 0

    # -- a change is chosen --------------------------------------------------------------------

    def _adopt_membership(self) -> None:
        led = self.leadership
        if self.acceptor.membership is not self.membership:
            before = self.peers
            self._take_membership()
            self._outbox.report(MembershipChanged(self.membership))
            if self._candidacy is not None:
                self._drop_candidacy()
            elif led is not None and not led.finishing:
                self._lead_on(led, before)
        if led is not None and led.finishing and self.acceptor.chosen >= led.recovered_upto:
            # This holds even if the rules refused the change: this ballot proposes nothing further.
            self._heartbeat(led)
            self._step_down()
            self._stand_again()

    def _lead_on(self, led: Leadership, before: tuple[int, ...]) -> None:
        """Lead under the new membership, and tell the nodes that left, too."""
        assert led.next_instance == self.acceptor.chosen, (
            f"instances up to {led.next_instance} are open under two memberships"
        )
        message = self._heartbeat_message(led)
        for node in sorted({*before, *self.peers}):
            self._outbox.send(node, message)
        if self.me in self._voters:
            led.settle_at = self._open_next(led, encode_noop(self._stamp()), False)
        else:
            led.leaving = True
            led.leave_by_us = self._now_us + self.timing.election_us
            self._leave(led)

    def _leave(self, led: Leadership) -> None:
        """Hand over, as this node is no voter any more, once the change is on the disk here.

        Until then, the caller that asked for the change has no answer.
        """
        if self.acceptor.delivered < self.acceptor.chosen and self._now_us < led.leave_by_us:
            return
        to = self._successor(led)
        if to is not None:
            self.transfer(self._now_us, to)
        self._step_down()

    # -- a voter that lost its votes -----------------------------------------------------------

    def _watch_repair(self) -> None:
        """Report VotingAllowed once the answer to this node's own token is durable here."""
        waits = not self.voting and not self._told_voting_allowed
        if not waits or self.acceptor.delivered < self.acceptor.member_since:
            return
        mine = self.membership.member(self.me)
        if (
            mine is not None
            and mine.role == LEARNER
            and mine.labels.get(REPAIR) == str(self.repair_token)
        ):
            self._told_voting_allowed = True
            self._outbox.report(VotingAllowed())

    def _repair(self, led: Leadership) -> None:
        """Take the next step of repair, if there is one and it is allowed."""
        step = self._repair_step(led)
        if step is None:
            return
        try:
            if self.quiesce(self._now_us, step):
                self._propose_step(led, step)
        except NotAllowed:
            return

    def _repair_step(self, led: Leadership) -> Reconfigure | None:
        """Return the next step of repair: broken voters leave before whole ones return."""
        version = self.membership.version + 1
        for member in self.membership.members:
            node, labels = member.node, member.labels
            token = led.repairs.get(node)
            if token and labels.get(REPAIR) != str(token):
                return Reconfigure(version, node, LEARNER, "", {**labels, REPAIR: str(token)})
        for member in self.membership.members:
            node, labels = member.node, member.labels
            waits = member.role == LEARNER and labels.get(REPAIR) and led.repairs.get(node) == 0
            if waits and self._is_level(led, node):
                return Reconfigure(version, node, VOTER, "", {**labels, REPAIR: ""})
        return None

    def _tick_leader(self, led: Leadership) -> None:
        super()._tick_leader(led)
        if self.leadership is not led or led.finishing:
            return
        if led.leaving:
            self._leave(led)
        else:
            self._repair(led)
