"""Mutants of the consensus core: promises, votes, leaders, memberships, log time."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "an accept that is found again binds nothing",
        (
            Edit(
                "store_nodes/node/start.py",
                "                if not learned:\n"
                "                    self.promised = max(self.promised, record.ballot)\n",
                "",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_an_accept_that_is_found_again_binds_as_the_promise_that_it_was",
        breaks="P1",
        trips="above the promise",
    ),
    Mutant(
        "what the state has is accepted once more",
        (
            Edit(
                "store_nodes/node/start.py",
                "if record.instance >= self.machine.applied:",
                "if True:",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_what_the_state_has_is_not_found_again",
        breaks="P1",
        trips="below the state",
    ),
    Mutant(
        "one ballot is promised twice",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            message.ballot <= acceptor.promised\n            or message.start",
                "            message.ballot < acceptor.promised\n            or message.start",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_second_prepare_in_a_ballot_gets_no_second_promise",
        breaks="P2",
        trips="promised after",
    ),
    Mutant(
        "a node votes below its promise",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "if ballot < state.acceptor.promised:",
                "if False:",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_an_accept_below_the_promise_is_refused",
        breaks="P2",
        trips="accepted after",
    ),
    Mutant(
        "a value known to be chosen is replaced above the prefix",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "if instance < self.chosen or (held is not None and held[0] == CHOSEN "
                "and held[1] != value):",
                "if instance < self.chosen:",
            ),
        ),
        killed_by="tests/unit/consensus/test_found_by_simulation.py"
        "::test_a_late_proposal_of_another_value_is_refused_there",
        breaks="P2",
        trips="goes back from ballot",
    ),
    Mutant(
        "what was learned is learned again as the next instance",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            if instance == acceptor.chosen:\n                self._learn(value)",
                "            if instance <= acceptor.chosen:\n                self._learn(value)",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_what_is_told_again_as_chosen_is_passed_over",
        breaks="P2",
    ),
    Mutant(
        "a heartbeat makes chosen what is not held",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "if held is None or held[0] != ballot:",
                "if held is not None and held[0] != ballot:",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_what_is_chosen_and_was_never_sent_here_is_asked_for",
        breaks="P1",
        trips="chosen and not held",
    ),
    Mutant(
        "a follower takes what any ballot says for chosen",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "if held is None or held[0] != ballot:",
                "if held is None:",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_follower_takes_only_its_leaders_ballot_for_chosen",
        breaks="P2",
    ),
    Mutant(
        "an instance is passed over as values are delivered",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "            self.delivered = instance + 1\n",
                "            self.delivered = instance + 2\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_the_preferred_node_is_elected_and_values_are_chosen_everywhere",
        breaks="P2",
        trips="delivered",
    ),
    Mutant(
        "a change of membership governs one instance too late",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "self.member_since = instance + 1",
                "self.member_since = instance + 2",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_change_is_marked_on_disk_at_once",
        breaks="P2",
        trips="governs",
    ),
    Mutant(
        "a node reports less than it promises to report",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            or message.start < acceptor.floor\n"
                "            or not self._may_lead(source, message.start)",
                "            or not self._may_lead(source, message.start)",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_node_promises_nothing_that_it_cannot_report_from_memory",
        breaks="P1",
        trips="memory begins at",
    ),
    Mutant(
        "promises count before our own is durable",
        (
            Edit(
                "store_nodes/consensus/candidate.py",
                "            or standing.stage is not Stage.PREPARING\n"
                "            or standing.ballot",
                "            or standing.ballot",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_promises_count_once_our_own_is_durable",
        breaks="P2",
        trips="a promise counted while",
    ),
    Mutant(
        "a promise counts of a node that is no voter",
        (
            Edit(
                "store_nodes/consensus/candidate.py",
                "            or source not in state.voter_set\n        ):\n"
                "            return False\n        standing.add_promise(",
                "        ):\n            return False\n        standing.add_promise(",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_promise_of_a_node_that_is_no_voter_makes_no_leader",
        breaks="P2",
        trips="who are no voters",
    ),
    Mutant(
        "a promise leaves before its record is durable",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "state.outbox.send_after(number, source, promise)",
                "state.outbox.send(source, promise)",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_promise_leaves_only_after_its_record_is_durable",
        breaks="P1",
    ),
    Mutant(
        "a candidate asks before its own promise is durable",
        (
            Edit(
                "store_nodes/consensus/candidate.py",
                "standing.promise_number = state.acceptor.promise(standing.ballot)",
                "standing.promise_number = state.acceptor.promise(standing.ballot)\n"
                "        self._prepare(standing)",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_candidate_prepares_only_after_its_own_promise_is_durable",
        breaks="P2",
    ),
    Mutant(
        "a leader without a quorum leads on until its next heartbeat",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "return min(due_us, self._leader.due_us(led))",
                "return due_us",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_leader_alone_is_due_when_its_quorum_is_lost",
        breaks="P5",
    ),
    Mutant(
        "a leader needs no tick while reads send its heartbeats",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "            due_us = state.next_beat_us(self._ticked_us, "
                "idle=self._leader.is_idle(led))\n",
                "            due_us = led.next_heartbeat_us\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_found_by_simulation.py"
        "::test_a_leader_whose_heartbeats_reads_send_is_due_all_the_same",
        breaks="P5",
    ),
    Mutant(
        "a leader that was idle sends the heartbeat after a value as late as before",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        self._beat_soon(led)\n        led.open_bytes",
                "        led.open_bytes",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_heartbeats_come_at_the_usual_pace_until_all_members_are_level",
        breaks="P5",
    ),
    Mutant(
        "no tick comes for a leader that waits for votes",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "                due_us = min(due_us, entry.sent_us + timing.resend_us)\n",
                "                continue\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_leader_is_due_when_it_sends_an_open_instance_again",
        breaks="P5",
    ),
    Mutant(
        "no tick comes for a leader whose disk is stuck",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "return min(due_us, self._handover.stuck_us(led)) if led",
                "return due_us if led",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_leader_is_due_when_its_disk_is_stuck",
        breaks="P5",
    ),
    Mutant(
        "a follower stands at a heartbeat, however late that is",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "        return min(due_us, state.election_us)\n",
                "        return due_us\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py::test_a_follower_is_due_when_it_stands",
        breaks="P5",
    ),
    Mutant(
        "a follower that hears of its leader never looks at its clock",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "        due_us = next_multiple(self._ticked_us, state.timing.look_us)\n",
                "        due_us = state.election_us\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_follower_looks_at_its_clock_however_often_it_hears_of_a_leader",
        breaks="P5",
    ),
    Mutant(
        "a node forgets when the groups that it did not tick are due",
        (
            Edit(
                "store_nodes/node/node.py",
                "                first_us = min(first_us, group.next_tick_us)\n",
                "                pass\n",
            ),
        ),
        killed_by="tests/unit/store_node/test_ticks.py"
        "::test_the_next_tick_comes_when_another_group_is_due",
        breaks="P5",
    ),
    Mutant(
        "a group with news shortly before a tick waits as long as before them",
        (
            Edit(
                "store_nodes/node/node.py",
                "group.next_tick_us = 0 if soon else group.due_us",
                "group.next_tick_us = group.next_tick_us if soon else group.due_us",
            ),
        ),
        killed_by="tests/unit/store_node/test_ticks.py"
        "::test_the_soonest_tick_that_there_may_be_looks_at_every_group_with_news",
        breaks="P5",
    ),
    Mutant(
        "an idle client judges a silent node when it pings the others",
        (
            Edit(
                "store_nodes/client/link.py",
                "            return min(next_s, self._pinged_at_s + judged_s)\n",
                "            return next_s\n",
            ),
        ),
        killed_by="tests/unit/store_client/test_sweeps.py"
        "::test_a_silent_node_is_pinged_judged_and_dropped_in_time_by_an_idle_client",
        breaks="P5",
    ),
    Mutant(
        "a client that was idle sweeps a busy appender late",
        (
            Edit(
                "store_nodes/client/connections.py",
                "        if not self._busy:\n            self._sweep_soon()\n",
                "",
            ),
        ),
        killed_by="tests/unit/store_client/test_sweeps.py"
        "::test_an_idle_client_sweeps_an_appender_as_soon_as_a_busy_one",
        breaks="P5",
    ),
    Mutant(
        "a leader counts its own vote before it is durable",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        acceptor.accept(instance, led.ballot, value, state.me, vote=True)\n",
                "        acceptor.accept(instance, led.ballot, value, state.me, vote=True)\n"
                "        self._count_vote(led, instance, state.me)\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_the_leaders_own_vote_counts_only_when_durable",
        breaks="P1",
    ),
    Mutant(
        "a leader stores another value than it sends",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        acceptor.accept(instance, led.ballot, value, state.me, vote=True)\n",
                "        acceptor.accept(instance, led.ballot, value + bytes(1), "
                "state.me, vote=True)\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_the_preferred_node_is_elected_and_values_are_chosen_everywhere",
        breaks="P2",
        trips="another value is held",
    ),
    Mutant(
        "other work is proposed beside a change of membership",
        (
            Edit(
                "store_nodes/consensus/state.py",
                "            and led.change_at < self.acceptor.chosen\n",
                "",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_nothing_is_proposed_beside_a_change_of_membership",
        breaks="P2",
        trips="beside the change",
    ),
    Mutant(
        "phase 1 takes the value of the lowest ballot",
        (
            Edit(
                "store_nodes/consensus/state.py",
                "if held is None or ballot > held[0]:",
                "if held is None or ballot < held[0]:",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_leader_says_chosen_of_nothing_but_what_it_proposed",
        breaks="P1",
    ),
    Mutant(
        "a node that may not vote stands",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "            if state.eligible:\n"
                "                self._candidate.stand(Stage.PRE_VOTE)",
                "            if True:\n                self._candidate.stand(Stage.PRE_VOTE)",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_node_that_may_not_vote_stores_and_says_nothing",
        breaks="P1",
        trips="no voter that may vote",
    ),
    Mutant(
        "a node stands below a ballot that it promised",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "        state.round_seen = max(state.round_seen, "
                "ballots.round_of(message.ballot))\n"
                "        if not state.voting:",
                "        if not state.voting:",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_node_stands_in_a_ballot_above_all_that_it_promised",
        breaks="P2",
        trips="promised already",
    ),
    Mutant(
        "a candidate that promised another ballot leads in its own",
        (
            Edit(
                "store_nodes/consensus/state.py",
                "        self.candidacy = None\n        self.set_leader(leader)\n",
                "        self.set_leader(leader)\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_candidate_that_promised_another_leads_in_its_own_ballot_no_more",
        breaks="P2",
        trips="is promised",
    ),
    Mutant(
        "votes of an older ballot count",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        if led is None or message.ballot != led.ballot:\n"
                "            return\n"
                "        led.heard_us[source] = self._state.now_us\n"
                "        for instance",
                "        if led is None:\n"
                "            return\n"
                "        led.heard_us[source] = self._state.now_us\n"
                "        for instance",
            ),
        ),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_vote_of_an_older_ballot_does_not_count",
        breaks="P1",
    ),
    Mutant(
        "a step leaves voters without what is chosen",
        (
            Edit(
                "store_nodes/consensus/reconfiguration.py",
                "if self.can_reconfigure and self._is_held(led, after):",
                "if self.can_reconfigure:",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_step_waits_until_those_who_stay_hold_what_is_chosen",
        breaks="P1",
        trips="leaves voters without what is chosen",
    ),
    Mutant(
        "a leader that was replaced leads on under the membership that it learns",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            if entry is None or entry.value != value:\n",
                "            if entry is None:\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_leader_that_learns_of_a_change_it_did_not_propose_leads_no_more",
        breaks="P2",
        trips="are open under two memberships",
    ),
    Mutant(
        "a follower keeps the membership before a change that is chosen",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            state.ask_to_learn(source)\n        state.adopt_membership()\n",
                "            state.ask_to_learn(source)\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_node_becomes_learner_then_voter_then_is_removed",
        breaks="P1",
        trips="was chosen and not adopted",
    ),
    Mutant(
        "a second step comes before the first is confirmed",
        (
            Edit(
                "store_nodes/consensus/reconfiguration.py",
                "            and led.confirm_at < state.acceptor.chosen\n",
                "",
            ),
        ),
        equivalent="The confirming instance is open until it is chosen; a step waits for that.",
        breaks="P2",
    ),
    Mutant(
        "an old demotion sets a damaged node free",
        (
            Edit(
                "store_nodes/consensus/reconfiguration.py",
                "            and mine.labels.get(REPAIR) == str(state.repair_token)\n",
                "",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_an_old_demotion_does_not_set_a_damaged_node_free",
        breaks="P1",
    ),
    Mutant(
        "a zone gets a majority of the voters without a word",
        (
            Edit(
                "store_nodes/consensus/reconfiguration.py",
                "if crowded is not None and state.membership.crowded_zone() is None and "
                "not repairs:",
                "if False:",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_step_that_crowds_a_zone_is_refused",
        breaks="P5",
    ),
    Mutant(
        "accepts of a log that may have lost some are believed",
        (
            Edit(
                "store_nodes/consensus/acceptor.py",
                "for i, held in (self.accepted or {}).items() if held[0] == CHOSEN}",
                "for i, held in (self.accepted or {}).items()}",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_what_may_have_lost_votes_trusts_no_accept_and_no_mark",
        breaks="P1",
    ),
    Mutant(
        "one peer's digest halts a node",
        (
            Edit(
                "store_nodes/consensus/digests.py",
                "and others >= self._majority",
                "and others >= 1",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_replica_halts_on_a_majoritys_other_digest_but_never_on_one_peers_word",
        breaks="P5",
    ),
    Mutant(
        "a majority's other digest halts nobody",
        (
            Edit(
                "store_nodes/consensus/digests.py",
                "and others >= self._majority",
                "and others > len(self._voters)",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_replica_halts_on_a_majoritys_other_digest_but_never_on_one_peers_word",
        breaks="P2",
    ),
    Mutant(
        "log time follows the clock that is furthest ahead",
        (
            Edit(
                "store_nodes/consensus/log_time.py",
                "offsets[(len(offsets) - 1) // 2]",
                "offsets[-1]",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py::test_log_time_is_the_median_of_the_clocks",
        breaks="P2",
    ),
    Mutant(
        "one clock of three is the time",
        (
            Edit(
                "store_nodes/consensus/log_time.py",
                "        if len(offsets) < self._majority:\n",
                "        if not offsets:\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_found_by_simulation.py"
        "::test_one_clock_is_not_the_time",
        breaks="P2",
    ),
    Mutant(
        "a leader that hears nobody leads on",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        if len(heard) < state.majority:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_check_quorum_makes_an_isolated_leader_step_down",
        breaks="P5",
    ),
    Mutant(
        "a pre-vote is granted beside a live leader",
        (Edit("store_nodes/consensus/follower.py", "            and not leader_alive\n", ""),),
        killed_by="tests/unit/consensus/test_invariants.py"
        "::test_a_pre_vote_is_denied_while_a_leader_is_heard_of",
        breaks="P5",
    ),
    Mutant(
        "a read is answered before a quorum confirmed it",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        if len(round_.confirmed & self._state.voter_set) < "
                "self._state.majority:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py::test_a_read_barrier_waits_for_a_quorum",
        breaks="P2",
    ),
    Mutant(
        "who cannot learn asks for no checkpoint",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "        if message.oldest > state.acceptor.chosen:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_what_nobody_can_send_any_more_needs_a_checkpoint",
        breaks="P5",
    ),
    Mutant(
        "a leader keeps its group however slow its disk is",
        (
            Edit(
                "store_nodes/consensus/handover.py",
                "if (stuck or led.late_in_a_row >= LATE_IN_A_ROW) and not state.slow:",
                "if False:",
            ),
        ),
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_leader_with_a_slow_disk_hands_over",
        breaks="P5",
    ),
    Mutant(
        "messages leave one record too early",
        (
            Edit(
                "store_nodes/consensus/replica.py",
                "        state.outbox.release(upto)\n",
                "        state.outbox.release(upto + 1)\n",
            ),
        ),
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_the_preferred_node_is_elected_and_values_are_chosen_everywhere",
        breaks="P1",
        trips="is the last",
    ),
)
