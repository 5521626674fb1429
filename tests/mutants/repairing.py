"""Mutants of installs and repairs: what a node lacks, and how it gets it."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "an install does not wait for the traces that a peer is looking for",
        (
            Edit(
                "store_nodes/node/copying.py",
                'if not status.get("tracing") or time.monotonic() >= until_s:',
                "if True:",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_an_install_waits_for_the_traces_that_a_peer_is_looking_for",
    ),
    Mutant(
        "traces of a new loss are looked for once the attempt to repair is over",
        (
            Edit(
                "store_nodes/node/repair.py",
                'self._own(asyncio.create_task(self._trace(), name="store-node-traces"))',
                "pass",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_a_node_tells_its_traces_while_an_attempt_to_repair_goes_on",
        fails_with="TimeoutError",
    ),
    Mutant(
        "damage that is found during a repair is taken for repaired",
        (
            Edit(
                "store_nodes/node/repair.py",
                "self._batches_whole = self._batches_whole and filled",
                "self._batches_whole = filled",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_what_is_found_during_an_attempt_is_asked_for_in_another",
    ),
    Mutant(
        "damage that is put down during a repair is taken for repaired",
        (
            Edit(
                "store_nodes/node/repair.py",
                "self._wal.damages.repaired, self._covered",
                "self._wal.damages.repaired",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_what_is_put_down_and_not_yet_told_is_not_taken_for_repaired",
    ),
    Mutant(
        "an install does not copy what a truncation keeps meanwhile",
        (Edit("store_nodes/node/copying.py", "self._outdated = True", "pass"),),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_what_a_truncation_keeps_while_an_install_copies_is_copied_too",
    ),
    Mutant(
        "a repair ends before this node's machine names what a truncation keeps",
        (Edit("store_nodes/node/repair.py", "not missing and not outdated", "not missing"),),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_what_a_truncation_keeps_is_asked_for_until_this_machine_names_it",
    ),
    Mutant(
        "damage among what an install has copied is taken for repaired by the machines of now",
        (
            Edit(
                "store_nodes/node/repair.py",
                "if whole and not self._host.installing:",
                "if whole:",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_damage_found_while_an_install_copies_stays_in_the_list_for_the_next_start",
    ),
    Mutant(
        "damage is taken for repaired between an install and the start after it",
        (
            Edit(
                "store_nodes/node/install.py",
                "return self.active or bool(self._images)",
                "return self.active",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_repair.py"
        "::test_damage_found_while_an_install_copies_stays_in_the_list_for_the_next_start",
    ),
    Mutant(
        "a source that is down is waited for at every batch",
        (
            Edit(
                "store_nodes/node/copying.py",
                "if node not in up and node not in self._waited:",
                "if node not in up:",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_a_source_that_is_down_is_asked_last_and_waited_for_once",
    ),
    Mutant(
        "an install asks a source that is down first",
        (
            Edit(
                "store_nodes/node/copying.py",
                "        up = [node for node in self._nodes if self._is_up(node)]\n",
                "        up = list(self._nodes)\n",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_an_install_asks_the_sources_that_are_up",
    ),
    Mutant(
        "what no peer gave an install is not asked for again",
        (
            Edit(
                "store_nodes/node/install.py",
                "            self._incomplete.add(group)\n",
                "            pass\n",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_what_no_peer_gave_an_install_is_asked_for_after_it",
    ),
    Mutant(
        "an install forgets what this node alone has accepted and every peer has lost",
        (
            Edit(
                "store_nodes/node/copying.py",
                "found = self._own(group, told)\n",
                "found = []\n",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_an_install_finds_what_every_peer_lost_among_the_values_accepted_here",
    ),
    Mutant(
        "a lost batch is looked for in any value that was accepted in its instance",
        (
            Edit(
                "store_nodes/storage/traces.py",
                "return len(payload) == self.payload_bytes and crc32c(payload) == self.payload_crc",
                "return len(payload) == self.payload_bytes",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/storage/test_traces.py"
        "::test_a_batch_of_a_raw_segment_is_found_by_its_value",
    ),
    Mutant(
        "a value of any ballot is taken for the one that was lost",
        (
            Edit(
                "store_nodes/storage/traces.py",
                "is_same = ballot == self.ballot if of_ballot",
                "is_same = ballot > 0 if of_ballot",
            ),
        ),
        breaks="P2",
        killed_by="tests/unit/storage/test_traces.py"
        "::test_a_value_is_the_one_of_its_ballot_if_the_frame_header_is_damaged_too",
    ),
    Mutant(
        "a damaged node does not tell how its lost batches were written",
        (
            Edit(
                "store_nodes/node/repair.py",
                "            if lost:\n                self.traces +=",
                "            if False:\n                self.traces +=",
            ),
        ),
        breaks="P1",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_a_node_tells_how_the_messages_that_it_lost_were_written",
        fails_with="TimeoutError",
    ),
    Mutant(
        "what was deleted while an install copied counts as missing",
        (
            Edit(
                "store_nodes/node/install.py",
                "outdated = looked_again = False",
                "outdated, looked_again = False, True",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_what_a_newer_machine_does_not_name_is_not_missing",
    ),
    Mutant(
        "an install that is wanted while another ends is forgotten",
        (
            Edit(
                "store_nodes/node/install.py",
                "        while self._wanted:\n"
                "            # More may be wanted while the client closes.\n",
                "        if self._wanted:\n",
            ),
        ),
        breaks="P5",
        killed_by="tests/unit/store_node/test_copying.py"
        "::test_an_install_that_is_wanted_while_another_ends_is_carried_out",
    ),
)
