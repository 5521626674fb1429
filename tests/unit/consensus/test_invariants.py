"""Test the assertions of the core.

Each case comes close to a rule. A mutant that leaves out the line which keeps the rule trips the
assertion (tests/mutants/consensus.py).
"""

from __future__ import annotations

from store_nodes.commands import encode_noop
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.effects import Outbox, PromiseRecord
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Heartbeat,
    Learned,
    Nack,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
)
from store_nodes.consensus.state import Stage
from store_nodes.machine.machine import Machine
from store_nodes.membership import LEARNER, Membership
from store_nodes.node.start import GroupStart
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.position import Position
from tests.unit.consensus.bench import Bench, Envelope, first_membership, without

OLD, NEW = encode_noop(7), encode_noop(8)


def recovered(found: GroupStart) -> Acceptor:
    """Return the acceptor that a start makes from the records that it found."""
    held = Recovered(found.promised, found.chosen, found.machine.applied, found.accepted)
    return Acceptor(Outbox(), held, first_membership(3))


def test_an_accept_that_is_found_again_binds_as_the_promise_that_it_was() -> None:
    found = GroupStart(Machine(1, Membership()))
    found.replay(Record(FrameKind.ACCEPT, 1, 0, ballots.make(3, 2), OLD), Position(1, 4152, 8))
    assert recovered(found).promised == ballots.make(3, 2)


def test_what_the_state_has_is_not_found_again() -> None:
    found = GroupStart(Machine(1, Membership()))
    found.machine.apply(0, OLD)
    found.replay(Record(FrameKind.ACCEPT, 1, 0, ballots.make(3, 2), OLD), Position(1, 4152, 8))
    assert recovered(found).accepted == {}


def test_a_second_prepare_in_a_ballot_gets_no_second_promise() -> None:
    bench = Bench()
    ballot = ballots.make(7, 3)
    for _ in range(2):
        bench.replicas[2].receive(0, 3, Prepare(ballot, 0))
        bench.collect(2)
    assert bench.records[2].count(PromiseRecord(ballot)) == 1
    assert sum(isinstance(message, Promise) for _, _, message in bench.wire) == 1


def test_an_accept_below_the_promise_is_refused() -> None:
    bench = Bench()
    bench.replicas[2].receive(0, 3, Prepare(ballots.make(7, 3), 0))
    bench.replicas[2].receive(0, 1, Accept(ballots.make(5, 1), 0, OLD, 0))
    bench.collect(2)
    assert any(isinstance(message, Nack) for _, _, message in bench.wire)
    assert bench.replicas[2].state.acceptor.accepted == {}


def test_what_is_told_again_as_chosen_is_passed_over() -> None:
    bench = Bench()
    replica = bench.replicas[2]
    replica.receive(0, 1, Learned(0, (OLD,), 1))
    replica.receive(0, 1, Learned(0, (OLD, NEW), 2))
    bench.collect(2)
    assert bench.chosen[2] == [(0, OLD), (1, NEW)]


def test_what_is_chosen_and_was_never_sent_here_is_asked_for() -> None:
    bench = Bench()
    bench.replicas[2].receive(0, 1, Heartbeat(ballots.make(1, 1), 1, 0, ()))
    bench.collect(2)
    assert bench.replicas[2].state.acceptor.chosen == 0


def test_a_node_stands_in_a_ballot_above_all_that_it_promised() -> None:
    bench = Bench()
    bench.replicas[2].receive(0, 3, Prepare(ballots.make(7, 3), 0))
    bench.collect(2)
    asked: list[PreVote] = []

    def lost(envelope: Envelope) -> bool:
        if isinstance(envelope[2], PreVote):
            asked.append(envelope[2])
        return False

    bench.wire.clear()
    bench.run(4_000_000, lost, nodes=(2,))
    assert min(ballots.round_of(message.ballot) for message in asked) > 7


