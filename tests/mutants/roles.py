"""Mutants of what stands beside the log: memberships, backups, pushing, schedules, publishing."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the rest of a filter loses the brackets of its parts",
        (
            Edit(
                "edge/expressions/conjunction.py",
                "            rest.append(text[part[0].at : part[-1].end])\n",
                "            rest.append(text[bare[0].at : bare[-1].end])\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/subscribe_forwarder/test_selection.py"
        "::test_brackets_count_beside_an_equality",
    ),
    Mutant(
        "an unexpected error ends a background task",
        (
            Edit(
                "edge/lifetime.py",
                "            await asyncio.sleep(AGAIN_AFTER_S)\n",
                "            return\n",
            ),
        ),
        breaks="P6",
        killed_by="tests/unit/edge/test_lifetime.py"
        "::test_a_task_that_a_defect_ended_begins_again_and_the_log_tells",
    ),
    Mutant(
        "an error in a sweep of the store client ends the sweeps",
        (
            Edit(
                "store_nodes/client/connections.py",
                "        try:\n            pause_s = self._sweep_once(loop.time())\n"
                "        finally:\n",
                "        pause_s = self._sweep_once(loop.time())\n        if True:\n",
            ),
        ),
        breaks="P6",
        killed_by="tests/unit/store_client/test_sweeps.py::test_sweeps_go_on_after_an_error",
        fails_with="TimeoutError",
    ),
    Mutant(
        "processes of `packetboat up` outlive it",
        (Edit("gateway/up/fork_server.py", "            dies_with_us()\n", ""),),
        killed_by="tests/unit/gateway/test_fork_server.py"
        "::test_all_processes_end_with_the_first_one",
        breaks="P1",
    ),
    Mutant(
        "the answer to a cancelled start is taken for the next one's",
        (
            Edit(
                "gateway/up/fork_server.py",
                "await asyncio.shield(asking), self._status",
                "await asking, self._status",
            ),
        ),
        killed_by="tests/unit/gateway/test_fork_server.py"
        "::test_a_start_that_is_cancelled_leaves_no_process_and_no_answer",
        breaks="P1",
    ),
    Mutant(
        "forked servers give their requests the same ids",
        (
            Edit(
                "gateway/middleware/request_id.py",
                "os.register_at_fork(after_in_child=_begin)\n",
                "",
            ),
        ),
        killed_by="tests/unit/gateway/test_fork_server.py"
        "::test_a_forked_process_is_what_a_new_one_would_be",
        breaks="P11",
    ),
    Mutant(
        "a node id that was removed comes back",
        (
            Edit(
                "store_nodes/membership.py",
                "        if step.node in self.removed:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/test_membership.py::test_a_removed_id_never_comes_back",
        breaks="P1",
    ),
    Mutant(
        "the last voter may be removed",
        (
            Edit(
                "store_nodes/membership.py",
                "        if step.role != VOTER and self.voters == (step.node,):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/test_membership.py::test_the_last_voter_stays",
        breaks="P5",
    ),
    Mutant(
        "a new node votes at once",
        (
            Edit(
                "store_nodes/membership.py",
                "        if step.role == VOTER and held is None:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/test_membership.py::test_what_a_step_may_not_do",
        breaks="P1",
    ),
    Mutant(
        "a step may name any version",
        (
            Edit(
                "store_nodes/membership.py",
                "        if step.version != self.version + 1:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/test_membership.py::test_a_step_names_the_next_version",
        breaks="P1",
    ),
    Mutant(
        "damage above the start of a checkpoint costs no votes",
        (
            Edit(
                "store_nodes/storage/damage.py",
                "    return damage.reason in _WHOLE or damage.end > start.offset\n",
                "    return False\n",
            ),
        ),
        killed_by="tests/unit/storage/test_damaged_storage.py::test_which_damage_costs_votes",
        breaks="P1",
    ),
    Mutant(
        "the scrubber looks at no payload",
        (
            Edit(
                "store_nodes/storage/scrub.py",
                "    return found if frames.payload_holds(data, found) else None\n",
                "    return found\n",
            ),
        ),
        killed_by="tests/unit/storage/test_damaged_storage.py::test_a_bit_in_a_compacted_batch",
        breaks="P1",
    ),
    Mutant(
        "an image of release 0.2.0 that is behind is taken",
        (
            Edit(
                "store_nodes/client/reads.py",
                "        if image.applied < least:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/store_client/test_snapshots.py"
        "::test_a_node_of_an_older_release_gives_what_it_has_and_it_is_not_taken",
        breaks="P1",
    ),
    Mutant(
        "what a group without a leader is asked waits each time",
        (
            Edit(
                "store_nodes/client/guarded.py",
                "        if not guard.admits():\n            raise Unavailable",
                "        if False:\n            raise Unavailable",
            ),
        ),
        killed_by="tests/unit/store_client/test_guard.py"
        "::test_a_leader_that_never_answers_is_tried_now_and_then",
        breaks="P5",
        fails_with="store_nodes.errors.OutcomeUnknown",
    ),
    Mutant(
        "a restore gives offsets again",
        (
            Edit(
                "store_nodes/backup/restoring.py",
                "    follower.first = follower.end = queue.end + skip_offsets\n",
                "    follower.first = follower.end = queue.end\n",
            ),
        ),
        killed_by="tests/unit/backup/test_restoring.py::test_no_offset_is_given_twice",
        breaks="P16",
    ),
    Mutant(
        "a restore that was cut counts as whole",
        (
            Edit(
                "store_nodes/backup/restoring.py",
                "    BootRecord(settings.data_dir).refuse(NOT_FINISHED)\n",
                "",
            ),
        ),
        killed_by="tests/unit/backup/test_restoring.py"
        "::test_a_restore_that_was_cut_is_refused_and_begun_anew",
        breaks="P16",
    ),
    Mutant(
        "nodes that were given different backups are one group",
        (
            Edit(
                "store_nodes/backup/restoring.py",
                "    return snapshot.encode(dataclasses.replace(new, digest=own))\n",
                "    return snapshot.encode(new)\n",
            ),
        ),
        killed_by="tests/unit/backup/test_restoring.py"
        "::test_nodes_that_were_given_something_else_have_another_digest",
        breaks="P16",
    ),
    Mutant(
        "a queue that moves during a backup is copied in part",
        (
            Edit(
                "store_nodes/backup/taking.py",
                "            if not older.offsets.sealed or older.offsets.end != info.base:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/backup/test_taking.py"
        "::test_a_queue_that_moves_during_the_copy_is_copied_whole",
        breaks="P16",
    ),
    Mutant(
        "a stream has more out than its window",
        (
            Edit(
                "subscribe_forwarder/delivery/window.py",
                "        return Remaining(messages, size_bytes) if messages > 0 and "
                "size_bytes > 0 else None\n",
                "        return Remaining(max(1, messages), max(1, size_bytes))\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_stream.py"
        "::test_no_more_are_out_than_the_window_allows",
        breaks="P3",
    ),
    Mutant(
        "a skip rule is asked of what the filter left out",
        (
            Edit(
                "subscribe_forwarder/delivery/selection/selection.py",
                "            for index in rule.matches(batch, delivered):\n",
                "            for index in rule.matches(batch, range(low, high)):\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_selection.py"
        "::test_a_skip_rule_is_asked_after_the_filter",
        breaks="P3",
    ),
    Mutant(
        "a stored expression that is refused is evaluated",
        (
            Edit(
                "subscribe_forwarder/delivery/selection/selection.py",
                "        return _NEVER\n",
                "        return text\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_selection.py"
        "::test_a_stored_expression_that_is_refused_is_true_for_no_message",
        breaks="P7",
        fails_with="edge.expressions.expression.BadExpression",
    ),
    Mutant(
        "a redirect counts as delivered",
        (
            Edit(
                "subscribe_forwarder/push/verdict.py",
                "    if 200 <= status < 300:\n",
                "    if 200 <= status < 400:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_push_verdict.py::test_answers",
        breaks="P3",
    ),
    Mutant(
        "an expired key signs webhooks",
        (
            Edit(
                "edge/signing.py",
                " for until, sign in self._keys if now_s < until]",
                " for until, sign in self._keys]",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_push_requests.py"
        "::TestSignatures::test_while_keys_are_changed_both_hold_and_then_the_new_alone",
        breaks="P13",
    ),
    Mutant(
        "a message whose time is over is delivered in order",
        (
            Edit(
                "subscribe_forwarder/delivery/choosing.py",
                "            if 0 < expires_us <= self._now_us:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_ordered.py"
        "::test_an_expired_message_keeps_its_place_until_that_is_committed",
        breaks="P3",
    ),
    Mutant(
        "a message that is not due counts as released",
        (
            Edit(
                "scheduler/releasing.py",
                "            if offset == NOT_DUE:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_due_loop.py"
        "::test_a_clock_that_runs_ahead_of_the_log_only_asks_again",
        breaks="P3",
    ),
    Mutant(
        "a log whose time stands is asked every 5 ms",
        (
            Edit(
                "scheduler/releasing.py",
                "        wait_us = min(max(now_us - due_us, NOT_YET_US), NOT_YET_MAX_US)\n",
                "        wait_us = NOT_YET_US\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_releasing.py"
        "::test_a_log_whose_time_stands_is_asked_ever_less_often",
        breaks="P5",
    ),
    Mutant(
        "a release whose answer was lost is not asked for again",
        (
            Edit(
                "scheduler/releasing.py",
                "                    left = numbers\n",
                "                    left = []\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_due_loop.py::test_a_lost_answer_is_asked_for_again",
        breaks="P3",
    ),
    Mutant(
        "of missed runs the first is made and not the latest",
        (
            Edit(
                "cron/plan.py",
                '        case "latest":\n            return (due[-1],)\n',
                '        case "latest":\n            return (due[0],)\n',
            ),
        ),
        killed_by="tests/unit/cron/test_cron_plan.py::test_policies_of_missed_runs",
        breaks="P3",
    ),
    Mutant(
        "missed runs are not counted",
        (
            Edit(
                "cron/plan.py",
                "Plan(make, len(due) - len(make), next_run",
                "Plan(make, 0, next_run",
            ),
        ),
        killed_by="tests/unit/cron/test_cron_plan.py"
        "::test_each_run_is_made_or_counted_once_whenever_it_is_looked_at",
        breaks="P3",
    ),
    Mutant(
        "another delay under the same key is the same message",
        (
            Edit(
                "publish_forwarder/idempotency.py",
                "            delay,\n            len(message.data),\n",
                "            len(message.data),\n",
            ),
        ),
        killed_by="tests/unit/publish_forwarder/test_idempotency.py"
        "::test_another_body_under_the_same_key_is_refused",
        breaks="P2",
    ),
    Mutant(
        "a key is known in all topics",
        (
            Edit(
                "publish_forwarder/idempotency.py",
                "    return blake2b(topic_uid + key.encode",
                "    return blake2b(key.encode",
            ),
        ),
        killed_by="tests/unit/publish_forwarder/test_idempotency.py::test_a_key_is_of_one_topic",
        breaks="P2",
    ),
    Mutant(
        "a body that does not fit its schema is stored",
        (
            Edit(
                "schemas/message_check.py",
                "        if errors:\n            self._charge(",
                "        if False:\n            self._charge(",
            ),
        ),
        killed_by="tests/unit/schemas/test_message_check.py"
        "::test_the_latest_version_counts_unless_another_is_named",
        breaks="P8",
    ),
    Mutant(
        "what follows a refused message of its key is stored",
        (
            Edit(
                "schemas/message_check.py",
                "            if broken and entry.key in broken:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/schemas/test_message_check.py"
        "::test_items_of_a_batch_are_judged_one_by_one_and_order_of_keys_is_kept",
        breaks="P2",
    ),
    Mutant(
        "a cancel in a sealed queue does not look for a copy that is being made",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "        await self._confirm(place, due_us)\n",
                "",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_what_was_cancelled_is_never_published",
        breaks="P3",
    ),
    Mutant(
        "a cancel that is asked again does not wait for a successor that is not made yet",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "        await self._confirm(place)\n",
                "        with suppress(Unavailable):\n            await self._confirm(place)\n",
            ),
            Edit(
                "publish_forwarder/scheduled.py",
                "from functools import partial\n",
                "from contextlib import suppress\nfrom functools import partial\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_cancel_that_is_asked_again_waits_for_a_successor_that_is_not_made_yet",
        breaks="P3",
    ),
    Mutant(
        "a change waits for a successor that was deleted",
        (
            Edit(
                "outbox/delayed.py",
                "            if not was_made(place[0].queue):\n",
                "            if True:\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_cancel_that_is_asked_again_waits_for_no_successor_that_was_deleted",
        breaks="P5",
    ),
    Mutant(
        "a change takes a successor that is not made yet for deleted",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "    return bool(generations) and queue.generation <= generations[-1].generation\n",
                "    return True\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_cancel_that_is_asked_again_waits_for_a_successor_that_is_not_made_yet",
        breaks="P3",
    ),
    Mutant(
        "a copy of a delayed message takes no turn",
        (
            Edit(
                "outbox/delayed.py",
                "    return _entry(index, _name(queue, number)) + _turn_id(index, "
                "queue, number, turn)\n",
                "    return _entry(index, _name(queue, number))\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_what_was_cancelled_is_never_published",
        breaks="P3",
    ),
    Mutant(
        "a message that was rescheduled as it was copied is copied again at once",
        (
            Edit(
                "scheduler/forwarding.py",
                "        still_due = set(await self._forwarding.due(self, changed))\n",
                "        still_due = set(changed)\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_what_was_rescheduled_is_not_published_before_its_new_time",
        breaks="P3",
    ),
    Mutant(
        "who would cancel does not record the copy that a dead scheduler made",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "            await self._forwarded.record(key, [Forwarded(number, "
                "partition, known.position)])\n",
                "",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_copy_that_a_dead_scheduler_did_not_record_is_recorded_by_who_would_cancel",
        breaks="P3",
    ),
    Mutant(
        "a change takes its turn in one of several successors",
        (
            Edit(
                "outbox/delayed.py",
                "Target(group, QueueId.unpack(raw)) for group, raw in sealed.successors]\n",
                "Target(group, QueueId.unpack(raw)) for group, raw in sealed.successors[:1]]\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_turn_is_known_to_later_successors_and_taken_in_each_of_several",
        breaks="P3",
    ),
    Mutant(
        "a change goes every way to a successor that several sealed queues lead to",
        (
            Edit(
                "outbox/delayed.py",
                "[(each, last) for each in successors]",
                "[(each, max(taken, default=0)) for each in successors]",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_over_many_growths_each_queue_is_tried_once_for_a_turn",
        breaks="P5",
    ),
    Mutant(
        "a change takes a turn that was taken in one group for taken in the next",
        (
            Edit(
                "outbox/delayed.py",
                "asked = [turn for turn in range(last + 1) if",
                "asked = [turn for turn in range(last, last + 1) if",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_copy_is_found_although_its_turn_was_taken_in_another_group",
        breaks="P3",
    ),
    Mutant(
        "a change looks for no copy under a later turn in a sealed queue that gave no earlier one",
        (
            Edit(
                "outbox/delayed.py",
                " for index, turn in enumerate(turns)]\n",
                " for index, turn in enumerate(turns[:1])]\n",
            ),
        ),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_copy_is_found_under_a_later_turn_in_a_queue_that_was_sealed_after_it",
        breaks="P3",
    ),
    Mutant(
        "a change asks for the turns that others took one by one",
        (Edit("outbox/delayed.py", "min(2 * ahead, MOST_AHEAD)", "1"),),
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_a_change_is_as_short_after_a_hundred_others",
        breaks="P5",
    ),
    Mutant(
        "two holders get one fencing token",
        (
            Edit(
                "metadata/locks/locks.py",
                "ELSE greatest(l.fence, era.fence) + 1 END",
                "ELSE greatest(l.fence, era.fence) END",
            ),
        ),
        killed_by="tests/integration/metadata/test_locks.py"
        "::test_one_of_many_takes_a_lock_and_the_next_waits_for_its_lease",
        breaks="P10",
    ),
    Mutant(
        "who does not wait passes those who do",
        (
            Edit(
                "metadata/locks/locks.py",
                "AND w.name = $2 AND w.ticket < $8\n                  AND w.alive_until",
                "AND w.name = $2 AND w.ticket < $8 AND false\n                  AND w.alive_until",
            ),
        ),
        killed_by="tests/integration/locks/test_lock_wait_list.py"
        "::test_who_does_not_wait_comes_after_those_who_do",
        breaks="P10",
    ),
    Mutant(
        "after a claim that got something, the next one does not try",
        (
            Edit(
                "gateway/wait_list.py",
                "    line.heard |= got is not None\n",
                "",
            ),
        ),
        killed_by="tests/unit/gateway/test_job_lines.py"
        "::test_who_waits_gets_what_comes_in_the_order_of_coming",
        breaks="P14",
    ),
    Mutant(
        "a notification that comes during a try is not heard",
        (
            Edit(
                "gateway/wait_list.py",
                "    line.heard |= got is not None\n",
                "    line.heard = got is not None\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_job_lines.py"
        "::test_a_ring_while_the_first_of_the_list_tries_is_heard",
        breaks="P14",
    ),
    Mutant(
        "after a claim that went away during its try, the next one does not try",
        (
            Edit(
                "gateway/wait_list.py",
                "        line.heard = True\n        raise\n",
                "        raise\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_job_lines.py"
        "::test_the_next_one_tries_after_one_that_goes_away_while_it_tries",
        breaks="P14",
    ),
    Mutant(
        "tasks stay with a caller that went away while they were claimed",
        (
            Edit(
                "gateway/wait_list.py",
                "            self.spawn(undo(task))\n            raise\n",
                "            raise\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_job_lines.py"
        "::test_who_goes_away_while_it_tries_gives_back_what_it_got",
        breaks="P14",
    ),
    Mutant(
        "a waiter does not try again when the lease of the holder may be over",
        (
            Edit(
                "gateway/wait_list.py",
                "                line.heard |= not woken and due_s < over_s\n",
                "",
            ),
        ),
        killed_by="tests/integration/locks/test_lock_wait_list.py"
        "::test_a_lease_that_ends_lets_the_next_in_without_a_release",
        breaks="P10",
    ),
    Mutant(
        "the look for work on jobs misses leases that are over",
        (
            Edit(
                "metadata/jobs/sweep.py",
                'EXISTS (SELECT"\n    + _EXPIRED_TASKS\n    + """)',
                'false"\n    + """',
            ),
        ),
        killed_by="tests/integration/jobs/test_jobs.py::test_a_look_ends_leases_that_are_over",
        breaks="P8",
    ),
    Mutant(
        "the look for work on exports misses leases that are over",
        (
            Edit(
                "metadata/exports/sweep.py",
                'EXISTS (SELECT " + _EXPIRED_RUNS + ") OR EXISTS',
                "EXISTS",
            ),
        ),
        killed_by="tests/integration/exports/test_export_races.py"
        "::test_a_look_ends_leases_that_are_over",
        breaks="P8",
    ),
    Mutant(
        "the look for work on exports misses ticks that have come",
        (
            Edit(
                "metadata/exports/sweep.py",
                ' OR EXISTS (" + DUE_TICKS + ")"',
                '"',
            ),
        ),
        killed_by="tests/integration/exports/test_export_races.py"
        "::test_a_look_makes_the_runs_of_ticks_of_both_kinds",
        breaks="P8",
    ),
    Mutant(
        "a job that was cancelled is answered as if nothing was done",
        (
            Edit(
                "metadata/jobs/steps.py",
                "        with suppress(MetadataError):\n            await self.cancel_children",
                "        if True:\n            await self.cancel_children",
            ),
        ),
        killed_by="tests/integration/jobs/test_jobs.py"
        "::test_a_job_that_ended_is_answered_as_ended_although_its_children_cannot_be_cancelled_yet",
        fails_with="metadata.errors.MetadataUnavailable",
        breaks="P8",
    ),
    Mutant(
        "a task is completed under a lease that is over",
        (
            Edit(
                "metadata/jobs/machine.py",
                "    if task.lease != lease:\n        return Verdict.LOST\n",
                "",
            ),
        ),
        killed_by="tests/integration/jobs/test_job_machine.py"
        "::test_any_walk_of_jobs_is_what_the_twin_says[1]",
        breaks="P14",
    ),
    Mutant(
        "a run is committed to a table that has gone on",
        (
            Edit(
                "spark_exports/lake/commit.py",
                "        if positions.get(each.key, begins) != begins:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/integration/lake/test_zombies.py::test_a_zombie_of_an_earlier_run",
        breaks="P15",
    ),
    Mutant(
        "a change is made whose row could not be written",
        (
            Edit(
                "gateway/tenancy/auditor.py",
                "                raise MetadataUnavailable(str(error)) from error\n"
                "            raise\n",
                "                return\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_auditor.py::test_what_cannot_be_audited_is_not_begun",
        breaks="P11",
    ),
    Mutant(
        "an answer leaves before its status is in the audit",
        (
            Edit(
                "gateway/tenancy/auditor.py",
                '                await self._finish(entry, message["status"])\n'
                "            await send(message)\n",
                "                await send(message)\n"
                '                await self._finish(entry, message["status"])\n'
                "            else:\n"
                "                await send(message)\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_auditor.py"
        "::test_the_row_is_before_the_change_and_its_status_before_the_answer",
        breaks="P11",
    ),
    Mutant(
        "days that never come are said to be no days",
        (
            Edit(
                "cron/plan.py",
                "        detail = _NEVER if _is_of_no_month(expression) else _fault(str(error))\n",
                "        detail = _fault(str(error))\n",
            ),
        ),
        killed_by="tests/unit/cron/test_cron_plan.py"
        "::test_what_is_refused_is_said_in_our_own_words",
        breaks="P8",
    ),
)
