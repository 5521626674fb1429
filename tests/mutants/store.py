"""Mutants of the store nodes: consensus, the state machine, the write-ahead log, compaction."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a confirmed read does not wait for the values that phase 1 found",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        index = max(state.acceptor.chosen, led.recovered_upto)",
                "        index = state.acceptor.chosen",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_read_waits_for_the_values_that_phase_1_found",
    ),
    Mutant(
        "a damaged node confirms reads",
        (
            Edit(
                "store_nodes/consensus/leader.py",
                "        if message.flags & Flag.DAMAGED:\n"
                "            # It may have lost a promise to another leader: it confirms nothing.\n"
                "            return\n",
                "",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_damaged_node_confirms_no_read",
    ),
    Mutant(
        "the promise of a learner counts",
        (
            Edit(
                "store_nodes/consensus/candidate.py",
                "            or standing.ballot != message.ballot\n"
                "            or source not in state.voter_set\n"
                "        ):\n"
                "            return False\n"
                "        standing.add_promise",
                "            or standing.ballot != message.ballot\n"
                "        ):\n"
                "            return False\n"
                "        standing.add_promise",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/consensus/test_membership_changes.py"
        "::test_a_learners_promise_is_not_counted",
    ),
    Mutant(
        "a node promises to a candidate that is behind its floor",
        (
            Edit(
                "store_nodes/consensus/follower.py",
                "            or message.start < acceptor.floor\n"
                "            or not self._may_lead(source, message.start)",
                "            or not self._may_lead(source, message.start)",
            ),
            Edit(
                "store_nodes/consensus/acceptor.py",
                "        assert start >= self.floor, ",
                "        assert True, ",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/consensus/test_replica.py"
        "::test_a_node_promises_nothing_that_it_cannot_report_from_memory",
    ),
    Mutant(
        "a sealed queue gives offsets to a release",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "        if self.sealed and stages.would_release(numbers, log_time_us):",
                "        if False and stages.would_release(numbers, log_time_us):",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/machine/test_stage_rules.py"
        "::test_a_sealed_queue_releases_nothing_but_says_what_it_released",
    ),
    Mutant(
        "a message is released a second early",
        (
            Edit(
                "store_nodes/machine/stages.py",
                "(due_us == HELD or due_us <= log_time_us)",
                "(due_us == HELD or due_us <= log_time_us + 1_000_000)",
            ),
        ),
        breaks="P3",
        killed_by="tests/unit/machine/test_stage_rules.py::test_what_is_not_due_stays",
    ),
    Mutant(
        "sessions are forgotten at their deadline",
        (
            Edit(
                "store_nodes/machine/sessions.py",
                "FORGET_AFTER_US = 60 * 1_000_000",
                "FORGET_AFTER_US = 0",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/machine/test_machine_rules.py"
        "::test_a_refusal_for_the_deadline_consumes_and_repeats",
    ),
    Mutant(
        "ids are forgotten a quarter of the window early",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "    ends_us = (log_time_us + window_us) // grid * grid + grid\n",
                "    ends_us = (log_time_us + window_us) // grid * grid\n",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/machine/test_dedup_rules.py"
        "::test_an_id_is_remembered_its_window_and_at_most_a_quarter_more",
        trips="would end at",
    ),
    Mutant(
        "a truncation brings kept offsets back that were gone",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "                if offset < upto and offset in readable\n",
                "                if offset < upto\n",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/machine/test_machine_rules.py"
        "::test_the_kept_set_is_replaced_and_revives_nothing",
    ),
    Mutant(
        "an older copy of the directory of a peer is let in",
        (
            Edit(
                "store_nodes/node/known_peers.py",
                "    if remote.boot > known.boot and remote.tail < known.tail:",
                "    if False:",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_transport/test_known_peers.py"
        "::test_who_comes_back_with_less_is_refused_with_the_remedy",
    ),
    Mutant(
        "two copies of one directory are let in",
        (
            Edit(
                "store_nodes/node/known_peers.py",
                "if remote.boot == known.boot and known.boot and remote.run.hex() != known.run:",
                "if False:",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_transport/test_known_peers.py"
        "::test_who_comes_back_with_less_is_refused_with_the_remedy",
    ),
    Mutant(
        "rot above the last mark counts as a torn tail",
        (
            Edit(
                "store_nodes/wal/recovery.py",
                "    if not hole.followed:\n        return False",
                "    return False",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_damage.py"
        "::test_rot_above_the_mark_is_damage_when_a_whole_frame_follows",
    ),
    Mutant(
        "a tail that ends below a checkpoint is cut and not damage",
        (
            Edit(
                "store_nodes/wal/recovery.py",
                "    if end < synced and not holes:",
                "    if False and not holes:",
            ),
            Edit(
                "store_nodes/wal/recovery.py",
                "    if end >= synced and not any",
                "    if not any",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_damage.py::test_a_lost_block",
    ),
    Mutant(
        "a repaired damage comes back after a restart",
        (
            Edit(
                "store_nodes/wal/recovery.py",
                "self._all = repaired\n                self._store()",
                "self._all = repaired",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_damage.py"
        "::test_damage_lasts_until_it_is_repaired_and_is_not_found_again",
    ),
    Mutant(
        "repaired damage of a segment that is removed stays in the list",
        (
            Edit(
                "store_nodes/wal/log.py",
                "        self.damages.forget(removed.__contains__)\n",
                "",
            ),
            Edit("store_nodes/wal/opening.py", "    book.forget(compacted.has_replaced)\n", ""),
        ),
        breaks="P5",
        killed_by="tests/unit/wal/test_damage.py"
        "::test_what_is_repaired_is_forgotten_once_its_segment_is_removed[neither]",
    ),
    Mutant(
        "repaired damage is forgotten while its segment is there, and found again",
        (
            Edit(
                "store_nodes/wal/opening.py",
                "book.forget(compacted.has_replaced)",
                "book.forget(lambda segment: True)",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_damage.py"
        "::test_what_is_repaired_is_forgotten_once_its_segment_is_removed[neither]",
    ),
    Mutant(
        "damage that is not repaired is forgotten with its segment",
        (
            Edit(
                "store_nodes/wal/recovery.py",
                "if not (one.repaired and is_gone(one.segment))",
                "if not is_gone(one.segment)",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_damage.py"
        "::test_what_is_repaired_is_forgotten_once_its_segment_is_removed[repair]",
    ),
    Mutant(
        "a stop while a copied batch is written ends the node as a crash does",
        (
            Edit(
                "store_nodes/node/recovering.py",
                "if not written.done():  # A stop",
                "if True:  # A stop",
            ),
        ),
        breaks="P17",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_a_stop_while_a_copied_batch_is_written_is_no_failure",
        fails_with="asyncio.exceptions.InvalidStateError",
    ),
    Mutant(
        "a node tells peers values as chosen that it accepted below an installed machine",
        (
            Edit(
                "store_nodes/node/start.py",
                "        wal.forget_instances(_passed(machines, loaded))\n",
                "",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_a_value_below_an_installed_machine_is_told_to_no_peer_as_chosen",
    ),
    Mutant(
        "a group that is added meanwhile keeps the node that was replaced",
        (
            Edit(
                "store_nodes/admin/members.py",
                "            done.update(added)\n",
                "            break\n",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_admin/test_members.py"
        "::test_a_group_that_is_added_meanwhile_has_the_change_too[1]",
    ),
    Mutant(
        "the timeout of a change of the members bounds no steps together",
        (
            Edit(
                "store_nodes/admin/operator.py",
                "self._deadline_s = asyncio.get_running_loop().time() + self.timeout_s",
                "self._deadline_s = math.inf",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_admin/test_members.py"
        "::test_the_timeout_bounds_all_steps_together[add-steps]",
    ),
    Mutant(
        "each wait for a leader has the whole timeout of a change of the members",
        (
            Edit(
                "store_nodes/admin/operator.py",
                "        deadline_s = min(deadline_s, self._deadline_s)\n",
                "",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_admin/test_members.py"
        "::test_the_timeout_bounds_all_steps_together[add-leaders]",
    ),
    Mutant(
        "a node that does not answer is said to be catching up",
        (
            Edit(
                "store_nodes/admin/members.py",
                'row is not None and row.state == "down":',
                'row is not None and row.state == "removed":',
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_admin/test_members.py"
        "::test_a_node_that_dies_while_it_is_added_ends_the_command_and_is_named",
    ),
    Mutant(
        "the new node votes beside the dead one that it replaces",
        (
            Edit(
                "store_nodes/admin/members.py",
                "        if is_down:\n",
                "        if False:\n",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_admin/test_members.py"
        "::test_a_node_that_is_down_leaves_before_the_new_one_votes",
    ),
    Mutant(
        "nobody asks who the members of an added group are",
        (Edit("store_nodes/node/node.py", "            self._learn_members()\n", ""),),
        breaks="P5",
        killed_by="tests/unit/store_node/test_new_groups.py"
        "::test_voters_that_were_away_when_a_group_was_added_learn_its_members_from_a_peer",
    ),
    Mutant(
        "a node that has stopped goes on writing",
        (Edit("store_nodes/node/node.py", "        self._stopped = True\n", ""),),
        breaks="P17",
        killed_by="tests/unit/store_node/test_stopping.py"
        "::test_what_a_group_hears_while_connections_close_is_not_written",
    ),
    Mutant(
        "storage begins a round after it was closed",
        (
            Edit(
                "store_nodes/storage/storage.py",
                "        if self._closed:\n            return\n",
                "",
            ),
        ),
        breaks="P17",
        killed_by="tests/unit/storage/test_compaction.py"
        "::test_no_round_begins_once_the_storage_is_closed",
    ),
    Mutant(
        "the boot record is not synced",
        (
            Edit(
                "store_nodes/node/boot.py",
                "            self._disk.sync_data(fd)\n",
                "",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_boot.py::test_what_peers_were_told_survives_a_power_cut",
    ),
    Mutant(
        "locate is answered by any replica",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        await found.read_index()\n        return found",
                "        return found",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by",
    ),
    Mutant(
        "a checkpoint forgets unapplied accepts below the end of the log",
        (
            Edit(
                "store_nodes/node/start.py",
                "[position for group in self.groups for position in group.positions.values()]",
                "[]",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/checkpoint/test_checkpoint_draft.py"
        "::test_the_log_is_read_from_the_earliest_record_that_was_not_applied",
    ),
    Mutant(
        "a session is replaced at its deadline without a margin",
        (
            Edit(
                "store_nodes/client/appender.py",
                "PAST_DEADLINE_MARGIN_US = 1_000_000",
                "PAST_DEADLINE_MARGIN_US = -2_000_000",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/store_client/test_appender.py"
        "::test_a_session_is_kept_a_while_past_the_deadline_of_what_was_lost",
    ),
    Mutant(
        "a new session does not wait for appends that may still be applied",
        (
            Edit(
                "store_nodes/client/appender.py",
                "if entry.maybe_applied and not (self._hole and entry.seq > self._hole):\n"
                "                return",
                "if False:\n                return",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/store_client/test_appender.py"
        "::test_a_new_session_waits_for_what_may_still_be_applied",
    ),
    Mutant(
        "a raw segment that holds the start of a checkpoint is removed",
        (
            Edit(
                "store_nodes/storage/victims.py",
                "min(start[0], attached + 1)",
                "min(start[0] + 1, attached + 1)",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/storage/test_victims.py"
        "::test_the_segment_that_a_start_reads_from_stays",
    ),
    Mutant(
        "a segment is removed although a member needs its last instance",
        (
            Edit(
                "store_nodes/storage/victims.py",
                "        if any(least is None or last >= least for least, last in floors):",
                "        if any(least is None or last > least for least, last in floors):",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/storage/test_victims.py"
        "::test_a_segment_stays_while_a_member_needs_its_last_instance",
    ),
    Mutant(
        "an install drops the promise of the node",
        (
            Edit(
                "store_nodes/node/start.py",
                "GroupCheckpoint(group.id, acceptor.promised, upto, raw, machine.applied)",
                "GroupCheckpoint(group.id, 0, upto, raw, machine.applied)",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_an_image_that_is_ahead_is_installed_and_the_promise_stays",
    ),
    Mutant(
        "a group commit answers before the sync",
        (
            Edit(
                "store_nodes/wal/group_commit.py",
                "                log.sync()\n"
                "                ended_s = time.monotonic()\n"
                "                call(self._flushed, positions, ended_s - started_s, ended_s)",
                "                ended_s = time.monotonic()\n"
                "                call(self._flushed, positions, ended_s - started_s, ended_s)\n"
                "                log.sync()",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/wal/test_group_commit.py::test_done_after_the_sync_with_positions",
        trips="the log is synced to",
    ),
    Mutant(
        "the offset of a time is one after lost messages of that time",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        if at > offsets.first and batches.missing(queue, at - 1, at):",
                "        if False and batches.missing(queue, at - 1, at):",
            ),
        ),
        breaks="P1",
        fails_with="Failed",
        killed_by="tests/unit/test_reads.py::test_a_time_at_which_offsets_are_lost_has_no_offset",
    ),
    Mutant(
        "damage beside an index that cannot be read is not recorded",
        (
            Edit(
                "store_nodes/storage/storage.py",
                "                if error.damage.segment in unreadable:\n"
                "                    raise\n",
                "                raise\n",
            ),
        ),
        breaks="P1",
        fails_with="store_nodes.wal.errors.WalDamaged",
        killed_by="tests/unit/storage/test_damaged_storage.py"
        "::test_damage_in_a_segment_whose_index_cannot_be_read_is_recorded",
    ),
    Mutant(
        "a read raises where an index cannot be read",
        (
            Edit(
                "store_nodes/storage/batch_index.py",
                "                if self.on_damage is None:\n                    raise\n",
                "                raise\n",
            ),
        ),
        breaks="P1",
        fails_with="store_nodes.wal.errors.WalDamaged",
        killed_by="tests/unit/storage/test_damaged_storage.py"
        "::test_a_read_does_without_rows_that_cannot_be_read",
    ),
    Mutant(
        "a start attaches an index that could not be read",
        (
            Edit(
                "store_nodes/storage/loading.py",
                "            if segment in gone:",
                "            if False and segment in gone:",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/storage/test_damaged_storage.py"
        "::test_an_index_that_cannot_be_read_is_not_attached_again",
    ),
    Mutant(
        "an index in use that is called repaired is not reported",
        (
            Edit(
                "store_nodes/storage/storage.py",
                "            one for one in damages if loses_index(one) or (one",
                "            one for one in damages if (one",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/storage/test_damaged_storage.py"
        "::test_rows_in_use_of_an_index_that_is_known_as_repaired_are_reported",
    ),
    Mutant(
        "a start asks for nothing of an index that is called repaired",
        (
            Edit(
                "store_nodes/node/start.py",
                "if one.repaired and loses_index(one)]",
                "if one.repaired and False]",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_a_start_asks_for_the_batches_of_an_index_that_is_called_repaired",
    ),
    Mutant(
        "an index of instances that cannot be read is not reported",
        (
            Edit(
                "store_nodes/node/group.py",
                "                self._shell.damaged(error.damage)\n",
                "",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_a_peer_that_asks_for_an_instance_of_an_unreadable_index_does_not_end_the_node",
    ),
    Mutant(
        "an image that the group has passed is installed",
        (Edit("store_nodes/node/start.py", " and is_ahead(acceptor, image.applied)", ""),),
        breaks="P1",
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_an_image_that_the_group_has_passed_is_not_installed",
    ),
    Mutant(
        "a checkpoint counts a group that it does not have",
        (
            Edit(
                "store_nodes/node/start.py",
                "for group in self.groups if group.id == 0",
                "for group in self.groups if group.id < 0",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_new_groups.py"
        "::test_a_checkpoint_that_counts_a_group_has_it",
    ),
    Mutant(
        "an appender leaves a sequence out",
        (
            Edit(
                "store_nodes/client/appender.py",
                "        self._next_seq += 1\n",
                "        self._next_seq += 2\n",
            ),
        ),
        breaks="P2",
        trips="sequence 3 after 1",
        killed_by="tests/unit/store_client/test_appender.py"
        "::test_appends_get_dense_offsets_in_the_order_of_the_calls",
    ),
)
