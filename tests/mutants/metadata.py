"""Mutants of the metadata: fences, claims, leases, trims, seeks and eras in Postgres."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a change that loses Postgres half-way is answered as if nothing were done",
        (
            Edit(
                "gateway/middleware/outcomes.py",
                "                if commits.count:\n",
                "                if False:\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/integration/metadata/test_half_done.py"
        "::test_a_change_of_which_a_part_is_committed_is_unknown[create]",
    ),
    Mutant(
        "a transaction that was rolled back counts as committed",
        (
            Edit(
                "metadata/database.py",
                "        if attempt.sent:\n            committed.note()\n",
                "        committed.note()\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/integration/metadata/test_half_done.py"
        "::test_a_change_of_which_nothing_is_committed_is_not_done[look]",
    ),
    Mutant(
        "the first poll of the change feed does not say that what was read before it may be old",
        (
            Edit(
                "metadata/feed.py",
                "        if seen is None or version < seen or pruned_to > seen:\n",
                "        if seen is not None and (version < seen or pruned_to > seen):\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_feed_and_catalog.py"
        "::test_what_was_read_before_the_first_poll_is_read_again_after_it",
    ),
    Mutant(
        "a reading that a change has overtaken is handed out",
        (
            Edit(
                "metadata/catalog.py",
                "            self._readings[flight].overtaken = True\n",
                "            pass\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_feed_and_catalog.py"
        "::test_a_reading_that_a_change_overtakes_is_nobodys_answer",
    ),
    Mutant(
        "a topic that changed while it became active is kept as it was",
        (
            Edit(
                "metadata/catalog.py",
                "if active is not None and self._making.get(key) is token:",
                "if active is not None:",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_feed_and_catalog.py"
        "::test_a_topic_that_changes_while_it_is_made_is_read_when_it_is_used[subscription]",
    ),
    Mutant(
        "what is cached of a topic is not older than any change of it",
        (
            Edit(
                "metadata/catalog.py",
                "cached is not None and cached.version < change.version",
                "cached is not None and cached.version < 0",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_feed_and_catalog.py"
        "::test_a_deleted_topic_leaves_every_cache_within_two_seconds",
    ),
    Mutant(
        "a change does not wait for its tenant's turn",
        (Edit("metadata/changes.py", "begins_with=turn,", 'begins_with="",'),),
        breaks="P8",
        killed_by="tests/integration/metadata/test_changes.py"
        "::test_a_transaction_sees_what_the_one_whose_turn_was_before_it_committed",
    ),
    Mutant(
        "a topic becomes active again",
        (Edit("metadata/topics/topics.py", "WHERE state = 'creating'\n", "\n"),),
        breaks="P8",
        killed_by="tests/integration/metadata/test_topics.py"
        "::test_a_topic_is_creating_until_it_is_activated",
    ),
    Mutant(
        "a session gets a connection that is known to be lost",
        (
            Edit(
                "metadata/database.py",
                "    if connection.driver_connection.is_closed():\n        raise Disc",
                "    if False:\n        raise Disc",
            ),
        ),
        breaks="P6",
        killed_by="tests/integration/metadata/test_faults.py"
        "::test_a_session_does_not_get_a_connection_that_is_known_to_be_lost",
        fails_with="metadata.errors.MetadataUnavailable",
    ),
    Mutant(
        "a placement is read at another moment than the partitions that it is about",
        (
            Edit(
                "metadata/topics/placements.py",
                "            await session.execute(_AT_ONE_MOMENT)\n            rows = await",
                "            rows = await",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/placement/test_placement_rows.py"
        "::test_a_placement_that_ends_while_it_is_read_is_about_the_partitions_before[all]",
    ),
    Mutant(
        "a flush does not compare the number of the epoch",
        (
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.epoch_n = new.epoch_n\n",
                "",
            ),
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.epoch_n = locked.epoch_n\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_cursors.py::test_every_part_of_the_fence_counts",
    ),
    Mutant(
        "a flush that waited for a row lock does not compare the number of the epoch again",
        (
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.epoch_n = locked.epoch_n\n",
                "",
            ),
        ),
        breaks="P3",
        equivalent="The flush locks the row before it writes it, and PostgreSQL compares the epoch "
        "with the newest version of the row as it locks it.",
    ),
    Mutant(
        "a flush does not compare the generation",
        (
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.generation = new.generation\n",
                "",
            ),
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.generation = locked.generation\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_cursors.py::test_every_part_of_the_fence_counts",
    ),
    Mutant(
        "a flush does not compare the era",
        (
            Edit(
                "metadata/delivery/cursors.py",
                "    WHERE old.epoch_era = new.epoch_era\n      AND old.epoch_n",
                "    WHERE old.epoch_n",
            ),
            Edit(
                "metadata/delivery/cursors.py",
                "      AND old.epoch_era = locked.epoch_era\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_cursors.py::test_every_part_of_the_fence_counts",
    ),
    Mutant(
        "a claim ignores live owners",
        (
            Edit(
                "metadata/delivery/assignments.py",
                '    return [_unit(row) for row in rows if row["owner"] not in live]',
                "    return [_unit(row) for row in rows]",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_ownership.py"
        "::test_a_live_owner_keeps_its_partitions",
    ),
    Mutant(
        "a claim does not look at the lease of its claimer",
        (
            Edit(
                "metadata/delivery/assignments.py",
                "SELECT lease_until > clock_timestamp() FROM forwarders WHERE",
                "SELECT true FROM forwarders WHERE",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_ownership.py"
        "::test_who_has_no_lease_claims_nothing",
    ),
    Mutant(
        "a lease that ran out is renewed",
        (
            Edit(
                "metadata/delivery/leases.py",
                "    WHERE incarnation = $1 AND lease_until > clock_timestamp()\n    RETURNING",
                "    WHERE incarnation = $1\n    RETURNING",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_ownership.py"
        "::test_a_lease_that_is_over_stays_over",
    ),
    Mutant(
        "the attempts of an open delivery are written once and never again",
        (
            Edit(
                "metadata/delivery/beside.py",
                "attempts = excluded.attempts, not_before",
                "attempts = deliveries.attempts, not_before",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_rows_beside.py"
        "::test_rows_come_back_as_they_were_written",
    ),
    Mutant(
        "an exactly-once lease row keeps the acked ranges that it first had",
        (
            Edit(
                "metadata/delivery/beside.py",
                "offsets = excluded.offsets, acked = excluded.acked, expires_at",
                "offsets = excluded.offsets, expires_at",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_rows_beside.py"
        "::test_a_lease_row_is_written_over",
    ),
    Mutant(
        "a committed publication can be aborted",
        (
            Edit(
                "metadata/delivery/publications.py",
                "WHERE tenant_id = $1 AND tag = $2 AND state = 'open'\nRETURNING 1",
                "WHERE tenant_id = $1 AND tag = $2\nRETURNING 1",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_publications.py"
        "::test_what_is_committed_cannot_be_aborted",
    ),
    Mutant(
        "publications are not locked while their cursor commits",
        (
            Edit(
                "metadata/delivery/publications.py",
                "WHERE state = 'open'\n"
                "ORDER BY ack_publications.tenant_id, ack_publications.tag\n"
                "FOR UPDATE OF ack_publications",
                "WHERE state = 'open'\nORDER BY ack_publications.tenant_id, ack_publications.tag",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_publication_locks.py"
        "::test_a_sweep_waits_for_the_flush_that_commits_a_publication",
    ),
    Mutant(
        "a trim forgets one offset that it should keep",
        (
            Edit(
                "metadata/topics/retention.py",
                "AND message_offset < $5\nORDER",
                "AND message_offset < $5 - 1\nORDER",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_retention.py"
        "::test_kept_are_the_open_deliveries_below_the_trim",
    ),
    Mutant(
        "a trim goes one offset past the lowest floor",
        (
            Edit(
                "metadata/topics/retention.py",
                "SELECT least(\n    (SELECT min(floor) FROM cursors",
                "SELECT least(\n    (SELECT min(floor) + 1 FROM cursors",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_retention.py"
        "::test_a_trim_goes_up_to_the_lowest_pin_and_never_back",
    ),
    Mutant(
        "snapshots and export pins do not hold a trim",
        (
            Edit(
                "metadata/topics/retention.py",
                "       AND (expires_at IS NULL OR expires_at > now()))\n)\n",
                "       AND false)\n)\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_retention.py"
        "::test_snapshots_and_export_holds_pin_too_until_they_expire",
    ),
    Mutant(
        "a trim does not lock the rows of the partition",
        (
            Edit(
                "metadata/topics/retention.py",
                "ORDER BY generation\nFOR UPDATE\n",
                "ORDER BY generation\n",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_retention.py"
        "::test_a_trim_waits_for_a_pin_that_is_being_made_and_stops_at_it",
    ),
    Mutant(
        "the due index is written without the fence",
        (
            Edit(
                "metadata/delivery/due.py",
                "            await locks.check(connection, lock)\n            if gone:",
                "            if gone:",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_due_index.py"
        "::test_an_old_scheduler_writes_nothing",
    ),
    Mutant(
        "rows of a queue that is gone are dropped from the due index without the fence",
        (
            Edit(
                "metadata/delivery/due.py",
                "            await locks.check(connection, lock)\n            status",
                "            status",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_due_index.py"
        "::test_an_old_scheduler_writes_nothing",
    ),
    Mutant(
        "hints are replaced without the fence",
        (
            Edit(
                "metadata/delivery/hints.py",
                "            await locks.check(connection, lock)\n            if gone:",
                "            if gone:",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_hints.py"
        "::test_a_scheduler_that_lost_its_lock_changes_no_hint",
    ),
    Mutant(
        "schedules are advanced without the fence",
        (
            Edit(
                "metadata/topics/schedules.py",
                "            await locks.check(connection, lock)\n",
                "",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/scheduler/test_schedules.py"
        "::test_a_deposed_scheduler_writes_nothing",
    ),
    Mutant(
        "a redrive is noted without the fence",
        (
            Edit(
                "metadata/subscriptions/redrives.py",
                "            await locks.check(connection, lock)\n            count = 0",
                "            count = 0",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_redrive_rows.py"
        "::test_an_old_scheduler_neither_notes_nor_ends_a_redrive",
    ),
    Mutant(
        "a new era does not fence the cursors",
        (
            Edit(
                "metadata/eras.py",
                "await connection.execute(_FENCE_CURSORS, era, timeout=REPAIR_STATEMENT_S)",
                "pass",
            ),
        ),
        breaks="P6",
        killed_by="tests/integration/metadata/test_recovery.py"
        "::test_nothing_of_before_a_new_era_is_written_any_more",
    ),
    Mutant(
        "a new era forgets the acks of exactly-once leases",
        (
            Edit(
                "metadata/eras.py",
                '"DELETE FROM delivery_leases WHERE isempty(acked)"',
                '"DELETE FROM delivery_leases"',
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_recovery.py"
        "::test_an_ack_of_before_a_new_era_can_be_repeated",
    ),
    Mutant(
        "a new era leaves assignments to their owners",
        (
            Edit(
                "metadata/eras.py",
                "await connection.execute(_DISOWN, era, timeout=REPAIR_STATEMENT_S)",
                "pass",
            ),
        ),
        breaks="P6",
        killed_by="tests/integration/metadata/test_recovery.py"
        "::test_nothing_of_before_a_new_era_is_written_any_more",
    ),
    Mutant(
        "a claim of a whole partition moves the epochs of subscriptions that were split off",
        (
            Edit(
                "metadata/delivery/assignments.py",
                "       OR wanted.unit_of = $7 AND NOT EXISTS (",
                "       OR wanted.unit_of = $7 OR NOT EXISTS (",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_units.py"
        "::test_what_is_split_off_is_claimed_apart",
    ),
    Mutant(
        "a seek leaves exactly-once lease rows of the cursors that it moved",
        (
            Edit(
                "metadata/subscriptions/seeks.py",
                "for table in (DeliveryRow, DeliveryLeaseRow):",
                "for table in (DeliveryRow,):",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_seeks.py"
        "::test_a_seek_leaves_no_exactly_once_lease_behind",
    ),
    Mutant(
        "a seek does not keep the truncator out",
        (
            Edit(
                "metadata/subscriptions/seeks.py",
                "        .with_for_update(read=True)\n",
                "",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_seeks.py"
        "::test_a_seek_waits_for_a_trim_that_is_under_way",
    ),
    Mutant(
        "a generation may be one that Postgres lost",
        (
            Edit(
                "metadata/subscriptions/seeks.py",
                "    return max(present + 1, era << ERA_SHIFT)",
                "    return present + 1",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_recovery.py"
        "::test_a_seek_begins_a_generation_that_never_was",
    ),
    Mutant(
        "a forwarder counts its lease from the answer and without a margin",
        (
            Edit(
                "metadata/delivery/leases.py",
                "        return self._lease(incarnation, sent_s, live)",
                "        return self._lease(incarnation, self._monotonic_s() + 0.5, live)",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_ownership.py"
        "::test_the_holder_counts_from_before_it_asked_and_less_a_margin",
    ),
    Mutant(
        "hints are pruned without the fence",
        (
            Edit(
                "metadata/delivery/hints.py",
                "            await locks.check(connection, lock)\n            return len",
                "            return len",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_hints.py"
        "::test_a_scheduler_that_lost_its_lock_changes_no_hint",
    ),
    Mutant(
        "rows of the due index without a queue are dropped without the fence",
        (
            Edit(
                "metadata/delivery/due.py",
                "            await locks.check(connection, lock)\n"
                "            await connection.execute(_DROP_ORPHANS",
                "            await connection.execute(_DROP_ORPHANS",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_due_index.py"
        "::test_an_old_scheduler_writes_nothing",
    ),
    Mutant(
        "a redrive is finished without the fence",
        (
            Edit(
                "metadata/subscriptions/redrives.py",
                "            await locks.check(connection, lock)\n"
                "            await connection.execute(_FINISH",
                "            await connection.execute(_FINISH",
            ),
        ),
        breaks="P10",
        killed_by="tests/integration/metadata/test_redrive_rows.py"
        "::test_an_old_scheduler_neither_notes_nor_ends_a_redrive",
    ),
    Mutant(
        "a deposed scheduler writes",
        (Edit("metadata/locks/fenced.py", "    IF NOT FOUND THEN", "    IF false THEN"),),
        breaks="P10",
        killed_by="tests/integration/scheduler/test_deposed.py"
        "::test_whatever_is_written_is_under_the_fence",
    ),
    Mutant(
        "the grace of an aborted publication counts from its creation",
        (
            Edit(
                "metadata/delivery/publications.py",
                "'aborted', created_at = clock_timestamp()",
                "'aborted'",
            ),
        ),
        breaks="P3",
        killed_by="tests/integration/metadata/test_publications.py"
        "::test_an_aborted_row_is_kept_from_its_abort_on",
    ),
    Mutant(
        "history is trimmed while a backup is taken",
        (
            Edit(
                "metadata/topics/retention.py",
                "if not past_pins and await connection.fetchval(HELD, *HELD_ARGUMENTS):",
                "if False:",
            ),
        ),
        breaks="P16",
        killed_by="tests/integration/metadata/test_backup_hold.py"
        "::test_nothing_is_trimmed_while_a_backup_is_taken",
    ),
    Mutant(
        "a lost connection hides why its transaction failed",
        (
            Edit(
                "metadata/database.py",
                "                    await _undo(connection, transaction)\n",
                "                    if not connection.is_closed():\n"
                "                        await transaction.rollback()\n",
            ),
        ),
        killed_by="tests/unit/metadata/test_transactions.py"
        "::test_a_lost_connection_does_not_hide_why_the_transaction_failed",
        fails_with="metadata.errors.MetadataUnavailable",
        breaks="P8",
    ),
    Mutant(
        "a rollback that failed leaves its connection open",
        (
            Edit(
                "metadata/database.py",
                "            connection.terminate()\n\n\ndef _leave",
                "            pass\n\n\ndef _leave",
            ),
        ),
        killed_by="tests/unit/metadata/test_transactions.py"
        "::test_a_rollback_that_nobody_answers_ends_the_connection",
        breaks="P6",
    ),
    Mutant(
        "a connection is kept although another operation waits for one",
        (
            Edit(
                "metadata/database.py",
                "        if self._kept is None and not self._acquiring and not self._closing:\n",
                "        if self._kept is None and not self._closing:\n",
            ),
        ),
        killed_by="tests/unit/metadata/test_kept_connection.py"
        "::test_a_connection_for_which_another_operation_waits_goes_back",
        breaks="P6",
    ),
    Mutant(
        "a connection that was lost while it was kept is used",
        (
            Edit(
                "metadata/database.py",
                "        if connection is None or _is_lost(connection):\n",
                "        if connection is None:\n",
            ),
        ),
        killed_by="tests/unit/metadata/test_kept_connection.py"
        "::test_a_connection_that_was_lost_while_it_was_kept_is_not_used",
        breaks="P6",
    ),
    Mutant(
        "a Postgres that went back is well again once its log has grown",
        (
            Edit(
                "metadata/eras.py",
                "return self._loss and self._loss.reason",
                "return reason",
            ),
        ),
        killed_by="tests/unit/gateway/test_era_keeper.py"
        "::test_a_log_that_grows_past_where_it_was_before_it_is_judged_again_is_repaired",
        breaks="P6",
    ),
    Mutant(
        "a repair whose turn is lost waits for its statement",
        (
            Edit(
                "gateway/recovery/keeper.py",
                "            await asyncio.wait((repair, awake), "
                "return_when=asyncio.FIRST_COMPLETED)\n",
                "            await asyncio.wait((repair,))\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_era_keeper.py::test_a_repair_ends_once_its_turn_is_lost",
        fails_with="TimeoutError",
        breaks="P6",
    ),
    Mutant(
        "a repair that ended waits for the statement that it left",
        (
            Edit(
                "gateway/recovery/keeper.py",
                "            await database.close(wait_s=0)\n",
                "            await database.close()\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_era_keeper.py::test_a_repair_ends_once_its_turn_is_lost",
        fails_with="TimeoutError",
        breaks="P6",
    ),
    Mutant(
        "a deletion of a key is answered before the process has heard of it",
        (
            Edit(
                "gateway/tenancy/heard.py",
                "                    await catch_up()\n",
                "                    pass\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_heard.py"
        "::test_a_key_that_was_just_used_is_refused_once_its_deletion_is_answered",
        breaks="P12",
    ),
    Mutant(
        "a token is for whoever trusts its issuer, proved or not",
        (
            Edit(
                "auth/oidc.py",
                "            found = [each for each in fitting if each.trust in proofs]\n",
                "            found = fitting\n",
            ),
        ),
        killed_by="tests/unit/auth/test_oidc.py::test_who_has_proved_it_better_has_the_token",
        fails_with="auth.errors.TokenRefused",
        breaks="P12",
    ),
    Mutant(
        "an unproved registration holds beside the issuer's owner",
        (
            Edit(
                "auth/oidc.py",
                '            if "unproved" in proofs and owners:\n',
                '            if "unproved" in proofs and not fitting:\n',
            ),
        ),
        killed_by="tests/unit/auth/test_oidc.py"
        "::test_what_0_2_registered_holds_until_somebody_proves_to_own_the_issuer",
        breaks="P12",
    ),
    Mutant(
        "a tenant may register another tenant's own audience",
        (
            Edit(
                "gateway/tenancy/issuer_trust.py",
                "        if spec.audience.startswith(TOKEN_AUDIENCE_PREFIX):\n",
                "        if not spec.audience:\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_issuer_trust.py"
        "::test_nobody_has_another_tenants_audience",
        breaks="P12",
    ),
    Mutant(
        "a put of a version that is gone creates the thing anew",
        (
            Edit(
                "gateway/resources.py",
                "                    if call.if_version is not None:\n",
                "                    if False:\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_resources.py::test_a_put_with_a_version_creates_nothing",
        breaks="P8",
    ),
    Mutant(
        "of two puts at one moment one is refused",
        (Edit("gateway/resources.py", "MOST_RACES = 8\n", "MOST_RACES = 1\n"),),
        killed_by="tests/unit/gateway/test_resources.py"
        "::test_two_puts_at_one_moment_are_both_answered",
        fails_with="metadata.errors.Conflict",
        breaks="P8",
    ),
    Mutant(
        "whoever may manage one name creates any",
        (
            Edit(
                "gateway/resources.py",
                "            if operation.resource == names:\n",
                "            if False:\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_resources.py"
        "::test_a_name_needs_permission_before_it_is_created",
        breaks="P12",
    ),
)