def test_promises_count_once_our_own_is_durable() -> None:
    bench = Bench()
    bench.held_disks[1] = []
    bench.run(600_000, nodes=(1, 2))
    replica = bench.replicas[1]
    assert replica.state.candidacy is not None
    assert replica.state.candidacy.stage is Stage.PROMISING
    for node in (2, 3):
        replica.receive(bench.now_us, node, Promise(replica.state.candidacy.ballot, (), 0, 1))
    assert not replica.state.leading


def test_a_promise_of_a_node_that_is_no_voter_makes_no_leader() -> None:
    bench = Bench()
    bench.run(600_000, lambda envelope: not isinstance(envelope[2], Prepare), nodes=(1, 2))
    replica = bench.replicas[1]
    standing = replica.state.candidacy
    assert standing is not None
    assert standing.stage is Stage.PREPARING
    replica.receive(bench.now_us, 9, Promise(standing.ballot, (), 0, 1))
    assert not replica.state.leading


def test_a_candidate_that_promised_another_leads_in_its_own_ballot_no_more() -> None:
    bench = Bench()
    bench.run(600_000, lambda envelope: not isinstance(envelope[2], Prepare), nodes=(1, 2))
    replica = bench.replicas[1]
    standing = replica.state.candidacy
    assert standing is not None
    assert standing.stage is Stage.PREPARING
    replica.receive(bench.now_us, 3, Prepare(ballots.make(99, 3), 0))
    for node in (2, 3):
        replica.receive(bench.now_us, node, Promise(standing.ballot, (), 0, 1))
    bench.collect(1)
    assert not replica.state.leading


def test_a_leader_says_chosen_of_nothing_but_what_it_proposed() -> None:
    """The leader has accepted an older value itself, and proposes the value that another node
    accepted in a later ballot.
    """
    bench = Bench()
    for node, ballot, value in ((1, ballots.make(1, 2), OLD), (2, ballots.make(2, 3), NEW)):
        bench.replicas[node].receive(0, ballots.node_of(ballot), Accept(ballot, 0, value, 0))
        bench.collect(node)
    bench.wire.clear()
    for replica in bench.replicas.values():
        replica.state.preferred = 1
    bench.run(4_000_000, without(3), nodes=(1, 2))
    assert dict(bench.chosen[1])[0] == dict(bench.chosen[2])[0] == NEW


def test_a_later_proposal_of_another_value_does_not_replace_what_is_chosen() -> None:
    bench = Bench()
    replica = bench.replicas[2]
    replica.receive(0, 1, Learned(0, (OLD,), 1))
    bench.collect(2)
    replica.receive(0, 3, Accept(ballots.make(9, 3), 0, NEW, 0))
    bench.collect(2)
    assert replica.state.acceptor.accepted[0][1] == OLD


def test_a_pre_vote_is_denied_while_a_leader_is_heard_of() -> None:
    bench = Bench()
    bench.elect(1)
    for wait_us, granted in ((0, False), (2_000_000, True)):
        bench.now_us += wait_us
        bench.wire.clear()
        bench.replicas[2].receive(bench.now_us, 3, PreVote(ballots.make(99, 3), 5))
        bench.collect(2)
        assert [m.granted for _, _, m in bench.wire if isinstance(m, PreVoteReply)] == [granted]


def test_nothing_is_proposed_beside_a_change_of_membership() -> None:
    bench = Bench()
    leader = bench.elect(1)
    instance = bench.change(1, 4, LEARNER)
    if leader.state.can_propose:
        bench.propose(1, b"")
    assert leader.state.leadership is not None
    assert leader.state.leadership.next_instance == instance + 1


def test_a_vote_of_an_older_ballot_does_not_count() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.wire.clear()
    bench.held_disks[1] = []
    instance = bench.propose(1, b"\x03\x00\x00\x00\x00\x00\x00\x00one ")
    older = leader.state.leader_ballot - (1 << ballots.NODE_BITS)
    leader.receive(bench.now_us, 2, Accepted(leader.state.leader_ballot, (instance,)))
    leader.receive(bench.now_us, 3, Accepted(older, (instance,)))
    assert leader.state.acceptor.chosen == instance
