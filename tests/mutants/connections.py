"""Mutants of connections of HTTP: what is executed, what is kept, and when they end."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_DIRECT = "tests/unit/gateway/test_direct.py"
_CUTS = "tests/unit/gateway/test_http_cuts.py"
_SERVER = "tests/unit/gateway/test_http_server.py"
_HYPERCORN = "tests/unit/gateway/test_over_hypercorn.py"
_UNSENT = "tests/unit/gateway/test_unsent.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a defect in the answer of a direct publish reaches the sender of its append",
        (
            Edit(
                "gateway/http/direct.py",
                "            made = answer()\n        except Exception as error:\n",
                "            made = answer()\n        except ZeroDivisionError as error:\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_DIRECT}::test_a_defect_in_an_answer_is_a_500_and_spares_the_others",
    ),
    Mutant(
        "a request is not held against the permissions of its caller",
        (
            Edit(
                "gateway/http/running.py",
                "            endpoint.check(principal.caller, call.params)\n",
                "",
            ),
        ),
        breaks="P7",
        killed_by=f"{_DIRECT}::test_a_policy_that_changes_holds_from_the_next_request_on",
    ),
    Mutant(
        "a request is not charged",
        (
            Edit(
                "gateway/http/running.py",
                "            if over is not None:\n                raise rate_limited(over)\n",
                "",
            ),
        ),
        breaks="P7",
        killed_by=f"{_DIRECT}::test_a_limit_that_is_set_holds_at_once",
    ),
    Mutant(
        "a request that is served directly and let in is never let out",
        (
            Edit(
                "gateway/http/direct.py",
                "            self._admitted = call\n",
                "",
            ),
        ),
        breaks="P19",
        killed_by=f"{_DIRECT}::test_what_is_not_admitted_is_refused_and_let_go",
    ),
    Mutant(
        "a request that is served directly counts as no part of a handler",
        (Edit("gateway/http/round_robin.py", "DIRECT = 0.25\n", "DIRECT = 0\n"),),
        breaks="P19",
        killed_by=f"{_DIRECT}::test_a_request_that_is_served_directly_counts_as_a_quarter",
    ),
    Mutant(
        "a request that is served directly counts as a whole handler",
        (Edit("gateway/http/connection.py", "turns.handled(DIRECT)", "turns.handled()"),),
        breaks="P19",
        killed_by=f"{_DIRECT}::test_a_request_that_is_served_directly_counts_as_a_quarter",
    ),
    Mutant(
        "all messages of an append are answered in one pass of the event loop",
        (
            Edit(
                "gateway/http/direct.py",
                "if self._turns.admits(partial(self._take_turn, answer), self.tenant_id):",
                "if True:",
            ),
        ),
        breaks="P19",
        killed_by=f"{_DIRECT}::test_the_answers_of_an_append_go_over_several_passes",
    ),
    Mutant(
        "messages for a topic with a schema are published directly, unchecked",
        (
            Edit(
                "publish_forwarder/direct.py",
                "if routes is None or routes.topic.schema is not None:",
                "if routes is None:",
            ),
        ),
        breaks="P8",
        killed_by=f"{_DIRECT}::test_a_topic_that_gets_a_schema_is_dispatched",
    ),
    Mutant(
        "a request that is served directly begins before its body is whole",
        (
            Edit(
                "gateway/http/connection.py",
                "        if len(buffer) < end or direct is None:\n",
                "        if direct is None:\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_DIRECT}::test_however_the_bytes_of_known_heads_are_cut",
    ),
    Mutant(
        "messages of one head share their bytes",
        (
            Edit(
                "publish_forwarder/direct.py",
                "        message = copy.copy(metadata.message)\n",
                "        message = metadata.message\n",
            ),
        ),
        breaks="P1",
        killed_by=f"{_DIRECT}::test_requests_with_one_head_that_come_at_once_keep_their_bodies",
    ),
    Mutant(
        "bytes that the kernel keeps for a client count as taken",
        (
            Edit(
                "gateway/http/unsent.py",
                "        unsent_bytes += int.from_bytes(found, sys.byteorder)\n",
                "",
            ),
        ),
        killed_by="tests/unit/gateway/test_unread_answers.py"
        "::test_a_client_that_reads_nothing_is_not_counted_for_longer_than_the_timeout[own]",
        fails_with="TimeoutError",
        breaks="P19",
    ),
    Mutant(
        "a client that takes all that waits, a little at a time, is a stalled one",
        (
            Edit(
                "gateway/http/unsent.py",
                "min(account.taken_bytes + LEAST_BYTES, account.given_bytes)",
                "account.taken_bytes + LEAST_BYTES",
            ),
        ),
        killed_by="tests/unit/gateway/test_unsent.py"
        "::test_who_takes_all_that_waited_each_time_is_not_ended",
        breaks="P19",
    ),
    Mutant(
        "a body in chunks takes what follows it",
        (
            Edit(
                "gateway/http/request.py",
                "        found = data.find(END, at)\n",
                "        found = -1\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_CUTS}::test_cut_in_two_at_every_position",
    ),
    Mutant(
        "an empty line that began in the bytes before is not seen",
        (
            Edit(
                "gateway/http/request.py",
                "            if begun >= 0:\n",
                "            if False:\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_CUTS}::test_cut_in_two_at_every_position",
    ),
    Mutant(
        "a request goes on being read behind a malformed one",
        (
            Edit(
                "gateway/http/connection.py",
                "        self._buffer.clear()\n        self._refuse(problem)\n",
                "        self.write(refusal(problem, self._server.date_line()))\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_CUTS}::test_nothing_behind_a_malformed_request_is_executed",
    ),
    Mutant(
        "a client that takes no answers may stay",
        (
            Edit(
                "gateway/http/connection.py",
                "            self._server.unsent.sweep(self.account, now_s)\n",
                "",
            ),
        ),
        breaks="P8",
        killed_by=f"{_SERVER}::test_who_takes_no_answer_is_cut_off",
    ),
    Mutant(
        "a connection that was ended keeps what it had unsent",
        (
            Edit(
                "gateway/http/unsent.py",
                "        self._move(account, account.tenant_id, 0)\n        account.end(why)\n",
                "        account.end(why)\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_UNSENT}::test_who_takes_nothing_for_the_timeout_is_ended",
    ),
    Mutant(
        "whoever fills a buffer of HTTP/2 does not wait for the client",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "        while len(self.buffer) >= _BUFFER_BYTES and not self._complete:\n",
                "        while False:\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_HYPERCORN}::test_answers_wait_where_the_window_is_0",
    ),
    Mutant(
        "handlers of streams that were given up are not counted",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "        if self._running >= self.config.h2_max_concurrent_streams:\n",
                "        if len(self.streams) >= self.config.h2_max_concurrent_streams:\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_HYPERCORN}::test_no_more_handlers_run_than_streams_may_be_open",
        fails_with="TimeoutError",
    ),
    Mutant(
        "all handlers of a connection end in one pass of the event loop",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "            # Its handler ends in the next pass, and takes longer than this.\n"
                "            await asyncio.sleep(0)\n",
                "",
            ),
        ),
        breaks="P19",
        killed_by=f"{_HYPERCORN}"
        "::test_the_handlers_of_a_connection_that_ends_end_in_passes_of_their_own",
    ),
    Mutant(
        "a handler that is cut off within its answer waits until somebody sends it",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "                        await protocol.release()\n",
                "                        pass\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_HYPERCORN}"
        "::test_a_stop_does_not_wait_for_a_handler_that_it_cuts_off_within_its_answer",
    ),
    Mutant(
        "an idle time begins when a connection of Hypercorn is over",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "        if not self._read:  # a handler that ends restarts it, also once the",
                "        if True:  # a handler that ends restarts it, also once the",
            ),
        ),
        breaks="P8",
        killed_by=f"{_HYPERCORN}::test_no_idle_time_begins_once_a_connection_is_over",
        fails_with="TimeoutError",
    ),
    Mutant(
        "a connection of Hypercorn that its client closed lives until it is idle for long",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "                await self.idle_task.stop()\n",
                "",
            ),
        ),
        breaks="P8",
        killed_by=f"{_HYPERCORN}::test_a_closed_connection_is_not_counted",
        fails_with="TimeoutError",
    ),
    Mutant(
        "work that was cancelled is left to the collector of garbage",
        (
            Edit(
                "edge/slices.py",
                "            step = go_on  # This frame and an error that was thrown would keep",
                "            # This frame and an error that was thrown would keep",
            ),
            Edit(
                "edge/slices.py",
                "step = partial(steps.throw, error)\n",
                "step = partial(steps.throw, error)\n        else:\n            step = go_on\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_work_that_was_cancelled_leaves_nothing_to_the_collector_of_garbage",
        breaks="P19",
    ),
    Mutant(
        "a pass of the event loop does all the work that is ready",
        (
            Edit(
                "edge/slices.py",
                "        if self._left_s <= 0 or self._waiting:\n",
                "        if False:\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_a_pass_has_as_many_pieces_as_its_part_allows",
        breaks="P19",
    ),
    Mutant(
        "pieces that were called run in a pass that has no time left",
        (
            Edit(
                "edge/slices.py",
                "                if self._left_s > 0:\n",
                "                if True:\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_cheap_pieces_before_long_ones_do_not_let_all_of_them_into_a_pass",
        breaks="P19",
    ),
    Mutant(
        "a piece that was called in vain goes to the end of the line",
        (
            Edit(
                "edge/slices.py",
                "                heapq.heappush(self._waiting, (number, turn))\n",
                "                heapq.heappush(self._waiting, (next(self._numbers), turn))\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_cheap_pieces_before_long_ones_do_not_let_all_of_them_into_a_pass",
        breaks="P19",
    ),
    Mutant(
        "a pass calls all pieces that wait, whatever they make others do",
        (
            Edit(
                "edge/slices.py",
                "        room = max(1, int(self._slice_s / piece_s))\n",
                "        room = len(self._waiting)\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_a_pass_calls_few_pieces_that_make_others_work",
        breaks="P19",
    ),
    Mutant(
        "work that is cancelled before its turn is left open",
        (Edit("edge/slices.py", "            work.close()\n", ""),),
        killed_by="tests/unit/edge/test_slices.py"
        "::test_work_that_is_cancelled_before_its_turn_is_closed",
        breaks="P19",
    ),
    Mutant(
        "one who gives up keeps the turn of another",
        (
            Edit(
                "edge/slices.py",
                "            if not turn.done():  # the one that waited may be gone\n"
                "                turn.set_result(None)\n"
                "                room -= 1\n",
                "            room -= 1\n            turn.set_result(None)\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py::test_one_that_gives_up_takes_no_turn_of_others",
        breaks="P19",
    ),
    Mutant(
        "all pages that are asked for are sent in one pass",
        (
            Edit(
                "gateway/http/pages.py",
                "await self._turns.run(application(scope, receive, send))",
                "await application(scope, receive, send)",
            ),
        ),
        killed_by="tests/unit/gateway/test_pages.py"
        "::test_pages_take_a_part_of_a_pass[/openapi.json]",
        breaks="P19",
    ),
    Mutant(
        "a pass sends several pages as long as the description of the API",
        (Edit("gateway/http/pages.py", "PAGES_S = 0.00025\n", "PAGES_S = 0.001\n"),),
        killed_by="tests/unit/gateway/test_pages.py"
        "::test_a_pass_has_one_page_as_long_as_the_description_of_the_api",
        breaks="P19",
    ),
    Mutant(
        "all requests that a pass looks at get to their handlers",
        (
            Edit(
                "gateway/http/connection.py",
                "        self._server.turns.handled()\n        path = head",
                "        path = head",
            ),
        ),
        killed_by="tests/unit/gateway/test_round_robin.py"
        "::test_requests_that_come_at_once_get_to_few_handlers_in_a_pass",
        breaks="P19",
    ),
    Mutant(
        "the next requests of all connections that were answered follow in one pass",
        (
            Edit(
                "gateway/http/connection.py",
                "self._server.loop.call_soon(self._ask_for_turn)\n\n    def close_if_idle",
                "self._server.loop.call_soon(self._next_request)\n\n    def close_if_idle",
            ),
        ),
        killed_by="tests/unit/gateway/test_round_robin.py"
        "::test_requests_that_come_at_once_get_to_few_handlers_in_a_pass",
        breaks="P19",
    ),
    Mutant(
        "the handlers of all clients that left end in one pass",
        (
            Edit(
                "gateway/http/connection.py",
                "if self._server.turns.admits(self._end_request, request.tenant_id):",
                "if True:",
            ),
        ),
        killed_by="tests/unit/gateway/test_round_robin.py"
        "::test_clients_that_leave_at_once_end_few_handlers_in_a_pass",
        breaks="P19",
    ),
    Mutant(
        "a pass goes on to begin handlers for connections that wait",
        (
            Edit(
                "gateway/http/round_robin.py",
                "while self._lines and self._left and self._handlers_left > 0:",
                "while self._lines and self._left:",
            ),
        ),
        killed_by="tests/unit/gateway/test_round_robin.py"
        "::test_few_handlers_run_of_the_requests_that_a_pass_looks_at",
        breaks="P19",
    ),
    Mutant(
        "each connection of HTTP/2 has a part of a pass to itself",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "                await self.ledger.turns.run(super().handle(RawData(piece)))\n",
                "                await super().handle(RawData(piece))\n",
            ),
        ),
        killed_by=f"{_HYPERCORN}"
        "::test_all_connections_share_the_part_of_a_pass_that_their_input_takes",
        breaks="P19",
    ),
    Mutant(
        "all handlers of the streams that a pass opened run in the next one",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "await self.ledger.turns.run(self._answer(scope, receive, send, *others))",
                "await self._answer(scope, receive, send, *others)",
            ),
        ),
        killed_by=f"{_HYPERCORN}::test_handlers_begin_in_the_part_of_a_pass_that_connections_share",
        breaks="P19",
    ),
    Mutant(
        "a connection of HTTP/2 sends all that is ready in one pass",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "await self.ledger.turns.run(self._send_part(stream_id))",
                "await self._send_part(stream_id)",
            ),
        ),
        killed_by=f"{_HYPERCORN}"
        "::test_answers_are_sent_in_the_part_of_a_pass_that_connections_share",
        breaks="P19",
    ),
    Mutant(
        "input is read on after its connection is lost",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "                if self.ledger.writer.is_closing():\n",
                "                if False:\n",
            ),
        ),
        killed_by=f"{_HYPERCORN}::test_what_came_from_a_connection_that_is_lost_is_not_read",
        breaks="P8",
    ),
    Mutant(
        "h2 is given any number of frames at once",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "if frames == _FRAMES_AT_ONCE or at - begin >= _READ_BYTES:",
                "if at - begin >= _READ_BYTES:",
            ),
        ),
        killed_by=f"{_HYPERCORN}::test_h2_is_given_a_few_frames_at_once",
        breaks="P19",
    ),
    Mutant(
        "h2 is given four heads at once, however long they are",
        (
            Edit(
                "gateway/http/over_hypercorn.py",
                "if frames == _FRAMES_AT_ONCE or at - begin >= _READ_BYTES:",
                "if frames == _FRAMES_AT_ONCE:",
            ),
        ),
        killed_by=f"{_HYPERCORN}::test_input_is_cut_where_frames_end",
        breaks="P19",
    ),
    Mutant(
        "the work of a tenant is as urgent as requests",
        (Edit("edge/worker.py", "    os.nice(NICENESS)\n", ""),),
        killed_by="tests/unit/edge/test_process_pool.py"
        "::test_requests_have_the_processor_before_the_work_of_a_tenant",
        breaks="P19",
    ),
    Mutant(
        "a piece of work counts once it is done",
        (
            Edit(
                "edge/slices.py",
                "            return\n        finally:\n"
                "            spend(time.thread_time() - began_s)\n",
                "            spend(time.thread_time() - began_s)\n"
                "            return\n        finally:\n",
            ),
        ),
        killed_by="tests/unit/edge/test_slices.py::test_a_piece_that_waits_counts_before_it_waits",
        breaks="P19",
    ),
    Mutant(
        "a stop waits for a connection that took its cancellation for another's",
        (Edit("gateway/http/server.py", "timeout=CANCEL_AGAIN_SECONDS", "timeout=None"),),
        killed_by=f"{_HYPERCORN}"
        "::test_a_handler_that_a_stop_cuts_off_is_no_failure_of_its_connection",
        breaks="P17",
        fails_with="TimeoutError",
    ),
    Mutant(
        "a wait does not hear that its client has gone",
        (
            Edit(
                "gateway/http/connection.py",
                "            self._departure.set_result(None)\n\n    def departure(",
                "            pass\n\n    def departure(",
            ),
        ),
        killed_by=f"{_SERVER}::test_a_client_that_leaves_is_noticed[/wait-for-departure]",
        breaks="P19",
    ),
    Mutant(
        "a wait does not hear that its caller may not go on",
        (
            Edit(
                "gateway/access_watch.py",
                "= refusal, time.monotonic()\n        self._fail(refusal)\n",
                "= refusal, time.monotonic()\n",
            ),
        ),
        killed_by="tests/unit/gateway/test_access_watch.py"
        "::test_who_may_no_longer_is_answered_so_and_nobody_else",
        breaks="P12",
    ),
)
