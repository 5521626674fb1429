"""Mutants of the subscribe forwarder: acks, flushes, takeovers, moves, order and leases."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "an ack is answered before its commit",
        (
            Edit(
                "subscribe_forwarder/api/acks.py",
                "        await forwarder.flusher.commit(touched, acked=new)\n"
                "        metrics.acked.inc(new)",
                "        import asyncio\n"
                "\n"
                "        asyncio.ensure_future(forwarder.flusher.commit(touched))\n"
                "        metrics.acked.inc(new)",
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_acks.py::test_an_answered_ack_is_committed",
    ),
    Mutant(
        "a flush that lost its epoch does not freeze the partition",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "                lost.add(tracked.partition)\n",
                "                pass\n",
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_nothing_is_handed_out_once_a_flush_found_its_epoch_lost",
    ),
    Mutant(
        "a flush whose outcome is unknown is tried again and freezes nothing",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "        except (OutcomeUnknown, TimeoutError):\n"
                "            return self._unknown(work)",
                "        except (OutcomeUnknown, TimeoutError):\n"
                '            return self._again(work, "unknown")',
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_an_unknown_commit_freezes_until_the_partition_is_claimed_again",
    ),
    Mutant(
        "a lease of an older epoch counts as the present one",
        (
            Edit(
                "subscribe_forwarder/api/items.py",
                "(grant.epoch_n, ledger.exact.turn(place.offset)) == (",
                "(place.epoch.n, ledger.exact.turn(place.offset)) == (",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_acks.py"
        "::test_the_same_attempt_under_another_owner_is_not_the_present_lease",
    ),
    Mutant(
        "a parked key is not parked after a takeover",
        (
            Edit(
                "subscribe_forwarder/delivery/key_sequencer.py",
                "            if row.reason is Reason.PARKED:\n"
                "                self.order.park(key)\n"
                "            elif",
                "            if row.reason is Reason.PARKED:\n"
                "                pass\n"
                "            elif",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_a_parked_head_is_skipped_and_the_next_goes_out_also_after_a_takeover",
    ),
    Mutant(
        "messages behind a settled parked key are not resumed after a takeover",
        (
            Edit(
                "subscribe_forwarder/delivery/key_sequencer.py",
                "                self._ledger.resume(offset)\n        self._keys.clear()",
                "                pass\n        self._keys.clear()",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_an_ack_of_a_resumed_head_that_comes_first_after_a_takeover_leaves_nothing_parked[False]",
    ),
    Mutant(
        "a repeated exactly-once ack under the lease of another epoch counts",
        (
            Edit(
                "subscribe_forwarder/delivery/state/held_leases.py",
                "record.turn == turn and record.epoch == epoch and offset in",
                "record.turn == turn and offset in",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_held_leases.py"
        "::test_a_repeat_is_known_while_the_lease_lives_and_after",
    ),
    Mutant(
        "leases of another generation are taken over",
        (
            Edit(
                "subscribe_forwarder/delivery/handover.py",
                "list(heard.leases.values()) if heard.generation == generation else ()",
                "list(heard.leases.values())",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_handover.py"
        "::test_what_is_kept_is_bounded_and_forgotten",
    ),
    Mutant(
        "a note of an older owner overwrites the note of a newer one",
        (
            Edit(
                "subscribe_forwarder/delivery/handover.py",
                "            if known.age > heard.age:\n                return\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_handover.py"
        "::test_the_word_of_the_last_owner_counts",
    ),
    Mutant(
        "rows from before a move count",
        (
            Edit(
                "subscribe_forwarder/delivery/moves.py",
                "        return generation < known and era <= known >> ERA_SHIFT",
                "        return False",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_moved_while_loading.py"
        "::test_a_row_that_was_loaded_before_the_move",
    ),
    Mutant(
        "a move that Postgres lost counts as known",
        (
            Edit(
                "subscribe_forwarder/delivery/moves.py",
                "        return generation < known and era <= known >> ERA_SHIFT",
                "        return generation < known",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_moved_while_loading.py"
        "::test_a_move_that_postgres_lost_is_none",
    ),
    Mutant(
        "memory is kept over a claim although the row has more",
        (
            Edit(
                "subscribe_forwarder/delivery/state/cursor.py",
                "            self.generation == row.generation\n"
                "            and self.start == row.start\n",
                "            True\n"
                "            or self.generation == row.generation\n"
                "            and self.start == row.start\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_cursor.py"
        "::test_another_generation_is_not_covered",
    ),
    Mutant(
        "memory is kept over a claim although the row has more acked ranges",
        (
            Edit(
                "subscribe_forwarder/delivery/state/cursor.py",
                "and all(self.gap_at(low, high)[0] >= high for low, high in row.acked)",
                "",
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_cursor.py"
        "::test_a_row_with_more_acked_is_not_covered",
    ),
    Mutant(
        "committed cursors of another generation lift a growth barrier",
        (
            Edit(
                "subscribe_forwarder/delivery/growth.py",
                "        if row is None or row.generation != reader.cursor.generation:",
                "        if row is None:",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_growth_elsewhere.py"
        "::test_a_committed_cursor_of_before_a_seek_lifts_no_barrier",
    ),
    Mutant(
        "messages that another lane stepped over do not hold a growth barrier",
        (
            Edit(
                "subscribe_forwarder/delivery/growth.py",
                " and all(one.offset >= end for one in row.stepped_over)",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_fleet_growth.py"
        "::test_what_another_forwarder_has_stepped_over_holds_up_what_is_new_in_order",
    ),
    Mutant(
        "a claimed partition that the cached topic does not have is given back",
        (
            Edit(
                "subscribe_forwarder/delivery/partitions.py",
                "        if key.partition >= topic.partition_count:\n",
                "        if False:\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_fleet_growth.py"
        "::test_a_forwarder_that_has_not_heard_of_a_growth_opens_what_it_claims_at_once",
    ),
    Mutant(
        "memory from before the claim of another owner is kept",
        (
            Edit(
                "subscribe_forwarder/delivery/owner.py",
                "        unbroken = claim.previous == self._epoch\n",
                "        unbroken = True\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_another_owner_in_between_means_reading_the_rows_again",
    ),
    Mutant(
        "a failed message goes out again before its attempt is committed",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "        self._open.put(row)\n"
                "        self.exact.failed(row.offset, self._now.us)\n"
                "        self.cursor.touch()",
                "        self._open.put(row)\n"
                "        self.exact.failed(row.offset, self._now.us)\n"
                "        self.cursor.touch()\n"
                "        self._let_go(row)",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_further_failure_in_a_flush_that_never_was_is_not_taken_for_durable",
    ),
    Mutant(
        "a dead letter of a replaced ledger is settled in it",
        (
            Edit(
                "subscribe_forwarder/delivery/dead_letter_writer.py",
                "            if pending.stale:\n                continue  # its next",
                "            if False:\n                continue  # its next",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_dead_letter_writer.py"
        "::test_a_reader_that_changed_hands_is_not_touched",
    ),
    Mutant(
        "a call that fails here is made again at the owners",
        (
            Edit(
                "subscribe_forwarder/fleet/proxy/routing.py",
                "            if not is_misdirected(problem):\n",
                "            if False:\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_pull_proxy.py"
        "::test_a_failure_here_is_the_answer_and_no_reason_to_ask_the_owners",
    ),
    Mutant(
        "a pull does not look at the lease after its commit",
        (
            Edit(
                "subscribe_forwarder/api/pulls.py",
                "await to_send(delivery, guarantee, forwarder.flusher, encoding)\n"
                "            forwarder.require_lease()\n",
                "await to_send(delivery, guarantee, forwarder.flusher, encoding)\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_the_lease_is_checked_again_before_the_response_leaves",
    ),
    Mutant(
        "an at-most-once message leaves before its ack is committed",
        (
            Edit(
                "subscribe_forwarder/delivery/sending.py",
                '    if guarantee != "at_least_once":\n',
                '    if guarantee == "exactly_once":\n',
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_sending.py"
        "::test_at_most_once_is_acked_before_it_leaves",
    ),
    Mutant(
        "an exactly-once message leaves before its lease is committed",
        (
            Edit(
                "subscribe_forwarder/delivery/sending.py",
                '    if guarantee != "at_least_once":\n',
                '    if guarantee == "at_most_once":\n',
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_sending.py"
        "::test_exactly_once_leases_are_committed_before_they_leave",
    ),
    Mutant(
        "the name of a dead letter has no generation",
        (
            Edit(
                "subscribe_forwarder/delivery/dead_letter_writer.py",
                "        key.subscription_uid, place.generation, key.partition",
                "        key.subscription_uid, 0, key.partition",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_dead_letter_writer.py"
        "::test_what_is_rejected_again_after_a_seek_is_another_dead_letter",
    ),
    Mutant(
        "an ack that publishes does not look at the generation after staging",
        (
            Edit(
                "subscribe_forwarder/delivery/publishing.py",
                "            if reader.frozen or reader.cursor.generation != generation:\n",
                "            if False:\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_publishing.py"
        "::test_nothing_is_acked_of_a_subscription_that_was_moved_meanwhile",
    ),
    Mutant(
        "a resync goes on although an ack that publishes is not committed",
        (
            Edit(
                "subscribe_forwarder/delivery/state/flushes.py",
                "            self.publications\n            or not self._cursor.ordered",
                "            not self._cursor.ordered",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_memory_with_an_ack_that_publishes_is_not_kept_over_a_claim",
    ),
    Mutant(
        "rows that a flush had no room for count as written",
        (
            Edit(
                "subscribe_forwarder/delivery/state/flushes.py",
                "cursor.flushed_version if self._open.new else cursor.version",
                "cursor.version",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_commit_waits_for_as_many_flushes_as_it_takes",
    ),
    Mutant(
        "a cursor that was replaced during its flush counts as committed",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "if cursor.key in failed or tracked.cursor is not cursor:",
                "if cursor.key in failed and tracked.cursor is cursor:",
            ),
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "for one in wanted if one[1].flushed_version < one[2]]",
                "for one in wanted if one[1].flushed_version < one[2] and one[0].cursor is one[1]]",
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_an_ack_that_was_not_written_and_whose_cursor_was_replaced_is_not_answered",
    ),
    Mutant(
        "a nack frees the key of an ordered message",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "        self._failed(offset, grant.leased_us, delay_ms, detail)\n"
                "        return True",
                "        self._failed(offset, grant.leased_us, delay_ms, detail)\n"
                "        if self.on_settled is not None:\n"
                "            self.on_settled((offset,))\n"
                "        return True",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_a_redelivery_blocks_its_key_only",
    ),
    Mutant(
        "a lease that expires frees the key of an ordered message",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "            self._failed(offset, grant.leased_us, None, None)\n"
                "        self.pending_dead_letters.tell",
                "            self._failed(offset, grant.leased_us, None, None)\n"
                "            if self.on_settled is not None:\n"
                "                self.on_settled((offset,))\n"
                "        self.pending_dead_letters.tell",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_what_is_released_or_expired_keeps_its_turn",
    ),
    Mutant(
        "a lease of a settled offset is handed over",
        (
            Edit(
                "subscribe_forwarder/delivery/state/inherited.py",
                "self._cursor.read_to and not self._cursor.is_passed(offset)",
                "self._cursor.read_to",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_handed_lease_of_a_settled_message_is_not_handed_on",
    ),
    Mutant(
        "an exactly-once ack is taken under any lease",
        (
            Edit(
                "subscribe_forwarder/api/acks.py",
                "            if exactly_once:\n                new += reader.acked(self._held(",
                "            if False:\n                new += reader.acked(self._held(",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/subscribe_forwarder/test_exactly_once.py"
        "::test_only_the_present_lease_acks_and_may_repeat_it",
    ),
    Mutant(
        "an ack of a push whose ledger was replaced is dropped",
        (
            Edit(
                "subscribe_forwarder/push/outcome_commits.py",
                '        self._pass_on("ack", [item for item in items if not self.current(item)])',
                "        pass",
            ),
        ),
        breaks="P4",
        killed_by="tests/unit/subscribe_forwarder/test_push_outcome_commits.py"
        "::test_an_ack_of_a_ledger_that_was_replaced_during_its_commit_is_passed_on",
    ),
    Mutant(
        "the last announcement of a unit counts and not the highest epoch",
        (
            Edit(
                "subscribe_forwarder/fleet/directory.py",
                "            if known is None or known.epoch < one.epoch or known.owner == peer:",
                "            if True:",
            ),
        ),
        breaks="P6",
        killed_by="tests/unit/subscribe_forwarder/test_directory.py"
        "::test_the_higher_epoch_is_right_whatever_came_first",
    ),
    Mutant(
        "a reading of a topic that is made forgets who owns it",
        (
            Edit(
                "subscribe_forwarder/delivery/following.py",
                "        except NotYet:\n            return\n",
                "",
            ),
            Edit("subscribe_forwarder/delivery/following.py", "NotFound, NotYet", "NotFound"),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_following.py"
        "::test_an_owner_is_known_however_late_a_reading_of_a_topic_that_is_made_comes",
        breaks="P3",
    ),
    Mutant(
        "all answers of replays are put together at once",
        (
            Edit(
                "subscribe_forwarder/api/replay.py",
                "async with self._replays.answers.permit(tenant_id):\n",
                "if True:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_few_answers_are_in_memory_at_a_time",
        breaks="P19",
    ),
    Mutant(
        "a tenant puts together as many whole answers as all together may",
        (
            Edit(
                "subscribe_forwarder/delivery/reading/replay.py",
                "FairSemaphore(Shares(MAX_ANSWERS), ",
                "FairSemaphore(Shares(MAX_ANSWERS, 1), ",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_few_answers_are_in_memory_at_a_time",
        breaks="P19",
    ),
    Mutant(
        "a replay that waits for its first message keeps others from putting answers together",
        (
            Edit(
                "subscribe_forwarder/delivery/reading/replay.py",
                "while offset < self.bounds.end and (end is None or offset < end):",
                "while (end is None or offset < end) and await self.reaches(offset, 60.0):",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_a_replay_that_waits_for_messages_holds_up_no_other",
        fails_with="TimeoutError",
        breaks="P19",
    ),
    Mutant(
        "a stream keeps the rest of a fetch, whatever others keep",
        (
            Edit(
                "subscribe_forwarder/api/replay.py",
                "while refused is None and found and not taker.done:",
                "while found and not taker.done:",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_streams_that_nobody_reads_hold_the_part_that_is_to_be_taken",
        breaks="P19",
    ),
    Mutant(
        "a stream keeps what it fetched while its client takes the last part",
        (Edit("subscribe_forwarder/api/replay.py", "        del found\n", ""),),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_streams_that_nobody_reads_hold_the_part_that_is_to_be_taken",
        breaks="P19",
    ),
    Mutant(
        "the streams of a tenant keep as much as all together may",
        (
            Edit(
                "subscribe_forwarder/delivery/reading/replay.py",
                'Shares(KEPT_BYTES, name="replay_bytes")',
                'Shares(KEPT_BYTES, 1, name="replay_bytes")',
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_streams_that_nobody_reads_keep_no_more_than_all_may",
        breaks="P19",
    ),
    Mutant(
        "a stream waits for its client with a permit that others need",
        (
            Edit(
                "subscribe_forwarder/api/replay.py",
                "        del found\n        await self._write(part)\n",
                "        del found\n        async with permits.permit(self._tenant_id):\n"
                "            await self._write(part)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py"
        "::test_a_stream_that_nobody_reads_holds_up_no_other",
        fails_with="TimeoutError",
        breaks="P19",
    ),
    Mutant(
        "a whole answer is joined from its messages",
        (
            Edit(
                "subscribe_forwarder/api/replay.py",
                '            self._body += b",".join(messages)\n',
                '            self._body = bytearray(bytes(self._body) + b",".join(messages))\n',
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_replay.py::test_an_answer_is_in_memory_once",
        breaks="P19",
    ),
)
