"""Mutants of the state machine: sequences, ids, staged messages, snapshots."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "log time goes back to a stamp",
        (
            Edit(
                "store_nodes/machine/machine.py",
                "        if stamp_us > log_time_us:\n            log_time_us = stamp_us\n",
                "        log_time_us = stamp_us\n",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py"
        "::test_log_time_never_goes_back_and_never_stands",
        breaks="P2",
        trips="log time",
    ),
    Mutant(
        "a sealed queue takes appends",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "        if self.sealed:\n            # An id stored before",
                "        if False:\n            # An id stored before",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py::test_seal",
        breaks="P2",
        trips="after the seal",
    ),
    Mutant(
        "a release skips an offset",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "stages.release(numbers, self.end, readable, log_time_us)",
                "stages.release(numbers, self.end + 1, readable, log_time_us)",
            ),
        ),
        killed_by="tests/unit/machine/test_stage_rules.py"
        "::test_a_release_gives_offsets_in_the_order_named",
        breaks="P2",
        trips="is next",
    ),
    Mutant(
        "a gap of sequences is let through",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "        if append.seq != last_seq + 1:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py::test_a_gap_consumes_nothing",
        breaks="P2",
        trips="after",
    ),
    Mutant(
        "offsets above a truncation are kept as if they were below",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "                if offset < upto and offset in readable\n",
                "                if offset in readable\n",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py"
        "::test_the_kept_set_is_replaced_and_revives_nothing",
        breaks="P3",
        trips="kept below",
    ),
    Mutant(
        "an append takes two sequences",
        (
            Edit(
                "store_nodes/machine/sessions.py",
                "        self.last_seq += 1\n",
                "        self.last_seq += 2\n",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py::test_a_repeat_gets_its_old_receipt",
        breaks="P2",
        trips="leaves a gap",
    ),
    Mutant(
        "a refusal for a known id leaves no receipt",
        (
            Edit(
                "store_nodes/machine/sessions.py",
                "for cls in (DeadlinePassed, TooLarge, Overloaded, DedupKnown)",
                "for cls in (DeadlinePassed, TooLarge, Overloaded)",
            ),
        ),
        killed_by="tests/unit/machine/test_dedup_rules.py"
        "::test_a_refused_batch_consumes_its_sequence_and_repeats",
        breaks="P2",
        trips="no refusal that is kept",
    ),
    Mutant(
        "a repeated append is stored again",
        (
            Edit(
                "store_nodes/machine/queues.py",
                "        if session is not None and append.seq <= last_seq:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py::test_a_repeat_gets_its_old_receipt",
        breaks="P2",
    ),
    Mutant(
        "a full table of ids takes more",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "return self.entries + len(section) // _ENTRY.size <= MAX_DEDUP_ENTRIES",
                "return True",
            ),
        ),
        killed_by="tests/unit/machine/test_dedup_rules.py"
        "::test_a_full_table_refuses_and_forgets_nothing",
        breaks="P2",
        trips="ids are remembered",
    ),
    Mutant(
        "the last of two equal ids of a batch is the one",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "            if bucket.find(high, low) is None:\n",
                "            if True:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_dedup_rules.py"
        "::test_the_first_of_two_equal_ids_of_a_batch_is_the_one",
        breaks="P2",
    ),
    Mutant(
        "a staged message is known by an offset that it has not",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "first = base + (_STAGED if staged else 0)",
                "first = base",
            ),
        ),
        killed_by="tests/unit/machine/test_dedup_rules.py"
        "::test_a_staged_message_is_known_by_its_stage_number",
        breaks="P2",
    ),
    Mutant(
        "stage numbers are given twice",
        (Edit("store_nodes/machine/stages.py", "        self.end += count\n", ""),),
        killed_by="tests/unit/machine/test_stage_rules.py"
        "::test_stage_numbers_are_dense_and_of_the_queue",
        breaks="P3",
        trips="stage number 0 after",
    ),
    Mutant(
        "a message is discarded that is staged no more",
        (
            Edit(
                "store_nodes/machine/stages.py",
                "            if found is not None and found[0].places[found[1]] == "
                "STAGED:\n"
                "                self._remove",
                "            if found is not None:\n                self._remove",
            ),
        ),
        killed_by="tests/unit/machine/test_stage_rules.py"
        "::test_what_is_discarded_or_unknown_has_no_offset",
        breaks="P3",
    ),
    Mutant(
        "a reschedule changes nothing",
        (
            Edit(
                "store_nodes/machine/stages.py",
                "                found[0].dues[found[1]] = due_us\n",
                "",
            ),
        ),
        killed_by="tests/unit/machine/test_stage_rules.py::test_reschedule",
        breaks="P3",
    ),
    Mutant(
        "a queue is restored whose offsets contradict each other",
        (
            Edit(
                "store_nodes/machine/snapshot.py",
                "    if not 0 <= raw.base <= raw.first <= raw.end or (\n",
                "    if (\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[first "
        "beyond the end]",
        breaks="P2",
    ),
    Mutant(
        "a queue is restored twice",
        (
            Edit(
                "store_nodes/machine/snapshot.py",
                "        if len({queue.queue for queue in found.queues}) != len(found.queues):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[a queue twice]",
        breaks="P2",
    ),
    Mutant(
        "ids are restored out of the order of their hashes",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "        if edges != sorted(edges):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[ids out "
        "of the order of their hashes]",
        breaks="P2",
    ),
    Mutant(
        "ids are restored out of the order in which they end",
        (
            Edit(
                "store_nodes/machine/dedup.py",
                "        if any(later <= earlier for earlier, later in pairwise(ends)):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[ids that "
        "end out of order]",
        breaks="P2",
    ),
    Mutant(
        "stage numbers are restored out of order",
        (
            Edit(
                "store_nodes/machine/stages.py",
                "        if edges != sorted(edges) or (edges and edges[-1] >= stages.end):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[stage "
        "numbers out of order]",
        breaks="P3",
    ),
    Mutant(
        "discarded numbers are restored out of order",
        (
            Edit(
                "store_nodes/machine/number_ranges.py",
                "        if any(later <= earlier for earlier, later in pairwise(edges)):\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_snapshots.py"
        "::test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot[ranges "
        "out of order]",
        breaks="P3",
    ),
    Mutant(
        "the digest does not depend on what was applied",
        (Edit("store_nodes/machine/digest.py", "crc32c(value), len(value)", "0, len(value)"),),
        killed_by="tests/unit/machine/test_machine_rules.py::test_digest_golden",
        breaks="P2",
    ),
    Mutant(
        "a counter is set whatever it was",
        (
            Edit(
                "store_nodes/machine/counters.py",
                "    if current != command.expected:\n",
                "    if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_group_rules.py::test_compare_and_set",
        breaks="P1",
    ),
    Mutant(
        "a delayed create brings a deleted queue back",
        (
            Edit(
                "store_nodes/machine/machine.py",
                "                self._tombstones[name] = None\n                return",
                "                return",
            ),
        ),
        killed_by="tests/unit/machine/test_machine_rules.py::test_delete_before_a_late_create",
        breaks="P2",
    ),
    Mutant(
        "anybody may be wished for as the leader",
        (
            Edit(
                "store_nodes/machine/machine.py",
                "        if node and self.membership.members and node not in "
                "self.membership.voters:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/machine/test_group_rules.py::test_transfer",
        breaks="P5",
    ),
    Mutant(
        "a dropped number is remembered twice",
        (
            Edit(
                "store_nodes/machine/stages.py",
                "            self._discarded.add(number)\n",
                "            self._discarded.add(number)\n"
                "            self._discarded.add(number)\n",
            ),
        ),
        killed_by="tests/unit/machine/test_stage_rules.py"
        "::test_a_discarded_message_stays_discarded_when_its_chunk_goes",
        breaks="P3",
        trips="is in already",
    ),
)
