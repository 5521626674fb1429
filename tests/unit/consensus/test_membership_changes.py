"""Changes of membership, voters that lost their votes, handing over: a test per rule."""

from __future__ import annotations

import pytest

from store_nodes.commands import Reconfigure, encode_membership, encode_value
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Recovered
from store_nodes.consensus.ballot import CHOSEN
from store_nodes.consensus.effects import (
    ChosenRecord,
    InstallNeeded,
    MembershipChanged,
    PromiseRecord,
    ReadReady,
    SteppedDown,
    VotingAllowed,
)
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Flag,
    Heartbeat,
    HeartbeatReply,
    Learned,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
    TooOld,
    TransferLeadership,
)
from store_nodes.consensus.state import Limits
from store_nodes.errors import Conflict, NotAllowed
from store_nodes.membership import LEARNER, REMOVED, REPAIR, VOTER, Membership
from tests.unit.consensus.bench import WALL_US, Bench, Envelope, without
from tests.unit.consensus.test_replica import command

SETTLE_US = 400_000


def step(version: int, node: int, role: str, **labels: str) -> Reconfigure:
    return Reconfigure(version, node, role, f"node-{node}:1", labels)


def said(bench: Bench, node: int, kind: type) -> list[object]:
    return [
        message for source, _, message in bench.wire if source == node and type(message) is kind
    ]


def test_a_node_becomes_learner_then_voter_then_is_removed() -> None:
    bench = Bench()
    bench.elect(1)
    bench.start(4, bench.membership)
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    assert bench.replicas[4].state.membership.learners == (4,)
    bench.change(1, 4, VOTER)
    bench.run(SETTLE_US)
    assert bench.replicas[4].state.voters == (1, 2, 3, 4)
    bench.change(1, 3, REMOVED)
    bench.run(SETTLE_US)
    assert bench.replicas[2].state.membership.removed == (3,)
    assert bench.replicas[3].state.membership.removed == (3,), "it was told"
    assert bench.chosen[4] == bench.chosen[1]
    assert MembershipChanged(bench.replicas[2].state.membership) in bench.events[2]


def test_a_learners_vote_is_not_counted() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.start(4, bench.membership)
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    before = len(bench.chosen[1])
    bench.wire.clear()
    instance = bench.propose(1, command(1))
    bench.deliver(lambda envelope: envelope[1] == 4)
    assert said(bench, 4, Accepted), "it stores what it is sent"
    bench.deliver(lambda envelope: envelope[0] == 4)
    assert len(bench.chosen[1]) == before
    leader.receive(bench.now_us, 2, Accepted(leader.state.leader_ballot, (instance,)))
    bench.collect(1)
    assert len(bench.chosen[1]) == before + 1


def test_a_learners_promise_is_not_counted() -> None:
    bench = Bench()
    bench.elect(1)
    bench.start(4, bench.membership)
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    for node in (2, 3):
        bench.replicas[node].peer_lost(bench.now_us, 1)
        bench.collect(node)
    prepares: list[Envelope] = []

    def wanted(envelope: Envelope) -> bool:
        if isinstance(envelope[2], Prepare):
            prepares.append(envelope)
            return False
        return without(1)(envelope)

    while not prepares:
        bench.run(20_000, wanted, nodes=(2, 3, 4))
    candidate, _, prepare = prepares[0]
    assert isinstance(prepare, Prepare)
    replica = bench.replicas[candidate]
    for source, leads in ((4, False), (5 - candidate, True)):
        promise = Promise(prepare.ballot, (), prepare.start, WALL_US + bench.now_us)
        replica.receive(bench.now_us, source, promise)
        bench.collect(candidate)
        assert replica.state.leading is leads


def test_nothing_else_is_proposed_until_a_change_is_chosen() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.start(4, bench.membership)
    bench.change(1, 4, LEARNER)
    assert not leader.state.can_propose
    assert not leader._reconfiguration.can_reconfigure
    bench.run(SETTLE_US)
    assert leader.state.can_propose


def test_a_second_step_waits_until_the_first_is_confirmed() -> None:
    bench = Bench()
    leader = bench.elect(1)
    instance = bench.change(1, 4, LEARNER)
    bench.wire.clear()
    leader.receive(bench.now_us, 2, Accepted(leader.state.leader_ballot, (instance,)))
    bench.collect(1)
    assert leader.state.membership.version == 1
    assert not leader._reconfiguration.can_reconfigure, (
        "the no-op under the new membership is not chosen yet"
    )
    leader.receive(bench.now_us, 2, Accepted(leader.state.leader_ballot, (instance + 1,)))
    assert leader._reconfiguration.can_reconfigure


