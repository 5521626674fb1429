"""Mutants of the state of a subscription: leases, open deliveries, order of keys, pushing."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a cursor that contradicts itself keeps the leases of the others",
        (
            Edit(
                "subscribe_forwarder/delivery/reconciler.py",
                "                except (CursorDamaged, AssertionError) as error:\n"
                '                    self._flusher.set_aside(reader, error, "damaged")\n',
                "                except (CursorDamaged, AssertionError) as error:\n"
                '                    self._flusher.set_aside(reader, error, "damaged")\n'
                "                    return\n",
            ),
        ),
        breaks="P6",
        killed_by="tests/unit/subscribe_forwarder/test_reconciler.py"
        "::test_a_cursor_that_contradicts_itself_does_not_keep_the_leases_of_others",
    ),
    Mutant(
        "a takeover does not read a failed message whose row lacks its key",
        (
            Edit(
                "subscribe_forwarder/delivery/key_sequencer.py",
                "for row in ledger.exceptions.values() if row.key_hash is None]",
                "for row in ledger.exceptions.values() if not row.attempts and not row.key_hash]",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_after_a_takeover_a_failed_message_without_its_key_is_not_overtaken",
    ),
    Mutant(
        "a message of a handed lease fails without its key",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "if row.key_hash is None else row",
                "if offset not in self._open.rows else row",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_message_of_a_handed_lease_fails_with_its_key",
    ),
    Mutant(
        "who closes the flusher flushes beside its loop",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "        self._closing = True\n        self._wake.set()\n",
                "        self._closing = True\n        await self._round()\n"
                "        self._wake.set()\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_flush_pace.py"
        "::test_a_flush_that_is_under_way_ends_before_the_flusher_is_closed",
        breaks="P3",
        trips="two flushes at once",
    ),
    Mutant(
        "the last outputs of an ack are not staged",
        (Edit("appending/chunks.py", "    if chunk:\n        yield chunk\n", ""),),
        killed_by="tests/unit/subscribe_forwarder/test_publishing.py"
        "::test_every_output_of_an_ack_is_staged",
        breaks="P3",
        trips="0 of 1 outputs are staged",
    ),
    Mutant(
        "an open delivery is stepped over twice",
        (
            Edit(
                "subscribe_forwarder/delivery/state/exceptions.py",
                "        if row.offset not in self._rows:\n",
                "        if True:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_further_failure_in_a_flush_that_never_was_is_not_taken_for_durable",
        breaks="P9",
        trips="was passed before",
    ),
    Mutant(
        "what was never stepped over is closed",
        (
            Edit(
                "subscribe_forwarder/delivery/state/exceptions.py",
                "            del self._new[offset]\n            return False\n",
                "            del self._new[offset]\n            return True\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_what_was_settled_before_its_flush_never_had_a_row",
        breaks="P9",
        trips="nothing is stepped over",
    ),
    Mutant(
        "a cursor that contradicts itself is written",
        (
            Edit(
                "subscribe_forwarder/delivery/state/cursor.py",
                "        if not self.ordered:\n            raise CursorDamaged(\n",
                "        if False:\n            raise CursorDamaged(\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_cursor_that_contradicts_itself_is_set_aside_alone_and_read_anew",
        breaks="P9",
    ),
    Mutant(
        "memory that contradicts itself is gone on with",
        (
            Edit(
                "subscribe_forwarder/delivery/state/flushes.py",
                "            or not self._cursor.ordered\n",
                "",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_memory_that_contradicts_itself_is_not_gone_on_with",
        breaks="P9",
    ),
    Mutant(
        "a message is leased that waits still",
        (
            Edit(
                "subscribe_forwarder/delivery/state/leases.py",
                "        offset = heappop(self._ready)\n        del self._waiting[offset]\n",
                "        offset = heappop(self._ready)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_leases.py"
        "::test_what_is_given_back_is_leased_again",
        breaks="P3",
        trips="leased while it waits",
    ),
    Mutant(
        "what is given back stays leased",
        (
            Edit(
                "subscribe_forwarder/delivery/state/leases.py",
                '        """Make an offset ready again at once; return False if it is '
                'not leased."""\n'
                "        grant = self._leased.pop(offset, None)\n",
                '        """Make an offset ready again at once; return False if it is '
                'not leased."""\n'
                "        grant = self._leased.get(offset, None)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_leases.py"
        "::test_what_is_given_back_is_leased_again",
        breaks="P3",
        trips="leased twice",
    ),
    Mutant(
        "an exactly-once lease that was dropped holds on",
        (
            Edit(
                "subscribe_forwarder/delivery/state/held_leases.py",
                '        """Note that the lease of an offset ended without an ack."""\n'
                "        held = self._of.pop(offset, None)\n",
                '        """Note that the lease of an offset ended without an ack."""\n'
                "        held = self._of.get(offset, None)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_held_leases.py"
        "::test_what_is_given_back_is_held_again_under_another_turn",
        breaks="P3",
        trips="held twice",
    ),
    Mutant(
        "a message is let go whose row changed since its flush began",
        (
            Edit(
                "subscribe_forwarder/delivery/state/exceptions.py",
                "            if self._unsaved.get(row.offset) is row:\n",
                "            if row.offset in self._unsaved:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_what_changed_while_its_flush_was_under_way_travels_again",
        breaks="P3",
        trips="let go before its row is committed",
    ),
    Mutant(
        "a message is buried that may still be delivered",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "        if row is None or row.reason in (Reason.HOLE, Reason.FAILED):\n",
                "        if row is None:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_nothing_is_buried_that_may_still_be_delivered",
        breaks="P3",
    ),
    Mutant(
        "a key is freed by an ack that is not committed",
        (
            Edit(
                "subscribe_forwarder/delivery/state/ledger.py",
                "            self.on_settling(fresh)\n",
                "            self.on_settling(fresh)\n"
                "            if self.on_settled is not None:\n"
                "                self.on_settled(fresh)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_a_later_message_of_a_key_is_not_out_before_the_ack_of_the_earlier_is_committed",
        breaks="P3",
    ),
    Mutant(
        "a growth is passed by acks that are not committed",
        (
            Edit(
                "subscribe_forwarder/delivery/reader.py",
                "        return self.ledger.committed_to(end)\n",
                "        return self.ledger.settled_to(end)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_a_growth_is_passed_once_what_is_older_is_committed",
        breaks="P3",
    ),
    Mutant(
        "an ack of what was not read holds up nothing",
        (
            Edit(
                "subscribe_forwarder/delivery/key_sequencer.py",
                "        return min(self._unread, default=None)\n",
                "        return None\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_an_ack_that_comes_first_after_a_takeover_frees_its_key_with_its_commit",
        breaks="P3",
    ),
    Mutant(
        "a reader goes on beyond the barrier of a growth",
        (
            Edit(
                "subscribe_forwarder/delivery/reader.py",
                "        if self.limit is not None and end > self.limit:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_generations.py"
        "::test_after_a_growth_nothing_new_of_a_key_overtakes_what_is_older",
        breaks="P3",
        trips="beyond the barrier",
    ),
    Mutant(
        "a later message of a key goes out beside the earlier",
        (
            Edit(
                "subscribe_forwarder/delivery/state/order.py",
                "        return Verdict.HOLD\n",
                "        return Verdict.GO\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_of_a_key_one_message_is_out_and_keys_go_side_by_side",
        breaks="P3",
    ),
    Mutant(
        "a lane that is passed over earns no turn",
        (
            Edit(
                "subscribe_forwarder/delivery/state/lanes.py",
                "turns = {priority: self._earned.get(priority, 0) // AGING for "
                "priority in priorities}",
                "turns = dict.fromkeys(priorities, 0)",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_lanes.py"
        "::test_single_pulls_serve_the_lowest_once_in_seventeen",
        breaks="P3",
    ),
    Mutant(
        "a rate limit saves up more than a second",
        (
            Edit(
                "subscribe_forwarder/delivery/state/rate.py",
                "            self._tokens = min(self.burst, grown)\n",
                "            self._tokens = grown\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_rate.py"
        "::test_a_second_of_quiet_is_all_that_is_saved_up",
        breaks="P3",
    ),
    Mutant(
        "two consumers with affinity work one partition",
        (
            Edit(
                "subscribe_forwarder/delivery/state/affinity.py",
                "        return not leased or self._workers.get(partition) == consumer\n",
                "        return True\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_affinity.py"
        "::test_what_the_former_has_leased_keeps_the_next_away",
        breaks="P3",
    ),
    Mutant(
        "back-off has no end",
        (
            Edit(
                "subscribe_forwarder/delivery/state/retry.py",
                "return int(min(self.max_backoff_ms, doubled) * random())",
                "return int(doubled * random())",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_back_off_doubles_has_full_jitter_and_an_end",
        breaks="P3",
    ),
    Mutant(
        "a message is tried for ever",
        (
            Edit(
                "subscribe_forwarder/delivery/state/failures.py",
                "    if policy.exhausted(row.attempts):\n",
                "    if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_a_poisoned_key_is_parked_and_holds_up_nothing",
        breaks="P3",
    ),
    Mutant(
        "a lease never ends",
        (
            Edit(
                "subscribe_forwarder/delivery/state/leases.py",
                "            self._deadlines[0].deadline_ms <= now_ms or not "
                "self._deadlines[0].live\n",
                "            not self._deadlines[0].live\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_acks.py"
        "::test_a_deadline_that_passes_wakes_a_long_poll",
        breaks="P3",
    ),
    Mutant(
        "an old hole holds the floor up for ever",
        (
            Edit(
                "subscribe_forwarder/delivery/state/holes.py",
                "    if old > cursor.floor:\n",
                "    if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_an_old_hole_is_worth_a_flush_also_when_nothing_else_changes",
        breaks="P3",
    ),
    Mutant(
        "an ack id of somebody else's making opens",
        (
            Edit(
                "subscribe_forwarder/delivery/ack_id.py",
                "        if not any(_are_macs(begun, raw) for begun in "
                "(self._hash, *self._others)):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ack_id.py::test_another_key_does_not_open",
        breaks="P7",
    ),
    Mutant(
        "a page ack id of somebody else's making opens",
        (
            Edit(
                "subscribe_forwarder/delivery/ack_id.py",
                "        if not any([compare_digest(mac, one) for one in macs]) "
                "or len(runs) % _RUN.size:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pages.py::test_a_changed_token",
        breaks="P7",
    ),
    Mutant(
        "a page ack id acks messages beyond its page",
        (
            Edit(
                "subscribe_forwarder/delivery/ack_id.py",
                "    if ranges[-1].stop > count:\n"
                '        raise BadAckId(f"the page has {count} messages")\n',
                "    runs = [*runs, Run(runs[-1].first, 10_000, 1)]\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pages.py"
        "::test_numbers_that_a_page_does_not_have",
        breaks="P7",
    ),
    Mutant(
        "a page ack id of another subscription, or from before a seek, acks",
        (
            Edit(
                "subscribe_forwarder/api/items.py",
                "    problem = _misfit(head, subscription, readers)\n",
                "    problem = None if items.token else _misfit(head, subscription, readers)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pages.py"
        "::test_a_token_of_another_subscription",
        breaks="P7",
    ),
    Mutant(
        "a release of a page takes messages that somebody else has leased since",
        (
            Edit(
                "subscribe_forwarder/api/items.py",
                "        attempts = repeat(0) if self.attempts is None else self.attempts\n",
                "        attempts = repeat(0) if self.token else self.attempts or repeat(0)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pages.py"
        "::test_a_lease_of_before_is_not_that_of_now",
        breaks="P3",
    ),
    Mutant(
        "a row that Postgres refuses stops all others",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                '            return self.set_aside(work[0], error, "refused")\n',
                '            return self._again(work, "refused")\n',
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_row_that_postgres_refuses_is_set_aside_alone",
        breaks="P9",
    ),
    Mutant(
        "an endpoint that fails every time is never shut",
        (
            Edit(
                "subscribe_forwarder/push/breaker.py",
                "        if self._failures >= _in_a_row(before):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_push_breaker.py"
        "::test_failures_in_a_row_open_it",
        breaks="P3",
    ),
    Mutant(
        "all may try an endpoint that was shut at once",
        (
            Edit(
                "subscribe_forwarder/push/breaker.py",
                "        return int(not self._trying)\n",
                "        return 1\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_push_breaker.py"
        "::test_one_tries_at_a_time_and_two_close_it",
        breaks="P3",
    ),
    Mutant(
        "a subscription hands out more than it may",
        (
            Edit(
                "subscribe_forwarder/delivery/hub.py",
                "        new = self.max_outstanding - self.outstanding\n",
                "        new = 1 << 20\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pull_limits.py"
        "::test_max_outstanding_of_the_subscription",
        breaks="P3",
    ),
    Mutant(
        "a unit is given away before its acks are flushed",
        (
            Edit(
                "subscribe_forwarder/delivery/ownership.py",
                "            await self._flush_all(going)\n",
                "",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_handover.py"
        "::test_leases_go_over_with_their_unit",
        breaks="P3",
    ),
    Mutant(
        "what is in doubt is handed out all the same",
        (
            Edit(
                "subscribe_forwarder/delivery/ownership.py",
                "                owner.freeze()\n                self._again.add(key)\n",
                "                self._again.add(key)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_an_unknown_commit_freezes_until_the_partition_is_claimed_again",
        breaks="P4",
    ),
    Mutant(
        "an ack is answered by the first of the flushes that it takes",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "            wanted = [one for one in wanted if one[1].flushed_version < one[2]]\n",
                "            wanted = []\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_commit_waits_for_as_many_flushes_as_it_takes",
        breaks="P4",
    ),
    Mutant(
        "an endpoint is sent more than its limit",
        (
            Edit(
                "subscribe_forwarder/push/limiter.py",
                "            return max(0, int(limit) - self.in_flight)\n",
                "            return int(limit)\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_push_limiter.py"
        "::test_whatever_happens_the_limit_holds",
        breaks="P3",
    ),
    Mutant(
        "two exactly-once leases of a message share an id",
        (
            Edit(
                "subscribe_forwarder/delivery/state/exact_leases.py",
                " + self._given_back.get(offset, 0), MAX_TURN)",
                ", MAX_TURN)",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ledger.py"
        "::test_a_lease_that_is_given_back_and_the_next_have_two_ids",
        breaks="P3",
    ),
    Mutant(
        "a claim under an older epoch is adopted",
        (
            Edit(
                "subscribe_forwarder/delivery/owner.py",
                "        assert claim.epoch > self._epoch, ",
                "        assert claim, ",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ownership.py"
        "::test_nothing_goes_on_under_an_epoch_that_was_there_before",
        breaks="P3",
    ),
    Mutant(
        "open deliveries take their places twice",
        (
            Edit(
                "subscribe_forwarder/delivery/key_sequencer.py",
                "        self._loaded = True\n        for offset, row",
                "        for offset, row",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_after_a_takeover_nothing_of_a_key_is_overtaken",
        breaks="P3",
        trips="has a place already",
    ),
    Mutant(
        "a range of no offsets is settled",
        (
            Edit(
                "subscribe_forwarder/delivery/state/cursor.py",
                "        if low >= high:\n            return 0\n        if self.history",
                "        if self.history",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_cursor.py"
        "::test_a_repeated_ack_changes_nothing",
        breaks="P9",
    ),
    Mutant(
        "a message with a delay is delivered as soon as this process has staged it",
        (
            Edit(
                "store_nodes/client/appender.py",
                "if entry.extras is None and not reply.duplicate:",
                "if not reply.duplicate:",
            ),
        ),
        killed_by="tests/unit/store_client/test_watch.py"
        "::test_own_appends_are_told_once_they_are_stored",
        breaks="P2",
    ),
    Mutant(
        "what this process appends is delivered under the offset after it",
        (
            Edit(
                "subscribe_forwarder/delivery/reading/tails.py",
                "receipt.base_offset, receipt.log_time_us",
                "receipt.base_offset + 1, receipt.log_time_us",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_appended_here.py"
        "::test_it_is_rendered_as_it_is_stored",
        breaks="P2",
    ),
    Mutant(
        "what this process appends is kept however far its readers are behind",
        (
            Edit(
                "subscribe_forwarder/delivery/reading/tail.py",
                "if self._unread_bytes > MAX_UNREAD_BYTES:",
                "if self._unread_bytes < 0:",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_appended_here.py"
        "::test_readers_that_are_far_behind_fetch_it",
        breaks="P19",
    ),
    Mutant(
        "who waits behind a growth hears nothing of the message that ended its barrier",
        (
            Edit(
                "subscribe_forwarder/delivery/hub.py",
                "want.places or self.growth.standing)",
                "want.places)",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_generations.py"
        "::test_two_waiting_pulls_share_what_is_on_both_sides_of_a_growth",
        fails_with="TimeoutError",
        breaks="P3",
    ),
    Mutant(
        "an ack ends no pause",
        (
            Edit(
                "subscribe_forwarder/delivery/hub.py",
                "if self.waiting and not all(",
                "if self.waiting and all(",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pull.py"
        "::test_an_ack_ends_a_pause_for_those_who_wait",
        breaks="P3",
    ),
    Mutant(
        "a pull whose request was cancelled is served",
        (
            Edit(
                "subscribe_forwarder/delivery/wait_list.py",
                "        if self.future.done():\n            return None",
                "        if False:\n            return None",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pull.py"
        "::test_a_pull_that_is_cancelled_before_it_is_served_leaves_its_turn",
        breaks="P3",
        fails_with="asyncio.exceptions.InvalidStateError",
    ),
    Mutant(
        "messages gathered for a client that has gone stay leased",
        (
            Edit(
                "subscribe_forwarder/api/pulls.py",
                "            abandoned.withdraw()\n",
                "",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pull_limits.py"
        "::test_who_goes_while_waiting_leaves_nothing_leased",
        breaks="P3",
    ),
    Mutant(
        "flushes wait for more acks though consumers send none before their answer",
        (
            Edit(
                "subscribe_forwarder/delivery/flush_pace.py",
                "KEPT = 0.75",
                "KEPT = 0.0",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ack_gathering.py"
        "::test_consumers_that_wait_for_each_answer_are_hardly_slower",
        breaks="P19",
    ),
    Mutant(
        "a lease that is to be committed before it leaves waits for more acks",
        (
            Edit(
                "subscribe_forwarder/delivery/flush.py",
                "            round_.gathers = False\n",
                "            pass\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ack_gathering.py"
        "::test_a_commit_of_anything_else_has_them_flushed_at_once",
        fails_with="TimeoutError",
        breaks="P3",
    ),
    Mutant(
        "each pull at the first use of a subscription reads its cursors by itself",
        (
            Edit(
                "subscribe_forwarder/delivery/hubs.py",
                "        loading = self._loading.get(key)\n",
                "        loading = None\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_pull.py"
        "::test_pulls_that_come_at_the_first_use_share_one_reading_of_its_cursors",
        breaks="P19",
    ),
)
