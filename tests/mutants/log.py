"""Mutants of what a store node keeps: the log, checkpoints, installs, confirmed reads."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a frame begins within a word",
        (
            Edit(
                "store_nodes/wal/frame.py",
                "            if length % ALIGNMENT:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_what_is_written_is_read",
        breaks="P1",
        trips="within a word",
    ),
    Mutant(
        "a roll leaves a segment out",
        (
            Edit(
                "store_nodes/wal/log.py",
                "writer.activate(writer.number + 1, SEGMENT_HEADER_BYTES + need)",
                "writer.activate(writer.number + 2, SEGMENT_HEADER_BYTES + need)",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_a_full_segment_is_sealed_and_the_next_is_ready",
        breaks="P1",
        trips="segment 3 after 1",
    ),
    Mutant(
        "a write goes on beyond its segment",
        (
            Edit(
                "store_nodes/wal/log.py",
                "        if writer.fits(need):\n            return\n",
                "        if True:\n            return\n",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_a_flush_never_straddles_segments",
        breaks="P1",
        trips="straddles",
    ),
    Mutant(
        "zeros behind a write leave the blocks that were reserved",
        (
            Edit(
                "store_nodes/wal/writer.py",
                "self._filled = min(self.capacity, (end // AHEAD_BYTES + 1) * AHEAD_BYTES)",
                "self._filled = (end // AHEAD_BYTES + 1) * AHEAD_BYTES",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_zeros_stay_within_the_segment",
        breaks="P1",
    ),
    Mutant(
        "zeros come before the frames of their write",
        (
            Edit(
                "store_nodes/wal/writer.py",
                "                buffers.append(_ZEROS[: self._filled - end])\n",
                "                buffers.insert(0, _ZEROS[: self._filled - end])\n",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_a_reopened_log_goes_on",
        breaks="P1",
    ),
    Mutant(
        "a footer that does not add up is read",
        (
            Edit(
                "store_nodes/wal/footer.py",
                "    if extras_at + extras != len(payload):\n",
                "    if False:\n",
            ),
        ),
        killed_by="tests/unit/wal/test_footer_and_segment.py"
        "::test_a_footer_that_does_not_add_up_is_an_error_of_its_own",
        breaks="P1",
    ),
    Mutant(
        "a compacted segment gets a number that will be used again",
        (
            Edit(
                "store_nodes/storage/compaction.py",
                "        next_segment=max([old.next_segment, *(one + 1 for one in sizes)]),\n",
                "        next_segment=old.next_segment,\n",
            ),
        ),
        killed_by="tests/unit/storage/test_compaction.py"
        "::test_what_is_live_is_moved_and_the_rest_is_gone",
        breaks="P1",
        trips="not a list of compacted segments",
    ),
    Mutant(
        "a compaction that writes no segment gives used numbers again",
        (
            Edit(
                "store_nodes/storage/compaction.py",
                "        next_segment=max([old.next_segment, *(one + 1 for one in sizes)]),\n",
                "        next_segment=max([FIRST_COMPACTED, *(one + 1 for one in (*old.segments, "
                "*sizes) if one not in victims.segments)]),\n",
            ),
        ),
        killed_by="tests/unit/storage/test_compaction.py"
        "::test_a_list_goes_on_from_the_last_where_nothing_is_live",
        breaks="P1",
        trips="a segment is used twice",
    ),
    Mutant(
        "a compaction of compacted segments alone brings raw ones back",
        (
            Edit(
                "store_nodes/storage/victims.py",
                "upto = raw[-1] if raw else wal.compacted.first_segment - 1\n",
                "upto = raw[-1] if raw else 0\n",
            ),
            Edit(
                "store_nodes/storage/compaction.py",
                "        first_segment=max(old.first_segment, victims.raw_upto + 1),\n",
                "        first_segment=victims.raw_upto + 1,\n",
            ),
        ),
        killed_by="tests/unit/storage/test_compaction.py"
        "::test_a_list_goes_on_from_the_last_where_nothing_is_live",
        breaks="P1",
        trips="raw segments come back",
    ),
    Mutant(
        "a list of compacted segments that contradicts itself is trusted",
        (Edit("store_nodes/wal/compacted.py", " or not found.is_sound", ""),),
        killed_by="tests/unit/wal/test_footer_and_segment.py"
        "::test_a_list_of_compacted_segments_that_contradicts_itself_is_not_trusted",
        breaks="P1",
    ),
    Mutant(
        "the end of the log is told before it is synced",
        (
            Edit(
                "store_nodes/wal/log.py",
                "            positions = self._writer.append(records)\n",
                "            positions = self._writer.append(records)\n"
                "            self._tail = Position(self._writer.number, self._writer.end, 0)\n",
            ),
        ),
        killed_by="tests/unit/wal/test_log.py::test_a_tail_is_what_is_synced",
        breaks="P1",
    ),
    Mutant(
        "a payload that rotted is read",
        (
            Edit(
                "store_nodes/wal/frame.py",
                "        return crc32c(view[frame.payload_at : frame.payload_at + "
                "frame.length]) == frame.payload_crc\n",
                "        return len(view) > 0\n",
            ),
        ),
        killed_by="tests/unit/wal/test_damage.py::test_a_bit_anywhere_below_the_mark",
        breaks="P1",
    ),
    Mutant(
        "a frame of another place of its segment is taken for the one that belongs there",
        (
            Edit(
                "store_nodes/wal/recovery.py",
                "            if previous is not None and found.previous != previous:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/wal/test_damage.py::test_a_frame_of_another_place",
        breaks="P1",
    ),
    Mutant(
        "a checkpoint needs a log that may be gone",
        (
            Edit(
                "store_nodes/checkpoint/store.py",
                "        assert not any(start) or self.oldest_start is None or start "
                ">= self.oldest_start, (\n",
                "        assert True, (\n",
            ),
        ),
        killed_by="tests/unit/checkpoint/test_checkpoint_store.py"
        "::test_no_checkpoint_needs_a_log_that_may_be_gone",
        breaks="P1",
    ),
    Mutant(
        "a checkpoint is named before its name is durable",
        (
            Edit(
                "store_nodes/checkpoint/store.py",
                "        self._files.sync_directory()\n        if _ASIDE",
                "        if _ASIDE",
            ),
        ),
        killed_by="tests/unit/checkpoint/test_checkpoint_store.py::test_power_cut_at_every_step",
        breaks="P1",
    ),
    Mutant(
        "a checkpoint that does not match its manifest is loaded",
        (
            Edit(
                "store_nodes/checkpoint/store.py",
                "        if not manifest.matches(file):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/checkpoint/test_checkpoint_store.py"
        "::test_damage_of_the_newest_falls_back_and_says_so",
        breaks="P1",
    ),
    Mutant(
        "a manifest in the slot of another is believed",
        (
            Edit(
                "store_nodes/checkpoint/store.py",
                "            if manifest.number % len(MANIFESTS) != slot:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/checkpoint/test_checkpoint_store.py"
        "::test_a_manifest_in_the_wrong_slot_is_damage",
        breaks="P1",
    ),
    Mutant(
        "an image of a source that is behind is taken",
        (
            Edit(
                "store_nodes/node/install.py",
                "return await sources.client.snapshot(group, node, least=least)",
                "return await sources.client.snapshot(group, node, least=0)",
            ),
        ),
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_a_source_that_is_behind_is_passed_over",
        breaks="P1",
    ),
    Mutant(
        "a peer gives an image that would take the other back",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        if machine.applied < least:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/store_client/test_snapshots.py::test_a_node_that_is_behind_refuses",
        breaks="P1",
    ),
    Mutant(
        "an image need not cover what the node has",
        (
            Edit(
                "store_nodes/node/install.py",
                "    return max(oldest, acceptor.chosen + 1)\n",
                "    return oldest\n",
            ),
        ),
        killed_by="tests/unit/store_node/test_install_rule.py::test_what_an_image_must_cover",
        breaks="P1",
    ),
    Mutant(
        "an install goes on although the group does without it",
        (
            Edit(
                "store_nodes/node/install.py",
                "            if not is_ahead(self._host.acceptor(group), image.applied):\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_an_install_ends_when_the_group_went_on_without_it[2]",
        breaks="P1",
    ),
    Mutant(
        "a start takes a checkpoint that is behind its mark",
        (
            Edit(
                "store_nodes/node/start.py",
                "        if machine.applied < group.reached:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_a_start_refuses_a_checkpoint_that_is_behind_its_mark",
        breaks="P1",
        fails_with="ValueError",
    ),
    Mutant(
        "a checkpoint forgets how far its node was",
        (
            Edit(
                "store_nodes/node/start.py",
                "GroupCheckpoint(group.id, acceptor.promised, upto, raw, machine.applied)",
                "GroupCheckpoint(group.id, acceptor.promised, upto, raw, 0)",
            ),
        ),
        killed_by="tests/unit/store_node/test_never_back.py"
        "::test_an_image_that_is_ahead_is_installed_and_the_promise_stays",
        breaks="P1",
    ),
    Mutant(
        "what is staged is answered by a leader that was deposed",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        machine = (await self._confirmed(group)).machine\n        changes = ",
                "        machine = self.group(group).machine\n        changes = ",
            ),
        ),
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by[staged]",
        breaks="P2",
    ),
    Mutant(
        "what was rescheduled is answered by a leader that was deposed",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        machine = (await self._confirmed(group)).machine\n        numbers, now = ",
                "        machine = self.group(group).machine\n        numbers, now = ",
            ),
        ),
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by[staged_changes]",
        breaks="P2",
    ),
    Mutant(
        "the list of queues is answered by a leader that was deposed",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        found = await self._confirmed(group)\n        rows = sorted(",
                "        found = self.group(group)\n        rows = sorted(",
            ),
        ),
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by[queues]",
        breaks="P2",
    ),
    Mutant(
        "where a time begins is answered by a leader that was deposed",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        found = await self._confirmed(group)\n        offsets, batches = ",
                "        found = self.group(group)\n        offsets, batches = ",
            ),
        ),
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by[offset_at]",
        breaks="P2",
    ),
    Mutant(
        "where a size begins is answered by a leader that was deposed",
        (
            Edit(
                "store_nodes/node/client_service.py",
                "        found = await self._confirmed(group)\n        offsets = found",
                "        found = self.group(group)\n        offsets = found",
            ),
        ),
        killed_by="tests/unit/test_client_service.py"
        "::test_a_deposed_leader_answers_nothing_that_is_decided_by[offset_back]",
        breaks="P2",
    ),
    Mutant(
        "a compaction does not move where raw segments begin",
        (
            Edit(
                "store_nodes/storage/compaction.py",
                "        first_segment=max(old.first_segment, victims.raw_upto + 1),\n",
                "        first_segment=old.first_segment,\n",
            ),
        ),
        killed_by="tests/unit/storage/test_compaction.py"
        "::test_what_is_live_is_moved_and_the_rest_is_gone",
        breaks="P1",
        trips="is not compacted",
    ),
    Mutant(
        "a start tells an earlier value of an instance whose later record is lost",
        (
            Edit(
                "store_nodes/node/start.py",
                "            found.instances.forget_upto(max(damaged))\n",
                "            pass\n",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/store_node/test_lost_records.py"
        "::test_an_earlier_value_of_an_instance_is_forgotten_with_the_segment_of_the_later_one",
    ),
    Mutant(
        "a segment that lost records leaves earlier ones to be told",
        (
            Edit(
                "store_nodes/storage/instance_index.py",
                "if one.segment <= segment]\n        if dropped",
                "if one.segment == segment]\n        if False and dropped",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/storage/test_instance_index.py"
        "::test_a_segment_that_lost_records_takes_earlier_ones_with_it",
    ),
)