def test_a_busy_group_comes_to_rest_for_a_step() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.propose(1, command(1))
    assert not leader.quiesce(bench.now_us, step(1, 4, LEARNER))
    assert not leader.state.can_propose
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    assert leader.state.can_propose


def test_a_step_waits_until_those_who_stay_hold_what_is_chosen() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(SETTLE_US)
    bench.propose(1, command(1))
    bench.run(20_000, without(3))
    removes_two = step(1, 2, REMOVED)
    assert leader.state.leadership is not None
    upto = leader.state.leadership.next_instance
    if leader.quiesce(bench.now_us, removes_two):
        leader.propose_membership(bench.now_us, removes_two)
    assert leader.state.leadership.next_instance == upto, "only 1 and 2 have the last instance"
    bench.collect(1)
    bench.run(SETTLE_US)
    assert leader.quiesce(bench.now_us, removes_two)


def test_a_leader_that_learns_of_a_change_it_did_not_propose_leads_no_more() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(SETTLE_US)
    instance = bench.propose(1, command(1))
    bench.propose(1, command(2))
    change = encode_membership(step(1, 4, LEARNER), WALL_US)
    leader.receive(bench.now_us, 2, Learned(instance, (change,), instance + 1))
    assert leader.state.membership.learners == (4,)
    assert leader.state.leadership is None


def test_what_a_leader_refuses_to_propose() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(SETTLE_US)
    with pytest.raises(Conflict):
        leader._reconfiguration.check_step(step(2, 4, LEARNER))
    with pytest.raises(NotAllowed, match="learner first"):
        leader._reconfiguration.check_step(step(1, 4, VOTER))
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    with pytest.raises(NotAllowed, match="not caught up"):
        leader._reconfiguration.check_step(step(2, 4, VOTER))
    bench.run(1_200_000, without(3))
    with pytest.raises(NotAllowed, match="no majority"):
        leader._reconfiguration.check_step(step(2, 2, REMOVED))
    leader._reconfiguration.check_step(step(2, 3, REMOVED))


def test_a_step_that_crowds_a_zone_is_refused() -> None:
    bench = Bench()
    zones = {1: "a", 2: "b", 3: "c", 4: "a"}
    first = Membership.first({n: (f"node-{n}:1", zones[n]) for n in (1, 2, 3)})
    for node in (1, 2, 3):
        bench.start(node, first)
    leader = bench.elect(1)
    bench.start(4, first)
    bench.change(1, 4, LEARNER, zone="a")
    bench.run(SETTLE_US)
    bench.change(1, 4, VOTER, zone="a")
    bench.run(SETTLE_US)
    with pytest.raises(NotAllowed, match="zone a"):
        leader._reconfiguration.check_step(Reconfigure(3, 2, LEARNER, "", {}))


def test_the_leader_commits_its_own_removal_and_hands_over() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.change(1, 1, REMOVED)
    transfers = []
    while bench.wire:
        transfers += [m for _, _, m in bench.wire if isinstance(m, TransferLeadership)]
        bench.deliver()
    assert transfers
    assert not leader.state.leading
    assert SteppedDown() in bench.events[1]
    bench.run(SETTLE_US)
    assert bench.replicas[2].state.leading or bench.replicas[3].state.leading
    bench.run(5_000_000)
    assert not leader.state.leading


def test_a_removed_node_is_refused_and_learns_why() -> None:
    bench = Bench()
    bench.elect(1)
    bench.change(1, 3, REMOVED)
    promises = [record for record in bench.records[3] if isinstance(record, PromiseRecord)]
    bench.run(1_500_000, without(3))
    assert bench.replicas[3].state.membership.version == 0
    bench.run(3_000_000)
    assert bench.replicas[3].state.membership.removed == (3,)
    assert bench.replicas[1].state.leading
    assert [r for r in bench.records[3] if isinstance(r, PromiseRecord)] == promises


def recovered_change(bench: Bench) -> tuple[int, bytes]:
    """Let node 2 accept a change of leader 1 in instance 0, and a value after it."""
    change = encode_membership(step(1, 4, LEARNER), 5)
    ballot = ballots.make(1, 1)
    bench.replicas[2].receive(0, 1, Accept(ballot, 0, change, 0))
    bench.replicas[2].receive(0, 1, Accept(ballot, 1, encode_value([command(1)], 6), 0))
    bench.collect(2)
    bench.wire.clear()
    return ballot, change


