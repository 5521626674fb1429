"""Mutants of connections of HTTP: what is executed, what is kept, and when they end."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_CUTS = "tests/unit/gateway/test_http_cuts.py"
_SERVER = "tests/unit/gateway/test_http_server.py"
_HYPERCORN = "tests/unit/gateway/test_over_hypercorn.py"
_UNSENT = "tests/unit/gateway/test_unsent.py"

MUTANTS: tuple[Mutant, ...] = (
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
)
