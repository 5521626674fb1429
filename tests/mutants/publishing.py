"""Mutants of the publish forwarder, the outbox and the scheduler."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

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
                '                    dedup=b"".join(\n'
                "                        "
                "delayed.copy_ids(index, queue.id, each.number, each.turn)\n"
                "                        for index, each in enumerate(staged)\n"
                "                    ),\n",
                '                    dedup=b"",\n',
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/scheduler/test_forwarding.py"
        "::test_a_copy_is_made_once_whenever_the_scheduler_dies",
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
                "publish_forwarder/level.py",
                "REMEMBERED = 1.25",
                "REMEMBERED = 0.5",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_moves.py"
        "::test_while_an_id_may_be_remembered_its_sealed_queue_is_asked",
    ),
    Mutant(
        "lanes of successors send before the old ones are quiet",
        (
            Edit(
                "publish_forwarder/moves.py",
                "            for lane in new:\n                lane.hold()",
                "            for lane in new:\n                pass",
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
                "publish_forwarder/level.py",
                "                if has_ids or not lane.idle:",
                "                if has_ids:",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/publish_forwarder/test_moves.py"
        "::test_a_message_without_an_id_does_not_pass_one_whose_id_is_asked_for",
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
)