def test_a_new_leader_finishes_a_change_it_found_and_stands_again() -> None:
    bench = Bench()
    recovered_change(bench)
    for node in (2, 3):
        bench.replicas[node].peer_lost(0, 1)
        bench.collect(node)
    prepared: list[int] = []
    proposed: dict[int, list[int]] = {}
    bench.now_us += 60_000
    for _ in range(30):
        bench.now_us += 20_000
        for node in (2, 3):
            bench.tick(node)
        while bench.wire:
            for _, _, message in bench.wire:
                if isinstance(message, Prepare) and message.ballot not in prepared:
                    prepared.append(message.ballot)
                if isinstance(message, Accept):
                    proposed.setdefault(message.ballot, []).append(message.instance)
            bench.deliver(without(1))
    first, second = prepared[:2]
    assert ballots.node_of(first) == ballots.node_of(second)
    assert set(proposed[first]) == {0}, "nothing beyond the change"
    assert 1 in proposed[second]
    assert bench.replicas[2].state.membership.version == 1
    assert command(1) in dict(bench.chosen[3])[1]


def test_a_candidacy_ends_when_its_membership_does() -> None:
    bench = Bench()
    replica = bench.replicas[3]
    bench.run(1_600_000, lambda _: False, nodes=(3,))
    [pre_vote, *_] = [m for _, _, m in bench.wire if isinstance(m, PreVote)] or [
        PreVote(ballots.make(1, 3), 0)
    ]
    replica.receive(bench.now_us, 1, PreVoteReply(pre_vote.ballot, True, 0, 0))
    bench.collect(3)
    change = encode_membership(step(1, 4, LEARNER), 5)
    replica.receive(bench.now_us, 2, Learned(0, (change,), 1))
    bench.collect(3)
    ballot = max(r.ballot for r in bench.records[3] if isinstance(r, PromiseRecord))
    replica.receive(bench.now_us, 1, Promise(ballot, (), 0, 0))
    bench.collect(3)
    assert replica.state.membership.version == 1
    assert not replica.state.leading
    assert replica.state.leadership is None


def test_a_change_found_in_a_promise_as_chosen_needs_a_higher_ballot() -> None:
    bench = Bench()
    replica = bench.replicas[3]
    replica._candidate.stand_again()
    bench.collect(3)
    [first] = {m.ballot for _, _, m in bench.wire if isinstance(m, Prepare)}
    bench.wire.clear()
    change = encode_membership(step(1, 4, LEARNER), 5)
    replica.receive(0, 1, Promise(first, ((0, CHOSEN, change),), 1, 0))
    bench.collect(3)
    assert not replica.state.leading
    [second] = {m.ballot for _, _, m in bench.wire if isinstance(m, Prepare)}
    assert second > first


def test_a_change_is_marked_on_disk_at_once() -> None:
    bench = Bench()
    bench.elect(1)
    instance = bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    for node in (1, 2, 3):
        assert ChosenRecord(instance + 1) in bench.records[node]


def test_a_restart_knows_the_membership_of_its_chosen_prefix() -> None:
    bench = Bench()
    change = encode_membership(step(1, 4, LEARNER), 5)
    ballot = ballots.make(1, 1)
    recovered = Recovered(promised=ballot, chosen=1, accepted={0: (ballot, change)})
    assert bench.start(3, bench.membership, recovered=recovered).state.membership.version == 1


# -- voters that lost their votes -----------------------------------------------------------------


def test_a_node_that_may_not_vote_stores_and_says_nothing() -> None:
    bench = Bench()
    damaged = bench.start(3, bench.membership, voting=False)
    bench.wire.clear()
    ballot = ballots.make(5, 1)
    damaged.receive(0, 1, PreVote(ballot, 0))
    damaged.receive(0, 1, Prepare(ballot, 0))
    damaged.receive(0, 1, Accept(ballot, 0, encode_value([command(1)], 5), 0))
    damaged.receive(0, 1, Accept(ballot, 0, encode_value([command(1)], 5), 0))
    bench.collect(3)
    damaged.receive(0, 1, Heartbeat(ballot, 1, 0, ()))
    bench.collect(3)
    assert not said(bench, 3, Promise)
    assert not said(bench, 3, Accepted)
    assert [reply.granted for reply in said(bench, 3, PreVoteReply)] == [False]
    [reply] = said(bench, 3, HeartbeatReply)
    assert reply.flags & Flag.DAMAGED
    assert reply.repair == damaged.state.repair_token != 0
    assert reply.delivered == 1
    bench.run(4_000_000, without(3), nodes=(3,))
    assert not any(isinstance(record, PromiseRecord) for record in bench.records[3])


def test_what_may_have_lost_votes_trusts_no_accept_and_no_mark() -> None:
    old, known = encode_value([command(1)], 5), encode_value([command(2)], 6)
    recovered = Recovered(chosen=2, accepted={0: (CHOSEN, known), 1: (ballots.make(1, 1), old)})
    bench = Bench()
    damaged = bench.start(3, bench.membership, recovered=recovered, voting=False)
    bench.collect(3)
    assert bench.chosen[3] == [(0, known)]
    assert damaged.state.acceptor.chosen == 1


