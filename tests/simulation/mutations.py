"""Seeded bugs: each breaks one rule of the product code, and the simulation must notice each.

A mutation is a context manager that patches the product. One that the simulation does not catch
shows that the rule it breaks is not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from store_nodes.commands import ValueKind, value_head
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.ballot import NO_BALLOT
from store_nodes.consensus.effects import Outbox
from store_nodes.consensus.follower import Follower
from store_nodes.consensus.leader import Leader
from store_nodes.consensus.log_time import LogClock
from store_nodes.consensus.messages import Accept, Accepted, Prepare
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import Candidacy, Leadership
from store_nodes.machine.queues import Queue
from store_nodes.machine.sessions import Session
from store_nodes.membership import Membership
from store_nodes.node.requests import PendingCommands
from tests.simulation.mutations_members import MUTATIONS_OF_MEMBERS

Mutation = Callable[[], AbstractContextManager[object]]


def acceptor_forgets_a_promise() -> AbstractContextManager[object]:
    """Answer a Prepare, then go on accepting from the leader before (P2)."""
    original = Follower.on_prepare

    def mutated(self: Follower, source: int, message: Prepare) -> None:
        before = self._state.acceptor.promised
        original(self, source, message)
        self._state.acceptor.promised = before

    return mock.patch.object(Follower, "on_prepare", mutated)


def leader_commits_on_a_minority() -> AbstractContextManager[object]:
    """Count the leader's own vote as enough (P1)."""
    original = Leader._count_vote

    def mutated(self: Leader, led: Leadership, instance: int, node: int) -> None:
        state = self._state
        majority, state.majority = state.majority, 1
        try:
            original(self, led, instance, node)
        finally:
            state.majority = majority

    return mock.patch.object(Leader, "_count_vote", mutated)


def accepted_is_sent_before_the_sync() -> AbstractContextManager[object]:
    """The vote leaves while its record is still on its way to the disk (P1)."""
    original = Acceptor.accept

    def mutated(
        self: Acceptor, instance: int, ballot: int, value: bytes, leader: int, vote: bool
    ) -> None:
        original(self, instance, ballot, value, leader, vote)
        if vote and self.accepted.get(instance, (0,))[0] == ballot:
            self._outbox.send(leader, Accepted(ballot, (instance,)))

    return mock.patch.object(Acceptor, "accept", mutated)


def promise_is_sent_before_the_sync() -> AbstractContextManager[object]:
    """A promise that a power cut makes undone was already counted (P1)."""

    def mutated(self: Outbox, number: int, to: int, message: Any) -> None:
        self.send(to, message)

    return mock.patch.object(Outbox, "send_after", mutated)


def phase_1_ignores_reported_values() -> AbstractContextManager[object]:
    """A new leader keeps only what it accepted itself (P1)."""

    def mutated(self: Candidacy, node: int, accepted: Sequence[tuple[int, int, bytes]]) -> None:
        first = not self.granted
        self.granted.add(node)
        if first:
            self.reported.update({i: (ballot, value) for i, ballot, value in accepted})

    return mock.patch.object(Candidacy, "add_promise", mutated)


def phase_1_picks_the_lower_ballot() -> AbstractContextManager[object]:
    """Propose the older of two reported values again (P1)."""

    def mutated(self: Candidacy, node: int, accepted: Sequence[tuple[int, int, bytes]]) -> None:
        self.granted.add(node)
        for instance, ballot, value in accepted:
            held = self.reported.get(instance)
            if held is None or ballot < held[0]:
                self.reported[instance] = (ballot, value)

    return mock.patch.object(Candidacy, "add_promise", mutated)


def restart_forgets_accepts() -> AbstractContextManager[object]:
    """Forget after a restart the values that were accepted and not yet known to be chosen (P1)."""
    original = Acceptor.__init__

    def mutated(self: Acceptor, outbox: Outbox, recovered: Recovered, first: Membership) -> None:
        held = recovered.accepted or {}
        kept = {i: entry for i, entry in held.items() if i < recovered.chosen}
        original(self, outbox, recovered._replace(accepted=kept), first)

    return mock.patch.object(Acceptor, "__init__", mutated)


def restart_forgets_the_promise() -> AbstractContextManager[object]:
    """After a restart any ballot is welcome (P1)."""
    original = Acceptor.__init__

    def mutated(self: Acceptor, outbox: Outbox, recovered: Recovered, first: Membership) -> None:
        original(self, outbox, recovered._replace(promised=NO_BALLOT), first)

    return mock.patch.object(Acceptor, "__init__", mutated)


def a_repeat_is_stored_again() -> AbstractContextManager[object]:
    """The receipts are lost: a repeated sequence counts as the next one (P2)."""
    original = Queue.append

    def mutated(self: Queue, append: Any, log_time_us: int, *more: Any) -> Any:
        session = self.sessions.get(append.session)
        if session is not None and append.seq == session.last_seq:
            append = append._replace(seq=session.last_seq + 1)
        return original(self, append, log_time_us, *more)

    return mock.patch.object(Queue, "append", mutated)


def a_gap_is_let_through() -> AbstractContextManager[object]:
    """A sequence that is not the next is stored all the same (P2)."""
    original = Queue.append

    def mutated(self: Queue, append: Any, log_time_us: int, *more: Any) -> Any:
        session = self.sessions.get(append.session)
        last = session.last_seq if session is not None else 0
        if append.seq > last + 1:
            if session is None:
                session = self.sessions[append.session] = Session()
            append = append._replace(seq=last + 1)
        return original(self, append, log_time_us, *more)

    return mock.patch.object(Queue, "append", mutated)


