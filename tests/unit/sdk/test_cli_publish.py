"""`packetboat publish`: every message is counted as what became of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packetboat.cli.connection import Transports
from packetboat.errors import ConnectionFailed, UnknownOutcome
from packetboat.transport import AsyncStreamResponse, Request, Response

from tests.unit.sdk.cli_support import Command, Ran, Server, answer, problem

Outcome = Callable[[int, dict[str, Any]], Any]
"""A function that returns the outcome of the n-th message: a receipt or a problem.

It may return an error or a Response for the whole batch.
"""


def receipt(number: int, duplicate: bool = False) -> dict[str, Any]:
    return {
        "message_id": f"m{number}",
        "topic": "o",
        "partition": 0,
        "offset": number,
        "publish_time": "2026-01-01T00:00:00Z",
        "duplicate": duplicate,
    }


def refusal(status: int, slug: str) -> dict[str, Any]:
    return {"type": f"https://packetboat.dev/problems/{slug}", "title": slug, "status": status}


class Broker:
    """Takes batches; `outcome` says what becomes of each message."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.messages: list[dict[str, Any]] = []
        self.batches: list[int] = []

    async def send(self, request: Request) -> Response:
        batch = msgspec.msgpack.decode(request.body)["messages"]
        self.batches.append(len(batch))
        results = []
        for message in batch:
            self.messages.append(message)
            found = self.outcome(len(self.messages), message)
            if isinstance(found, BaseException):
                raise found
            if isinstance(found, Response):
                return found
            results.append(found)
        return answer({"results": results})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncStreamResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def publish(
    command: Command,
    *arguments: str,
    outcome: Outcome = lambda number, message: receipt(number),
    stdin: str | bytes | None = None,
) -> tuple[Ran, Broker]:
    broker = Broker(outcome)
    ran = command(
        "publish",
        "o",
        *arguments,
        stdin=stdin,
        answers={"GET /healthz": {"status": "ok"}},
        transports=lambda server: Transports(server, broker),
    )
    return ran, broker


def summary(ran: Ran) -> dict[str, int]:
    counts: dict[str, int] = ran.json
    return {name: n for name, n in counts.items() if name not in ("topic", "seconds") and n}


def test_lines_of_stdin(command: Command) -> None:
    ran, broker = publish(command, "-o", "json", stdin="a\nb\n\nc\n")
    assert (ran.code, summary(ran), ran.err) == (0, {"done": 3}, "")
    assert [each["data"] for each in broker.messages] == [b"a", b"b", b"c"]


def test_people_are_told_on_stderr(command: Command) -> None:
    ran, _ = publish(command, stdin="a\n")
    assert ran.out == ""
    assert ran.err.startswith("o: 1 done (0 of them before), 0 refused, 0 unknown in ")
    assert publish(command, "-q", stdin="a\n")[0].err == ""


def test_one_message(command: Command) -> None:
    _, broker = publish(command, "--data", "a\nb", "--key", "k", "-a", "x=y")
    assert broker.messages == [
        {
            "data": b"a\nb",
            "content_type": "text/plain; charset=utf-8",
            "key": "k",
            "attributes": {"x": "y"},
        }
    ]


def test_one_message_for_later_that_is_published_once(command: Command) -> None:
    more = ["--delay", "10m", "--ttl", "2h", "--priority", "7", "--idempotency-key", "order-1"]
    ran, broker = publish(command, "--data", "a", *more)
    assert ran.code == 0
    assert broker.messages == [
        {
            "data": b"a",
            "content_type": "text/plain; charset=utf-8",
            "delay_seconds": 600.0,
            "ttl_seconds": 7200.0,
            "priority": 7,
            "idempotency_key": "order-1",
        }
    ]


def test_a_line_that_says_its_own_delay_priority_or_ttl_keeps_it(command: Command) -> None:
    own = '{"data":1,"priority":2,"deliver_at":"2030-01-01T00:00:00Z","ttl_seconds":5}'
    options = ["--ndjson", "--priority", "9", "--delay", "30", "--ttl", "1m"]
    _, broker = publish(command, *options, stdin=own + '\n{"data":2}\n')
    first, second = ({k: v for k, v in m.items() if k != "data"} for m in broker.messages)
    assert first["priority"] == 2
    assert (first["deliver_at"][:10], first["ttl_seconds"]) == ("2030-01-01", 5.0)
    assert "delay_seconds" not in first
    assert (second["priority"], second["delay_seconds"], second["ttl_seconds"]) == (9, 30.0, 60.0)


def test_a_moment_to_deliver_at(command: Command) -> None:
    _, broker = publish(command, "--data", "a", "--deliver-at", "2030-01-01T00:00:00Z")
    assert broker.messages[0]["deliver_at"].startswith("2030-01-01T00:00:00")


def test_many_in_batches(command: Command) -> None:
    ran, broker = publish(command, "--batch", "100", "-o", "json", stdin="x\n" * 5000)
    assert summary(ran) == {"done": 5000}
    assert max(broker.batches) <= 100


