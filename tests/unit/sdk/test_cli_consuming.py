"""`pull`, `ack`, `tail`, `replay`, redrives: what is taken, shown, acked, given back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from packetboat.errors import ConnectionFailed, UnknownOutcome
from packetboat.transport import Request

from tests.unit.sdk.cli_support import Answer, Command, answer, problem


def message(number: int, data: object = None, **more: Any) -> dict[str, Any]:
    return {
        "message_id": f"m{number}",
        "ack_id": f"a{number}",
        "data": data or f"body {number}",
        "publish_time": "2026-01-01T00:00:00Z",
        "partition": 0,
        "offset": number,
        "key": None,
        "attributes": {},
        "attempt": 1,
        **more,
    }


def pulls(*counts: int) -> dict[str, Answer]:
    """Answer pulls of subscription `s` with these numbers of messages, then with none."""
    numbers = iter(range(1, 1 + sum(counts)))
    pages = [{"messages": [message(next(numbers)) for _ in range(count)]} for count in counts]
    settled = {"acked": 0, "done": 0, "results": []}

    def pull(request: Request) -> Any:
        return pages.pop(0) if pages else {"messages": []}

    return {
        "GET /subscriptions/s/messages": pull,
        "POST /subscriptions/s/ack": settled,
        "POST /subscriptions/s/release": settled,
    }


def bodies(ran: Any, verb: str) -> list[Any]:
    wanted = f"/subscriptions/s/{verb}"
    return [json.loads(each.body) for each in ran.server.requests if each.path == wanted]


def test_pull_for_people(command: Command) -> None:
    pulled = {"messages": [message(1, {"x": 1}, key="k", attributes={"a": "b"}, attempt=2)]}
    ran = command("pull", "s", answers={"GET /subscriptions/s/messages": pulled})
    assert ran.out == '2026-01-01T00:00:00Z 0/1 key=k a=b attempt=2\n{"x": 1}\n'
    assert ran.err == "ack with: packetboat ack s a1\n"


def test_pull_and_ack(command: Command) -> None:
    ran = command("pull", "s", "--ack", "-o", "ndjson", answers=pulls(2))
    assert [each["ack_id"] for each in ran.lines()] == ["a1", "a2"]
    assert bodies(ran, "ack") == [{"ack_ids": ["a1", "a2"]}]


def test_bodies_that_are_no_text_and_commands_to_terminals(command: Command) -> None:
    raw = message(1, data_base64="//4A")
    evil = message(2, "\x1b[2J")
    ran = command("pull", "s", answers={"GET /subscriptions/s/messages": {"messages": [raw, evil]}})
    assert "(3 bytes) //4A" in ran.out
    assert "\x1b" not in ran.out


def test_ids_are_read_from_what_pull_printed(command: Command) -> None:
    lines = "".join(json.dumps(message(n)) + "\n" for n in range(1, 1202))
    answers = {"POST /subscriptions/s/ack": {"acked": 1, "results": []}}
    ran = command("ack", "s", stdin=lines, answers=answers)
    assert [len(each["ack_ids"]) for each in bodies(ran, "ack")] == [1000, 201]
    assert command("ack", "s", stdin="{}\n").code == 2
    assert command("ack", "s", stdin="x\n").code == 2
    assert command("ack", "s", stdin="").code == 2


def test_acks_that_are_refused_are_named(command: Command) -> None:
    late = {"index": 1, "status": 409, "type": "https://x/lease-expired", "ack_id": "b"}
    answers = {"POST /subscriptions/s/ack": {"acked": 1, "results": [late]}}
    ran = command("ack", "s", "a", "b", answers=answers)
    assert ran.code == 5
    assert "b: 409 lease-expired" in ran.err


def test_tail_of_a_subscription_gives_back_what_it_showed(command: Command) -> None:
    ran = command("tail", "-s", "s", "--no-follow", "--data", answers=pulls(2, 1))
    assert ran.out == "body 1\nbody 2\nbody 3\n"
    assert bodies(ran, "ack") == []
    assert bodies(ran, "release") == [{"ack_ids": ["a1", "a2", "a3"]}]


def test_tail_acks_what_it_showed(command: Command) -> None:
    ran = command("tail", "-s", "s", "--ack", "--max", "3", "-o", "ndjson", answers=pulls(2, 1))
    assert [each["message_id"] for each in ran.lines()] == ["m1", "m2", "m3"]
    assert bodies(ran, "ack") == [{"ack_ids": ["a1", "a2"]}, {"ack_ids": ["a3"]}]
    assert bodies(ran, "release") == []
    assert "max_messages=1&" in ran.server.requests[2].path


def test_tail_ends_by_ctrl_c_and_is_done(command: Command) -> None:
    answers = pulls(1)
    first = {"messages": [message(1)]}
    answers["GET /subscriptions/s/messages"] = [first, KeyboardInterrupt()]
    ran = command("tail", "-s", "s", "--ack", "-o", "json", answers=answers)
    assert ran.code == 0
    assert [each["message_id"] for each in ran.json] == ["m1"]


def own(command: Command, *arguments: str, pulled: Answer) -> Any:
    """Tail of a topic: its temporary subscription has any name."""
    made: list[str] = []

    def create(request: Request) -> Any:
        name = json.loads(request.body)["name"]
        made.append(name)
        answers[f"GET /subscriptions/{name}/messages"] = pulled
        answers[f"POST /subscriptions/{name}/ack"] = {"acked": 1, "results": []}
        answers[f"DELETE /subscriptions/{name}"] = answer(None)
        return {"name": name}

    answers: dict[str, Answer] = {"POST /topics/o/subscriptions": create}
    ran = command("tail", "o", *arguments, answers=answers)
    assert len(made) == 1
    return ran


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), problem(503, "x"), ConnectionFailed("x")])
def test_tail_of_a_topic_leaves_nothing_behind(command: Command, ending: BaseException) -> None:
    pulled = [{"messages": [message(1)]}, ending, ending, ending, ending]
    ran = own(command, "--timeout", "0.01", "--data", pulled=pulled)
    assert ran.out == "body 1\n"
    assert ran.server.paths()[-1].startswith("DELETE /subscriptions/tail-")


def test_tail_asks_for_no_longer_wait_than_a_call_may_take(command: Command) -> None:
    answers = pulls() | {"GET /subscriptions/s/messages": [KeyboardInterrupt()]}
    ran = command("tail", "-s", "s", "--timeout", "5", answers=answers)
    assert "wait_seconds=2.5" in ran.server.requests[0].path


@pytest.mark.parametrize(("ending", "code"), [(KeyboardInterrupt(), 130), (UnknownOutcome("x"), 7)])
def test_tail_deletes_what_may_have_been_made(
    command: Command, ending: BaseException, code: int
) -> None:
    """The subscription was left behind by an interrupt between the server's work and answer."""
    ran = command("tail", "o", answers={"POST /topics/o/subscriptions": ending})
    assert ran.code == code
    assert ran.server.paths()[-1].startswith("DELETE /subscriptions/tail-")
    assert "left behind" not in ran.err