def a_hole_is_not_filled() -> AbstractContextManager[object]:
    """The new leader leaves instances open for which nobody reported a value (P1)."""
    original = Leader.open_next

    def mutated(self: Leader, led: Leadership, value: bytes, everywhere: bool) -> int:
        if value_head(value)[0] is ValueKind.NOOP:
            led.next_instance += 1
            return led.next_instance - 1
        return original(self, led, value, everywhere)

    return mock.patch.object(Leader, "open_next", mutated)


def an_accept_of_a_stale_ballot_is_taken() -> AbstractContextManager[object]:
    """The acceptor does not look at its promise (P2)."""
    original = Follower.on_accept

    def mutated(self: Follower, source: int, message: Accept) -> None:
        state, acceptor = self._state, self._state.acceptor
        promised = acceptor.promised
        if message.ballot < promised and state.leadership is None:
            held = acceptor.accepted.get(message.instance)
            if held is None or held[0] < message.ballot:
                acceptor.promised = message.ballot
                acceptor.accept(
                    message.instance, message.ballot, message.value, source, vote=state.voting
                )
                acceptor.promised = promised
                return
        original(self, source, message)

    return mock.patch.object(Follower, "on_accept", mutated)


def a_vote_counts_twice() -> AbstractContextManager[object]:
    """A vote that the network delivers again is taken for another node's (P1)."""
    original = Leader._count_vote

    def mutated(self: Leader, led: Leadership, instance: int, node: int) -> None:
        state = self._state
        entry = led.open.get(instance)
        again = entry is not None and node in entry.votes and node != state.me
        state.majority -= again
        try:
            original(self, led, instance, node)
        finally:
            state.majority = state.membership.majority

    return mock.patch.object(Leader, "_count_vote", mutated)


def votes_are_counted_across_ballots() -> AbstractContextManager[object]:
    """Count what a promise reports as accepted in an earlier ballot as a vote in this one (P1)."""
    original = Leader.lead

    def mutated(self: Leader) -> None:
        state = self._state
        standing = state.candidacy
        original(self)
        led = state.leadership
        assert standing is not None
        assert led is not None
        for instance in list(led.open):
            if instance in standing.reported:
                for node in standing.granted - {state.me}:
                    self._count_vote(led, instance, node)

    return mock.patch.object(Leader, "lead", mutated)


def chosen_is_believed_without_the_ballot() -> AbstractContextManager[object]:
    """A follower takes what it accepted in any ballot for the chosen value (P2)."""

    def mutated(self: Acceptor, ballot: int, upto: int) -> bool:
        while self.chosen < upto:
            if self.chosen not in self.accepted:
                return False
            self.mark_chosen(self.chosen)
        return True

    return mock.patch.object(Acceptor, "follow", mutated)


def log_time_follows_the_leaders_clock() -> AbstractContextManager[object]:
    """One bad clock moves every stamp (P2)."""

    def mutated(self: LogClock, now_us: int, max_age_us: int) -> int:
        return max(0, now_us + max(offset for offset, _ in self._offsets_us.values()))

    return mock.patch.object(LogClock, "median_us", mutated)


def values_are_applied_out_of_order() -> AbstractContextManager[object]:
    """Hand over two values chosen at once in the wrong order (P2)."""
    original = Replica.take

    def mutated(self: Replica) -> Any:
        effects = original(self)
        if len(effects.chosen) > 1:
            (first, a), (second, b), *rest = effects.chosen
            effects.chosen = [(first, b), (second, a), *rest]
        return effects

    return mock.patch.object(Replica, "take", mutated)


def a_read_is_not_confirmed() -> AbstractContextManager[object]:
    """A leader that was replaced without knowing it answers from its old state (P2)."""
    original = Leader._start_read_round

    def mutated(self: Leader, led: Leadership) -> None:
        state = self._state
        majority, state.majority = state.majority, 1
        try:
            original(self, led)
        finally:
            state.majority = majority

    return mock.patch.object(Leader, "_start_read_round", mutated)


def an_append_is_answered_when_proposed() -> AbstractContextManager[object]:
    """The answer does not wait for the log (P1)."""
    original = PendingCommands.proposed

    def mutated(self: PendingCommands, instance: int, commands: Any) -> None:
        original(self, instance, commands)
        for pending in commands:
            pending.reply.appended(0, 1, 1)

    return mock.patch.object(PendingCommands, "proposed", mutated)


def a_learned_value_replaces_nothing() -> AbstractContextManager[object]:
    """A node that learns keeps the other value it had accepted (P2)."""
    original = Acceptor.learn

    def mutated(self: Acceptor, instance: int, value: bytes) -> None:
        held = self.accepted.get(instance)
        original(self, instance, value if held is None else held[1])

    return mock.patch.object(Acceptor, "learn", mutated)


MUTATIONS: tuple[Mutation, ...] = (
    acceptor_forgets_a_promise,
    leader_commits_on_a_minority,
    accepted_is_sent_before_the_sync,
    promise_is_sent_before_the_sync,
    phase_1_ignores_reported_values,
    phase_1_picks_the_lower_ballot,
    restart_forgets_accepts,
    restart_forgets_the_promise,
    a_repeat_is_stored_again,
    a_gap_is_let_through,
    a_hole_is_not_filled,
    an_accept_of_a_stale_ballot_is_taken,
    a_vote_counts_twice,
    votes_are_counted_across_ballots,
    chosen_is_believed_without_the_ballot,
    log_time_follows_the_leaders_clock,
    values_are_applied_out_of_order,
    a_read_is_not_confirmed,
    an_append_is_answered_when_proposed,
    a_learned_value_replaces_nothing,
    *MUTATIONS_OF_MEMBERS,
)