def test_a_damaged_voter_is_demoted_and_promoted_again() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.propose(1, command(1))
    bench.run(SETTLE_US)
    damaged = bench.start(3, bench.membership, voting=False)
    for _ in range(40):
        bench.run(20_000)
        if VotingAllowed() in bench.events[3]:
            break
    assert leader.state.membership.member(3).labels[REPAIR] == str(damaged.state.repair_token)
    assert leader.state.voters == (1, 2)
    damaged.set_voting()
    bench.run(1_500_000)
    assert leader.state.voters == (1, 2, 3)
    assert REPAIR not in leader.state.membership.member(3).labels
    assert bench.chosen[3] == bench.chosen[1]


def test_an_old_demotion_does_not_set_a_damaged_node_free() -> None:
    """The node meets the demotion of an earlier damage again; after that demotion it was a
    voter.
    """
    bench = Bench()
    damaged = bench.start(3, bench.membership, voting=False)
    old = encode_membership(step(1, 3, LEARNER, repair="4711"), 5)
    promoted = encode_membership(step(2, 3, VOTER), 6)
    damaged.receive(0, 1, Learned(0, (old,), 2))
    bench.collect(3)
    damaged.receive(0, 1, Learned(1, (promoted,), 2))
    bench.collect(3)
    bench.run(100_000, nodes=(3,))
    assert damaged.state.voters == (1, 2, 3)
    assert VotingAllowed() not in bench.events[3]


def test_a_damaged_node_confirms_no_read() -> None:
    bench = Bench()
    leader = bench.elect(1)
    leader.read_barrier(bench.now_us, 7)
    sequence = leader.state.leadership.sequence
    reply = HeartbeatReply(leader.state.leader_ballot, sequence, 1, 0, None, int(Flag.DAMAGED), 5)
    leader.receive(bench.now_us, 3, reply)
    bench.collect(1)
    assert not any(isinstance(event, ReadReady) for event in bench.events[1])


def test_damage_on_a_majority_stops_the_group() -> None:
    bench = Bench()
    bench.elect(1)
    for node in (2, 3):
        bench.start(node, bench.membership, voting=False)
    bench.run(5_000_000)
    assert not any(replica.state.leading for replica in bench.replicas.values())


# -- far behind -----------------------------------------------------------------------------------


def test_what_nobody_can_send_any_more_needs_a_checkpoint() -> None:
    bench = Bench()
    bench.replicas[1].send_too_old(3, 40)
    bench.collect(1)
    bench.deliver()
    assert InstallNeeded(1, 40) in bench.events[3]
    bench.replicas[3].receive(0, 1, TooOld(0))
    assert len([e for e in bench.events[3] if isinstance(e, InstallNeeded)]) == 1


def test_a_node_without_a_membership_stores_nothing_and_asks_for_a_checkpoint() -> None:
    bench = Bench()
    bench.elect(1)
    bench.propose(1, command(1))
    new = bench.start(4, Membership())
    bench.change(1, 4, LEARNER)
    bench.run(SETTLE_US)
    assert any(isinstance(event, InstallNeeded) for event in bench.events[4])
    assert not bench.records[4]
    assert bench.replicas[1].state.membership.learners == (4,)
    assert new.state.membership == Membership()


def test_everywhere_is_what_the_slowest_member_has() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(SETTLE_US)
    everywhere = leader.state.everywhere
    for number in range(5):
        bench.propose(1, command(number))
        bench.run(20_000, without(3))
    bench.run(200_000, without(3))
    assert leader.state.everywhere == everywhere
    bench.run(1_000_000)
    assert leader.state.everywhere == leader.state.acceptor.delivered
    assert bench.replicas[2].state.everywhere == leader.state.everywhere


# -- leaders ------------------------------------------------------------------------------------


def test_groups_spread_over_the_voters() -> None:
    spread = []
    for group in range(6):
        replica = Bench(group=group).replicas[1]
        replica.prefer(0, None)
        spread.append(replica.state.preferred)
    assert spread == [1, 2, 3, 1, 2, 3]


def test_a_wish_for_a_node_that_is_no_voter_is_passed_over() -> None:
    replica = Bench().replicas[1]
    replica.prefer(0, 9)
    assert replica.state.preferred == 1
    replica.prefer(0, 3)
    assert replica.state.preferred == 3


def test_a_leader_with_a_slow_disk_hands_over() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(SETTLE_US)
    bench.held_disks[1] = []
    bench.propose(1, command(1))
    bench.run(2_000_000)
    assert leader.state.slow
    assert not leader.state.leading
    assert bench.replicas[2].state.leading or bench.replicas[3].state.leading


def test_followers_must_take_what_a_leader_may_have_open() -> None:
    with pytest.raises(AssertionError):
        Limits(open_instances=32, ahead_instances=31)
