"""Mutants of the bounds on what one input may cost everybody else."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_CYCLES = (
    "tests/unit/gateway/test_cycles.py::test_a_request_leaves_nothing_to_the_collector_of_garbage"
)

_EXEMPT = (
    "tests/integration/metadata/test_tenants.py"
    "::test_a_tenant_of_an_earlier_release_is_exempt_from_built_in_limits"
)
_WAITS = (
    "tests/integration/locks/test_lock_wait_list.py"
    "::test_a_tenant_whose_calls_wait_leaves_places_to_others"
)
_DRY_RUN = (
    "tests/integration/metadata/test_seek_dry_run.py"
    "::test_a_dry_run_waits_for_nobody_who_changes_something_else"
)

_LINES = "tests/unit/gateway/test_job_lines.py::"
_TRIES = f"{_LINES}test_tries_that_wait_are_bounded_and_a_tenant_leaves_places_to_others"
_ENDS = f"{_LINES}test_who_waits_for_the_end_of_a_job_leaves_places_to_other_tenants"
_PREVIEWS = (
    "tests/unit/subscribe_forwarder/test_preview.py"
    "::test_a_tenant_that_holds_previews_leaves_places_to_others_and_all_hold_few"
)
_REPLAYS = "tests/unit/subscribe_forwarder/test_replay.py::"
_STREAMS = "tests/unit/subscribe_forwarder/test_backlog_stream.py::"
_WRITES = (
    "tests/unit/gateway/test_write_limit.py::test_what_waits_is_bounded_and_the_next_is_refused"
)


def _boundless(name: str, file: str, limit: str, killed_by: str, fails_with: str = "") -> Mutant:
    """Return the mutant whose bound of a process is never reached."""
    return Mutant(
        f"the bound {name} is never reached",
        (Edit(file, f'Shares({limit}, name="{name}")', f'Shares(10**9, name="{name}")'),),
        killed_by=killed_by,
        fails_with=fails_with,
        breaks="P19",
    )


def _without_shares(
    name: str, file: str, limit: str, killed_by: str, fails_with: str = ""
) -> Mutant:
    """Return the mutant that lets one tenant have all of a bound."""
    whole = f'Shares({limit}, share=1.0, name="{name}")'
    return Mutant(
        f"one tenant may have all of the bound {name}",
        (Edit(file, f'Shares({limit}, name="{name}")', whole),),
        killed_by=killed_by,
        fails_with=fails_with,
        breaks="P19",
    )


_SHARED = (
    (
        *("claim_waits", "gateway/jobs/waits.py", "MAX_WAITING"),
        f"{_LINES}test_who_waits_is_bounded",
        f"{_LINES}test_a_tenant_whose_claims_wait_leaves_places_to_others",
    ),
    ("claim_tries", "gateway/jobs/waits.py", "MAX_WAITING", _TRIES, _TRIES),
    ("job_waits", "gateway/jobs/end_watch.py", "MAX_WAITING", _ENDS, _ENDS),
    (
        *("replays", "subscribe_forwarder/delivery/reading/replay.py", "MAX_REPLAYS"),
        f"{_REPLAYS}test_places_are_few",
        f"{_REPLAYS}test_a_tenant_that_holds_replays_leaves_places_to_others",
    ),
    ("previews", "subscribe_forwarder/api/preview.py", "MAX_PREVIEWS", _PREVIEWS, _PREVIEWS),
    (
        *("backlog_streams", "subscribe_forwarder/api/backlogs.py", "max_streams"),
        f"{_STREAMS}test_no_more_streams_than_allowed",
        f"{_STREAMS}test_a_tenant_that_holds_streams_leaves_some_to_others",
    ),
    ("control_writes", "gateway/write_limit.py", "MAX_WAITING", _WRITES, _WRITES),
)
"""Bounds of a process: name, file, limit, the test of the bound, and the test of the share."""

_AHEAD = "tests/unit/edge/test_expressions_ahead.py"
_NEW_FILTERS = "tests/unit/gateway/test_new_filters.py"
_READ_AHEAD = (
    ("replay", "subscribe_forwarder/api/replay_query.py", "await read_ahead(scope, text)"),
    ("previewTopicFilter", "subscribe_forwarder/api/preview.py", "await read_ahead(scope, text)"),
    (
        "listDeadLetters",
        "subscribe_forwarder/api/dead_letter_bodies.py",
        "await read_ahead(scope, text, VARIABLES)",
    ),
    (
        "addSkipRule",
        "gateway/subscriptions/skip_rules.py",
        "await read_ahead(scope, body.expression)",
    ),
)
"""The operation, the file and the line that reads its filter."""

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "any request counts as a publish of a tenant that publishes little",
        (
            Edit(
                "gateway/admission/admission.py",
                "if kind.timed and kind.urgency < Urgency.DEFERRABLE:",
                "if kind.urgency < Urgency.DEFERRABLE:",
            ),
        ),
        killed_by="tests/unit/gateway/test_admission.py::test_who_hardly_publishes_limits_nobody",
        breaks="P19",
    ),
    *(_boundless(name, file, limit, test) for name, file, limit, test, _ in _SHARED),
    *(_without_shares(name, file, limit, test) for name, file, limit, _, test in _SHARED),
    _boundless(
        *("oauth_waits", "gateway/oauth/endpoints.py", "MAX_WAITING"),
        killed_by="tests/unit/gateway/test_oauth.py::test_held_back_answers_are_bounded",
    ),
    Mutant(
        "one client id may have all held-back answers to wrong secrets",
        (
            Edit(
                "gateway/oauth/endpoints.py",
                'Shares(MAX_WAITING, name="oauth_waits")',
                'Shares(MAX_WAITING, share=1.0, name="oauth_waits")',
            ),
        ),
        equivalent="SlowDown refuses a client id whose answer would wait for more than three "
        "seconds, so one client id never has more than a few of the places",
        breaks="P19",
    ),
    Mutant(
        "the objects of a connection of HTTP/2 keep each other in memory",
        (
            Edit(
                "gateway/http/reference_cycles.py", "        vars(part).clear()\n", "        pass\n"
            ),
        ),
        killed_by="tests/unit/gateway/test_cycles.py"
        "::test_a_connection_of_hypercorn_leaves_nothing_to_the_collector_of_garbage[HTTP/2]",
        breaks="P19",
    ),
    Mutant(
        "objects of a tenant have no limit in number",
        (
            Edit(
                "metadata/counts.py",
                "        raise QuotaExceeded(quota, int(limit), used)\n",
                "        pass\n",
            ),
        ),
        killed_by="tests/integration/metadata/test_tenants.py"
        "::test_every_kind_of_object_has_a_limit_in_number",
        breaks="P19",
    ),
    Mutant(
        "members of policies have no limit in number",
        (Edit("metadata/tenancy/policies.py", "if len(members) > before and", "if False and"),),
        killed_by="tests/integration/metadata/test_tenants.py"
        "::test_members_of_all_policies_of_a_tenant_are_limited",
        fails_with="Failed",
        breaks="P19",
    ),
    Mutant(
        "topics of a tenant have no limit in number",
        (Edit("metadata/topics/topics.py", "        if limit:\n", "        if False:\n"),),
        killed_by="tests/integration/metadata/test_tenants.py"
        "::test_the_platforms_limits_hold_where_a_tenant_has_none",
        breaks="P19",
    ),
    Mutant(
        "a tenant of an earlier release has the built-in limits",
        (Edit("metadata/topics/topics.py", 'exempt=not found["built_in_limits"]', "exempt=False"),),
        killed_by=_EXEMPT,
        fails_with="metadata.errors.QuotaExceeded",
        breaks="P19",
    ),
    Mutant(
        "a new tenant is exempt from the built-in limits",
        (Edit("metadata/tenancy/tenants.py", "built_in_limits = True", "built_in_limits = False"),),
        killed_by=_EXEMPT,
        breaks="P19",
    ),
    Mutant(
        "the scheduler holds a tenant of an earlier release to the built-in limit",
        (
            Edit(
                "metadata/tenancy/quotas.py",
                "            elif one.exempt:\n",
                "            elif False:\n",
            ),
        ),
        killed_by="tests/integration/scheduler/test_trimming.py"
        "::test_the_built_in_limit_of_stored_bytes_holds_but_for_exempt_tenants",
        breaks="P19",
    ),
    Mutant(
        "a tenant that an earlier release makes is held to the built-in limits",
        (
            Edit(
                "gateway/quotas/limits.py",
                "change.kind in {ChangeKind.QUOTA, ChangeKind.TENANT}",
                "change.kind is ChangeKind.QUOTA",
            ),
        ),
        killed_by="tests/unit/quotas/test_limits.py"
        "::test_a_tenant_that_an_earlier_release_makes_is_exempt_at_once",
        breaks="P19",
    ),
    Mutant(
        "calls that wait for locks have no bound",
        (
            Edit(
                "gateway/locks/wait_list.py",
                'Shares(MAX_WAITING_IN_ALL, name="lock_waits")',
                'Shares(10**9, name="lock_waits")',
            ),
        ),
        killed_by=_WAITS,
        breaks="P19",
    ),
    Mutant(
        "one tenant may have all calls that wait for locks",
        (
            Edit(
                "gateway/locks/wait_list.py",
                'Shares(MAX_WAITING_IN_ALL, name="lock_waits")',
                'Shares(MAX_WAITING_IN_ALL, share=1.0, name="lock_waits")',
            ),
        ),
        killed_by=_WAITS,
        breaks="P19",
    ),
    Mutant(
        "a dry run of a seek waits for its tenant's turn",
        (
            Edit(
                "metadata/subscriptions/seeks.py",
                "            if not dry_run:\n                await changes.wait_turn",
                "            if True:\n                await changes.wait_turn",
            ),
        ),
        killed_by=_DRY_RUN,
        breaks="P19",
    ),
    Mutant(
        "a dry run of a seek takes a version",
        (
            Edit(
                "metadata/subscriptions/seeks.py",
                "            if not dry_run:\n                row.version",
                "            if True:\n                row.version",
            ),
        ),
        killed_by=_DRY_RUN,
        breaks="P19",
    ),
    Mutant(
        "each failed request has a line in the log",
        (
            Edit(
                "gateway/middleware/access_log.py",
                "return self._failures <= FAILURES_PER_S",
                "return True",
            ),
        ),
        killed_by="tests/unit/gateway/test_access_log.py"
        "::test_failures_that_a_tenant_provokes_do_not_fill_the_log",
        breaks="P19",
    ),
    Mutant(
        "the audit reads a body of very many values",
        (Edit("gateway/tenancy/redaction.py", "if not has_few_values(body):", "if False:"),),
        killed_by="tests/unit/gateway/test_redaction.py"
        "::test_a_body_of_very_many_values_costs_little_and_nothing_of_it_is_kept",
        breaks="P19",
    ),
    Mutant(
        "an error that was answered keeps its traceback",
        (
            Edit(
                "gateway/http/dispatch.py",
                "exchange, error)\n            forget(error)\n",
                "exchange, error)\n",
            ),
        ),
        killed_by=f"{_CYCLES}[a refusal by Postgres]",
        breaks="P19",
    ),
    Mutant(
        "a request that waits is in a reference cycle with the task that listens to its client",
        (Edit("gateway/access_watch.py", "            del asking\n", ""),),
        killed_by=f"{_CYCLES}[a wait for a lock]",
        breaks="P19",
    ),
    Mutant(
        "a connection that was lost keeps its request",
        (
            Edit(
                "gateway/http/connection.py",
                "request, self._request = self._request, None\n        if isinstance",
                "request = self._request\n        if isinstance",
            ),
        ),
        killed_by=f"{_CYCLES}[a pull whose client leaves]",
        breaks="P19",
    ),
    Mutant(
        "the account of a connection that was lost keeps the connection",
        (Edit("gateway/http/unsent.py", "        self._end = _nothing\n", ""),),
        killed_by=f"{_CYCLES}[an answer]",
        breaks="P19",
    ),
    Mutant(
        "one collection of garbage looks at the objects of thousands of requests",
        (Edit("gateway/heap.py", "YOUNG = 700\n", "YOUNG = 2_000\n"),),
        killed_by="tests/unit/gateway/test_heap.py"
        "::test_a_collection_looks_at_few_objects_however_many_requests_wait",
        breaks="P19",
    ),
    Mutant(
        "a name is held only against patterns that begin with a star",
        (
            Edit(
                "edge/caller.py",
                "        for chars in self._begin_chars:",
                "        for chars in ():",
            ),
        ),
        killed_by="tests/unit/edge/test_caller.py::test_a_permission_on_names_of_one_kind",
        breaks="P19",
    ),
    Mutant(
        "a name is held against all patterns that begin with a text",
        (
            Edit(
                "edge/caller.py",
                "        begins, star, rest = pattern.partition(ANY)\n",
                "        begins, star, rest = '', ANY, pattern\n",
            ),
            Edit(
                "edge/caller.py",
                "            ends = rest.rpartition(ANY)[2]\n",
                "            ends = ''\n",
            ),
        ),
        killed_by="tests/unit/edge/test_caller.py"
        "::test_a_name_is_held_against_few_of_many_patterns",
        breaks="P19",
    ),
    Mutant(
        "a name is held against all patterns that begin with a star",
        (
            Edit(
                "edge/caller.py",
                "            ends = rest.rpartition(ANY)[2]\n",
                "            ends = ''\n",
            ),
        ),
        killed_by="tests/unit/edge/test_caller.py"
        "::test_a_name_is_held_against_few_of_many_patterns_that_begin_with_a_star",
        breaks="P19",
    ),
    Mutant(
        "a name is held against all patterns that are alike in one go",
        (
            Edit(
                "edge/caller.py",
                "                if slices.over:\n                    await slices.rest()\n"
                "            self._remember",
                "            self._remember",
            ),
        ),
        killed_by="tests/unit/edge/test_caller.py"
        "::test_a_name_beside_patterns_that_are_all_alike_leaves_the_loop_to_others",
        breaks="P19",
    ),
    Mutant(
        "names that are looked at together each take a slice of a turn of the loop",
        (
            Edit(
                "edge/caller.py",
                "        async with self._learning:\n",
                "        async with asyncio.Lock():\n",
            ),
        ),
        killed_by="tests/unit/edge/test_caller.py"
        "::test_names_that_are_looked_at_together_take_one_slice_of_a_turn",
        breaks="P19",
    ),
    Mutant(
        "the name in a path is held against many patterns in one go",
        (Edit("gateway/http/dispatch.py", "if principal.caller.slow:", "if False:"),),
        killed_by="tests/unit/gateway/test_dispatch.py"
        "::test_a_name_in_a_path_is_held_against_many_patterns_in_slices",
        breaks="P19",
    ),
    Mutant(
        "the resources of all policies of a tenant are noted in one go",
        (
            Edit(
                "auth/policies.py",
                "                    made.granted.add(holder, *parse_resource(text))\n"
                "                if slices.over:\n",
                "                    made.granted.add(holder, *parse_resource(text))\n"
                "                if False:\n",
            ),
            Edit(
                "auth/policies.py",
                "                    made._exact.setdefault(_whole(member), []).append(index)\n"
                "                if slices.over:\n",
                "                    made._exact.setdefault(_whole(member), []).append(index)\n"
                "                if False:\n",
            ),
        ),
        killed_by="tests/unit/auth/test_policies.py"
        "::test_a_caller_with_as_many_grants_as_there_may_be_costs_no_long_callback",
        breaks="P19",
    ),
    Mutant(
        "a token has the permissions of policies of other members",
        (
            Edit(
                "auth/policies.py",
                "for policy in await self.naming(subject)}",
                "for policy in self.policies}",
            ),
        ),
        killed_by="tests/unit/auth/test_policies.py"
        "::test_a_member_has_what_the_policies_that_name_it_give_and_no_more",
        breaks="P12",
    ),
    Mutant(
        "the event loop evaluates the expressions of previews",
        (
            Edit(
                "subscribe_forwarder/api/preview.py",
                "                            if evaluator is not None:\n",
                "                            if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_preview.py"
        "::test_no_expression_of_a_preview_is_evaluated_in_this_process",
        breaks="P19",
    ),
    Mutant(
        "the lists of whoami are made in one go",
        (
            Edit(
                "edge/slices.py",
                "        return time.perf_counter() >= self._until_s",
                "        return False",
            ),
        ),
        killed_by="tests/unit/gateway/test_whoami.py"
        "::test_as_many_grants_as_there_may_be_cost_no_long_callback",
        breaks="P19",
    ),
    Mutant(
        "a listing asks about all of its names in one go",
        (Edit("gateway/resources.py", "            if slices.over:\n", "            if False:\n"),),
        killed_by="tests/unit/edge/test_caller.py"
        "::test_a_listing_beside_patterns_that_are_all_alike_leaves_the_loop_to_others",
        breaks="P19",
    ),
    Mutant(
        "each address of a network of IPv6 has handshakes of its own",
        (
            Edit(
                "peering/rpc/listening.py",
                "        address = of_address(address)\n",
                "",
            ),
        ),
        killed_by="tests/unit/peering/test_addresses.py"
        "::test_all_addresses_of_one_network_share_the_handshakes_of_one",
        breaks="P19",
    ),
    Mutant(
        "each address of a network of IPv6 has connections of its own",
        (
            Edit(
                "gateway/http/connection.py",
                "of_address(str(client[0]))",
                "str(client[0])",
            ),
        ),
        killed_by="tests/unit/peering/test_addresses.py"
        "::test_connections_of_one_network_count_as_one_address",
        breaks="P19",
    ),
    Mutant(
        "an address may begin any number of handshakes of TLS",
        (Edit("peering/rpc/listening.py", "        may = left >= 1\n", "        may = True\n"),),
        killed_by="tests/unit/peering/test_peer_tls.py"
        "::test_an_address_that_begins_many_handshakes_keeps_nobody_else_out",
        breaks="P19",
    ),
    Mutant(
        "a process keeps the memory that a flood has freed",
        (Edit("gateway/heap.py", "        self._trim()\n", ""),),
        killed_by="tests/unit/gateway/test_heap.py"
        "::test_freed_memory_is_given_back_once_a_process_has_grown",
        breaks="P19",
    ),
    Mutant(
        "memory that was in use when a process was seen to grow is kept once it is freed",
        (
            Edit(
                "gateway/heap.py",
                "        elif self._looks >= self._again_after:\n",
                "        elif False:\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_heap.py"
        "::test_memory_that_is_freed_after_a_process_was_seen_to_grow_is_given_back",
        breaks="P19",
    ),
    Mutant(
        "a process that grows slowly keeps the memory that was freed",
        (
            Edit(
                "gateway/heap.py",
                "            self._least_bytes = min(self._least_bytes, resident_bytes)\n",
                "            self._least_bytes = resident_bytes\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_heap.py"
        "::test_a_process_that_grows_slowly_gives_freed_memory_back",
        breaks="P19",
    ),
    Mutant(
        "tenants take no turns at the connections to Postgres",
        (Edit("metadata/connection_shares.py", "if tenant_id is None:", "if True:"),),
        killed_by="tests/unit/metadata/test_connection_shares.py"
        "::test_one_tenant_leaves_connections_to_another",
        breaks="P19",
    ),
    Mutant(
        "an operation that waited for its tenant's other operations says that Postgres is silent",
        (Edit("metadata/database.py", " or attempt.waits_for_turn:", ":"),),
        killed_by="tests/unit/metadata/test_connection_shares.py"
        "::test_an_operation_that_got_no_turn_says_nothing_of_postgres",
        breaks="P19",
    ),
    Mutant(
        "a tenant's locks take no turn at a connection to Postgres",
        (
            Edit(
                "metadata/locks/locks.py",
                "deadline_s=RENEW_DEADLINE_S, tenant_id=claim.tenant_id",
                "deadline_s=RENEW_DEADLINE_S",
            ),
        ),
        killed_by="tests/integration/metadata/test_connection_shares.py::test_a_lock[acquire]",
        breaks="P19",
        fails_with="TimeoutError",
    ),
    Mutant(
        "a body of very many values is read",
        (
            Edit(
                "edge/bodies.py",
                "    if bounds.are_met is not None and not bounds.are_met(body):\n",
                "    if False:\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_decoding.py"
        "::test_a_body_of_very_many_values_is_refused_and_costs_little",
        breaks="P19",
    ),
    Mutant(
        "the end of a string is looked for from each of its quotes",
        (Edit("edge/bodies.py", '(?:"|\\\\?\\Z)', '"'),),
        killed_by="tests/unit/gateway/test_decoding.py"
        "::test_a_body_of_very_many_values_is_refused_and_costs_little",
        fails_with="Failed",
        breaks="P19",
    ),
    Mutant(
        "values are counted in strings",
        (
            Edit(
                "edge/bodies.py",
                ' or _within_bounds(_STRING.sub(b"", body))',
                "",
            ),
        ),
        killed_by="tests/unit/gateway/test_decoding.py::test_values_are_not_counted_in_strings",
        breaks="P19",
        fails_with="edge.problem.Problem",
    ),
    Mutant(
        "a large batch is read on the event loop",
        (Edit("publish_forwarder/batch_body.py", "    if not dear(body):\n", "    if True:\n"),),
        killed_by="tests/unit/edge/test_large_bodies.py::test_a_body_that_takes_too_long_is_413",
        breaks="P19",
    ),
    Mutant(
        "a MessagePack batch of very many values is read on the event loop",
        (
            Edit(
                "publish_forwarder/batch_body.py",
                "        if here and len(body) > SMALL_BYTES and",
                "        if False and",
            ),
        ),
        killed_by="tests/unit/edge/test_large_bodies.py"
        "::test_messagepack_of_very_many_values_is_not_read_here",
        breaks="P19",
    ),
    Mutant(
        "expressions of a subscription are read without a turn for others",
        (
            Edit(
                "subscribe_forwarder/delivery/selection/selection.py",
                "            Rule(text, _bodies)\n        if slices.over:\n",
                "            Rule(text, _bodies)\n        if False:\n",
            ),
        ),
        killed_by="tests/unit/subscribe_forwarder/test_selection_cost.py"
        "::test_many_dear_expressions_of_a_subscription_are_read_in_slices",
        breaks="P19",
    ),
    Mutant(
        "a large answer is copied to be written with its head",
        (
            Edit(
                "gateway/http/connection.py",
                "if head and len(body) > JOIN_BELOW_BYTES:",
                "if False:",
            ),
        ),
        killed_by="tests/unit/gateway/test_unread_answers.py"
        "::test_a_large_answer_is_written_without_a_copy",
        fails_with="TimeoutError",
        breaks="P19",
    ),
    Mutant(
        "a text that was refused is compiled again each time",
        (
            Edit(
                "edge/expressions/expression.py",
                "        found = error.with_traceback(None)\n",
                "        raise\n",
            ),
        ),
        killed_by="tests/unit/edge/test_expressions.py"
        "::test_a_text_is_compiled_once_also_if_it_is_refused[nothing == 'again']",
        breaks="P19",
    ),
    Mutant(
        "a text of too many tokens is scanned again each time",
        (
            Edit(
                "edge/expressions/expression.py",
                "@lru_cache(MAX_READINGS)\ndef _beyond",
                "@lru_cache(0)\ndef _beyond",
            ),
        ),
        killed_by="tests/unit/edge/test_expressions.py"
        "::test_a_long_text_is_scanned_once_also_if_it_is_sent_again[text1]",
        breaks="P19",
    ),
    Mutant(
        "a new filter is compiled and checked in one piece",
        (
            Edit(
                "edge/expressions/expression.py",
                "    program = _compiled(text, tokens)\n    yield\n",
                "    program = _compiled(text, tokens)\n",
            ),
        ),
        killed_by=f"{_AHEAD}::test_no_piece_does_two_of_the_steps",
        breaks="P19",
    ),
    Mutant(
        "new filters are read without rests",
        (
            Edit(
                "edge/expressions/ahead.py",
                "(1 / PART - 1) * (time.thread_time() - began_s)",
                "0",
            ),
        ),
        killed_by=f"{_AHEAD}::test_new_filters_leave_three_quarters_of_the_time_to_others",
        breaks="P19",
    ),
    Mutant(
        "any number of new filters are read at a time",
        (Edit("edge/expressions/ahead.py", "AT_ONCE = 1\n", "AT_ONCE = 1000\n"),),
        killed_by=f"{_AHEAD}::test_new_filters_leave_three_quarters_of_the_time_to_others",
        breaks="P19",
    ),
    Mutant(
        "all new filters are of one tenant",
        (Edit("edge/expressions/ahead.py", "_permits.permit(tenant_id)", '_permits.permit(b"")'),),
        killed_by=f"{_AHEAD}::test_tenants_take_turns",
        breaks="P19",
    ),
    Mutant(
        "the part of a filter that a rule evaluates is read in one callback",
        (Edit("edge/expressions/ahead.py", "if equalities and rest is not None:", "if False:"),),
        killed_by=f"{_NEW_FILTERS}::test_a_long_new_filter_is_read_in_pieces[replay]",
        breaks="P19",
    ),
    Mutant(
        "a change holds its turn while its filter is read",
        (Edit("edge/expressions/ahead.py", "    async with aside(scope):\n", "    if True:\n"),),
        killed_by=f"{_NEW_FILTERS}"
        "::test_a_change_gives_its_turn_to_others_while_its_filter_is_read[addSkipRule]",
        breaks="P19",
    ),
    *(
        Mutant(
            f"the filter of {name} is read in one callback",
            (Edit(file, line, "pass"),),
            killed_by=f"{_NEW_FILTERS}::test_a_long_new_filter_is_read_in_pieces[{name}]",
            breaks="P19",
        )
        for name, file, line in _READ_AHEAD
    ),
    Mutant(
        "the filter of a changed subscription is read in one callback",
        (
            Edit(
                "gateway/subscriptions/subscriptions.py",
                "if body.filter != present.filter:",
                "if False:",
            ),
        ),
        killed_by=f"{_NEW_FILTERS}::test_a_long_new_filter_is_read_in_pieces[patchSubscription]",
        breaks="P19",
    ),
    Mutant(
        "all policies of a tenant are read in one callback",
        (Edit("metadata/tenancy/named_rows.py", "READ_AT_ONCE = 50\n", "READ_AT_ONCE = 10**9\n"),),
        killed_by="tests/integration/metadata/test_long_reads.py"
        "::test_all_policies_of_a_tenant_are_read_in_short_callbacks",
        breaks="P19",
    ),
)
