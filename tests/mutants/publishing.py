"""Mutants of the publish forwarder, the outbox and the scheduler."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_SETTLED = "tests/unit/scheduler/test_settled_lanes.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "forwarding discards a message before it records its copy",
        (
            Edit(
                "scheduler/forwarding.py",
                "        await self._repository.record(queue.key, course.moved)\n",
                "",
            ),
            Edit(
                "scheduler/forwarding.py",
                "            metrics.forwarded.inc(len(course.moved))\n",
                "            await self._repository.record(queue.key, course.moved)\n"
                "            metrics.forwarded.inc(len(course.moved))\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_forwarding.py"
        "::test_a_copy_is_made_once_whenever_the_scheduler_dies",
    ),
    Mutant(
        "forwarding copies messages that are staged no more",
        (
            Edit(
                "scheduler/forwarding.py",
                "            if is_due:\n",
                "            if is_due or answer != NOT_DUE:\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_forwarding.py"
        "::test_what_was_cancelled_or_released_before_the_seal_is_not_copied",
    ),
    Mutant(
        "a forwarded copy has no name by which a second copy is known",
        (
            Edit(
                "scheduler/forwarding.py",
                "        return Batch(copies, names_of(ids), staged[0].accepted_time_us)\n",
                "        return Batch(copies, (), staged[0].accepted_time_us)\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_forwarding.py"
        "::test_a_copy_is_made_once_whenever_the_scheduler_dies",
    ),
    Mutant(
        "the truncator passes over a lane that is not truncated to its end",
        (
            Edit(
                "scheduler/truncator.py",
                "return info.first == info.end <= only.trimmed_to and not info.stored_bytes",
                "return info.first == info.end and not info.stored_bytes",
            ),
        ),
        breaks="P3",
        killed_by=f"{_SETTLED}test_truncating_a_settled_lane_would_do_nothing",
    ),
    Mutant(
        "the truncator passes over a lane that holds messages",
        (
            Edit(
                "scheduler/truncator.py",
                "return info.first == info.end <= only.trimmed_to and not info.stored_bytes",
                "return info.first <= only.trimmed_to and not info.stored_bytes",
            ),
        ),
        breaks="P3",
        killed_by=f"{_SETTLED}test_a_lane_is_settled_when_all_of_it_is_truncated",
    ),
    Mutant(
        "the truncator passes over a lane whose kept offsets changed",
        (
            Edit(
                "scheduler/truncator.py",
                "if len(generations) > 1 or key in holds.kept or self._sent.get(key) is not None:",
                "if len(generations) > 1:",
            ),
        ),
        breaks="P3",
        killed_by=f"{_SETTLED}test_a_lane_that_keeps_or_kept_offsets_is_not_settled",
    ),
    Mutant(
        "the truncator drops a sealed queue that has staged messages",
        (
            Edit(
                "scheduler/truncator.py",
                "or (info is not None and info.staged):",
                "or False:",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/scheduler/test_trimming.py"
        "::test_a_trim_goes_through_sealed_generations_and_removes_empty_ones",
    ),
    Mutant(
        "the truncator drops a sealed queue within the dedup window",
        (
            Edit(
                "scheduler/truncator.py",
                "            wait_s = max(LEAST_SEALED_S, topic.dedup_window_s)",
                "            wait_s = 0",
            ),
        ),
        breaks="P2",
        killed_by="tests/integration/scheduler/test_trimming.py"
        "::test_a_trim_goes_through_sealed_generations_and_removes_empty_ones",
    ),
    Mutant(
        "the truncator drops a sealed queue although a cursor is in it",
        (
            Edit(
                "scheduler/truncator.py",
                "            if pinned is not None and pinned < each.sealed_at:\n"
                "                continue\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/scheduler/test_trimming.py"
        "::test_a_sealed_generation_stays_while_a_cursor_is_in_it",
    ),
    Mutant(
        "sealed queues are asked for half of the dedup window",
        (
            Edit(
                "store_nodes/commands.py",
                "REMEMBERED_WINDOWS = 1.25",
                "REMEMBERED_WINDOWS = 0.5",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_moves.py"
        "::test_while_an_id_may_be_remembered_its_sealed_queue_is_asked",
    ),
    Mutant(
        "senders to successors send before the old ones are quiet",
        (
            Edit(
                "publish_forwarder/moves.py",
                "            for sender in new:\n                sender.hold()",
                "            for sender in new:\n                pass",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_moves.py"
        "::test_a_moved_partition_takes_its_messages_along_in_order",
    ),
    Mutant(
        "a message without an id passes one whose id is asked for",
        (
            Edit(
                "publish_forwarder/partitioner.py",
                "                if has_ids or not sender.idle:",
                "                if has_ids:",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_moves.py"
        "::test_a_message_without_an_id_does_not_pass_one_whose_id_is_asked_for",
    ),
    Mutant(
        "a queue sender sends while an append of it is not answered",
        (
            Edit(
                "appending/sender.py",
                "        self._max_in_flight = max_in_flight\n",
                "        self._max_in_flight = max_in_flight + 1\n",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_coalescer.py"
        "::test_what_arrives_while_an_append_is_in_flight_goes_in_the_next",
    ),
    Mutant(
        "what an append could not store goes to the end of its lane",
        (
            Edit(
                "appending/sender.py",
                '        """Put requests back in front."""\n'
                "        self.pending.extendleft(reversed(requests))",
                '        """Put requests back in front."""\n        self.pending.extend(requests)',
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_coalescer.py"
        "::test_keyed_messages_not_done_wait_in_front_for_their_own_partition",
    ),
    Mutant(
        "an append has a name twice",
        (
            Edit(
                "appending/sender.py",
                "                if not names.isdisjoint(more):\n                    break\n",
                "",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/appending/test_writer.py"
        "::test_no_append_has_a_name_twice_and_the_second_is_told_of_the_first",
    ),
    Mutant(
        "an append of an unknown outcome is sent again",
        (
            Edit(
                "appending/sender.py",
                "            if not isinstance(error, NotDone) or isinstance(error, _LASTING):",
                "            if isinstance(error, _LASTING):",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_coalescer.py"
        "::test_an_unknown_outcome_is_told_and_not_sent_again",
        fails_with="asyncio.exceptions.InvalidStateError",
    ),
    Mutant(
        "what a sealed queue did not take goes on to its first successor, whatever its key",
        (
            Edit(
                "appending/writer.py",
                "    if route is not None and len(numbers) > 1:",
                "    if False:",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/appending/test_writer.py"
        "::test_a_sealed_queue_leads_on_each_message_by_its_key_and_in_order",
    ),
    Mutant(
        "a batch whose caller was cancelled is sent all the same",
        (
            Edit(
                "appending/writer.py",
                "            sender.withdraw(request)\n            raise",
                "            raise",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/appending/test_writer.py"
        "::test_a_cancelled_batch_that_waits_is_not_sent_and_a_sent_one_is_stored",
    ),
    Mutant(
        "the outbox does not ask sealed queues for a name",
        (
            Edit(
                "outbox/routing.py",
                "    for sealed in sorted(topic.sealed, key=lambda one: one.sealed_time_us):\n"
                "        if sealed.sealed_time_us",
                "    for sealed in ():\n        if sealed.sealed_time_us",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/test_outbox_routing.py"
        "::test_other_groups_that_may_know_the_name_are_asked_first",
    ),
    Mutant(
        "a redrive notes a batch before it is stored",
        (
            Edit(
                "scheduler/redriving.py",
                "                    step = await course.publish(batch)\n"
                "                    await self._note(course, step)",
                "                    noted = _Step([each.uid for each in batch], 0)\n"
                "                    await self._note(course, noted)\n"
                "                    step = await course.publish(batch)",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_redriving.py"
        "::test_what_is_stored_no_more_is_counted_and_stays_open",
    ),
    Mutant(
        "an aborted publication is forgotten at once",
        (
            Edit(
                "scheduler/publications.py",
                '            "aborted": ABORTED_FOR_S,',
                '            "aborted": 0.0,',
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_publications.py"
        "::test_an_aborted_publication_is_kept_for_longer_than_staging_may_take",
    ),
    Mutant(
        "a publication that could not be discarded is forgotten",
        (
            Edit(
                "scheduler/publications.py",
                "                except StoreError as error:\n"
                "                    failed = error\n"
                "                    left += 1",
                "                except StoreError as error:\n"
                "                    failed = error\n"
                "                    left += 1\n"
                "                    if state == 'aborted':\n"
                "                        await self._publications.discarded([publication])",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_publications.py"
        "::test_what_cannot_be_discarded_yet_is_not_forgotten",
    ),
    Mutant(
        "a sealed queue goes while delayed messages go through it",
        (Edit("scheduler/truncator.py", "in self._led_to:", "in ():"),),
        breaks="P3",
        killed_by="tests/integration/scheduler/test_trimming.py"
        "::test_a_sealed_generation_stays_while_a_delayed_message_goes_through_it",
    ),
    Mutant(
        "a copy that was published before the new time counts as published at it",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "        if due_us is None or known.log_time_us < due_us:\n",
                "        if due_us is None:\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_what_was_rescheduled_is_not_published_before_its_new_time",
    ),
    Mutant(
        "a copy that was made because of a change is told as one from before it",
        (
            Edit(
                "publish_forwarder/scheduled.py",
                "        if due_us is None or known.log_time_us < due_us:\n",
                "        if True:\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/scheduler/test_forwarding_changes.py"
        "::test_what_is_to_be_sent_at_once_may_be_forwarded_before_that_is_answered",
    ),
)