def test_bad_lines_are_refused_and_the_rest_is_published(command: Command) -> None:
    lines = '{"data": 1}\n{"nothing": 1}\n{"data": 2}\n'
    ran, broker = publish(command, "--ndjson", "-o", "json", stdin=lines)
    assert ran.code == 1
    assert summary(ran) == {"done": 2, "refused": 1, "first_line_not_done": 2}
    assert "line 2: unknown member 'nothing'" in ran.err
    assert [json.loads(each["data"]) for each in broker.messages] == [1, 2]


def test_duplicates_are_counted(command: Command) -> None:
    ran, broker = publish(
        command,
        "--resume-id",
        "r",
        "-o",
        "json",
        stdin="a\nb\n",
        outcome=lambda number, message: receipt(number, duplicate=number == 1),
    )
    assert summary(ran) == {"done": 2, "duplicates": 1}
    assert [each["idempotency_key"] for each in broker.messages] == ["r/1", "r/2"]


def test_what_the_server_refuses_one_by_one(command: Command) -> None:
    ran, _ = publish(
        command,
        "-o",
        "json",
        stdin="a\nb\nc\n",
        outcome=lambda number, message: (
            refusal(422, "invalid-request") if message["data"] == b"b" else receipt(number)
        ),
    )
    assert ran.code == 1
    assert summary(ran) == {"done": 2, "refused": 1, "first_line_not_done": 2}


def test_unknown_outcomes_weigh_most(command: Command) -> None:
    ran, _ = publish(
        command,
        "--timeout",
        "0.2",
        "-o",
        "json",
        stdin="a\n{\n",
        outcome=lambda number, message: UnknownOutcome("cut"),
    )
    assert ran.code == 7
    assert summary(ran)["unknown"] == 2
    assert "line 1" in ran.err


@pytest.mark.parametrize(("status", "slug", "code"), [(404, "topic-not-found", 4), (403, "x", 3)])
def test_what_every_line_would_meet_ends_it(
    command: Command, status: int, slug: str, code: int
) -> None:
    ran, broker = publish(
        command,
        stdin="x\n" * 100_000,
        outcome=lambda number, message: problem(status, slug, "No."),
    )
    assert ran.code == code
    assert len(ran.err.splitlines()) <= 4
    assert sum(broker.batches) < 100_000


def test_a_server_that_is_not_there_is_said_at_once(command: Command) -> None:
    ran = command(
        "publish",
        "o",
        "--timeout",
        "0.01",
        stdin="a\n",
        answers={"GET /healthz": ConnectionFailed("refused")},
    )
    assert ran.code == 6
    assert "doctor" in ran.err


def test_receipts_are_a_line_each(command: Command) -> None:
    ran, _ = publish(command, "--receipts", stdin="a\nb\n")
    assert [(each["line"], each["message_id"]) for each in ran.lines()] == [(1, "m1"), (2, "m2")]


def test_a_file_that_is_not_there(command: Command) -> None:
    ran, _ = publish(command, "nowhere.txt")
    assert ran.code == 1
    assert ran.err.startswith("packetboat: nowhere.txt: No such file or directory\n")


def test_what_was_read_of_a_cut_file_is_published_and_counted(command: Command) -> None:
    Path("cut.gz").write_bytes(gzip.compress(b"x\n" * 20_000)[:-4])
    ran, _ = publish(command, "cut.gz", "-o", "json")
    assert ran.code == 1
    assert summary(ran)["done"] > 0
    assert "cut.gz" in ran.err


def test_files_one_after_another(command: Command) -> None:
    Path("a").write_text("1\n")
    Path("b").write_text("2\n")
    _, broker = publish(command, "a", "b", "--whole")
    assert [each["data"] for each in broker.messages] == [b"1\n", b"2\n"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ndjson", "--whole"],
        ["--whole", "--key-field", "k"],
        ["--key", "k", "--key-field", "k"],
        ["--ndjson", "--content-type", "x/y"],
        ["--data", "x", "file"],
        ["--attribute", "x"],
        ["--batch", "0"],
        ["--delay", "soon"],
        ["--delay", "1", "--deliver-at", "2030-01-01T00:00:00Z"],
        ["--priority", "10"],
        ["--idempotency-key", "k"],
        ["--idempotency-key", "k", "--whole", "one", "two"],
        ["--idempotency-key", "k", "--data", "x", "--resume-id", "r"],
    ],
    ids=" ".join,
)
def test_wrong_use(command: Command, arguments: list[str]) -> None:
    ran, broker = publish(command, *arguments)
    assert (ran.code, broker.batches) == (2, [])


def test_keys_keep_their_order(command: Command) -> None:
    lines = "".join(f'{{"data": {n}, "key": "{n % 3}"}}\n' for n in range(3000))
    _, broker = publish(command, "--ndjson", "--batch", "7", stdin=lines)
    for key in "012":
        numbers = [json.loads(each["data"]) for each in broker.messages if each["key"] == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 1000


def test_a_server_of_the_table_is_asked_for_nothing_else(command: Command) -> None:
    ran, _ = publish(command, stdin="a\n")
    server: Server = ran.server
    assert server.paths() == ["GET /healthz"]