def test_tail_says_where_to_begin(command: Command) -> None:
    pulled = {"messages": []}
    ran = own(command, "--from-start", "--no-follow", "--filter", "true", pulled=pulled)
    assert (ran.server.sent(0)["start"], ran.server.sent(0)["filter"]) == ("earliest", "true")
    ran = own(command, "--since", "2026-01-01T00:00:00Z", "--no-follow", pulled=pulled)
    assert ran.server.sent(0)["start"] == {"time": "2026-01-01T00:00:00+00:00"}


WRONG = """\
tail
tail o -s s
tail -s s --from-start
tail o --from-start --since 1h
tail o --since x
seek s
seek s --to latest --offset 1
replay o --offset 1
dead-letters redrive s
dead-letters discard s --all --id x
nack s a --reject --delay 1"""


@pytest.mark.parametrize("line", WRONG.splitlines())
def test_wrong_use(command: Command, line: str) -> None:
    ran = command(*line.split())
    assert (ran.code, ran.server.requests) == (2, [])


def test_replay_reads_every_partition_to_its_present_end(command: Command) -> None:
    def part(*numbers: int, end: int) -> dict[str, Any]:
        found = [message(n) for n in numbers]
        following = (numbers[-1] + 1) if numbers else end
        return {"messages": found, "next_offset": following, "first_offset": 0, "end_offset": end}

    answers = {
        "GET /topics/o": {"partitions": 2},
        "GET /topics/o/partitions/0/messages": [part(0, 1, end=3), part(2, end=9)],
        "GET /topics/o/partitions/1/messages": part(end=0),
    }
    ran = command("replay", "o", "-o", "ndjson", answers=answers)
    assert [each["offset"] for each in ran.lines()] == [0, 1, 2]
    assert "offset=2" in ran.server.requests[2].path


def redrive(state: str, done: int, failed: int = 0) -> dict[str, Any]:
    return {"redrive_id": "r", "state": state, "total": 2, "redriven": done, "failed": failed}


@pytest.mark.parametrize(("last", "code"), [(redrive("done", 2), 0), (redrive("done", 1, 1), 1)])
def test_a_redrive_is_watched(command: Command, last: dict[str, Any], code: int) -> None:
    answers = {
        "POST /subscriptions/s/dead_letters:redrive": redrive("running", 0),
        "GET /subscriptions/s/redrives/r": [redrive("running", 1), last],
    }
    ran = command("dead-letters", "redrive", "s", "--all", "-o", "json", answers=answers)
    assert (ran.code, ran.json) == (code, last)


def test_discarding_goes_on_until_all_are(command: Command) -> None:
    where = "POST /subscriptions/s/dead_letters:discard"
    parts = [{"discarded": 3, "complete": False}, {"discarded": 1, "complete": True}]
    ran = command("dead-letters", "discard", "s", "--all", "-o", "json", answers={where: parts})
    assert ran.json == {"discarded": 4}


def job(state: str) -> dict[str, Any]:
    tasks = {"total": 2, "succeeded": 1, "failed": 0, "cancelled": 0}
    return {"name": "j", "state": state, "tasks": tasks}


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_a_job_is_watched(command: Command, state: str, code: int) -> None:
    ran = command("jobs", "watch", "j", answers={"GET /jobs/j": [job("running"), job(state)]})
    assert ran.code == code
    assert f"state: {state}" in ran.out
