"""Test the exit codes of the command; docs/guides/command-line.md promises the numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packetboat.cli.exit_codes import ExitCode
from packetboat.errors import ConnectionFailed, UnknownOutcome

from tests.unit.sdk.cli_support import Answer, Command, problem

GUIDE = Path(__file__).parents[3] / "docs/guides/command-line.md"
CASES: dict[str, tuple[Answer, int]] = {
    "done": ({}, 0),
    "invalid": (problem(422, "invalid-request"), 1),
    "defect": (problem(500, "internal"), 1),
    "unauthorized": (problem(401, "unauthorized"), 3),
    "forbidden": (problem(403, "permission-denied"), 3),
    "not-found": (problem(404, "lock-not-found"), 4),
    "conflict": (problem(409, "lock-held"), 5),
    "precondition": (problem(412, "changed"), 5),
    "too-many": (problem(429, "rate-limited"), 6),
    "unavailable": (problem(503, "not-ready"), 6),
    "full": (problem(507, "topic-full"), 6),
    "unreachable": (ConnectionFailed("refused"), 6),
    "unknown": (problem(504, "outcome-unknown"), 7),
    "cut": (UnknownOutcome("cut"), 7),
    "interrupted": (KeyboardInterrupt(), 130),
}


@pytest.mark.parametrize("case", CASES)
def test_exit_codes(command: Command, case: str) -> None:
    given, code = CASES[case]
    ran = command("locks", "delete", "a", "--timeout", "0.01", answers={"DELETE /locks/a": given})
    assert ran.code == code
    assert bool(ran.err) == bool(code) or case == "done"


def test_an_answer_that_is_none_of_ours(command: Command) -> None:
    html = problem(200, "")._replace(body=b"<html>")
    ran = command("locks", "get", "a", answers={"GET /locks/a": html})
    assert (ran.code, ran.out) == (1, "")
    assert "doctor" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        "topics create",
        "topics create a --partitions x",
        "nothing",
        "locks get a --nothing",
        "seek s",
    ],
)
def test_wrong_use_is_2(command: Command, arguments: str) -> None:
    ran = command(*arguments.split())
    assert (ran.code, ran.out, ran.server.requests) == (2, "", [])


def test_the_guide_has_the_same_numbers() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == [int(code) for code in ExitCode]


def test_a_call_is_tried_again_until_its_time_is_over(command: Command) -> None:
    answers = {"GET /locks/a": [problem(503, "not-ready"), {"name": "a"}]}
    assert command("locks", "get", "a", answers=answers).code == 0


@pytest.mark.parametrize(("options", "told"), [((), 1), (("-q",), 0)])
def test_that_it_is_tried_again_is_a_note(
    command: Command, caplog: pytest.LogCaptureFixture, options: tuple[str, ...], told: int
) -> None:
    answers = {"GET /locks/a": [problem(503, "not-ready"), {"name": "a"}]}
    assert command(*options, "locks", "get", "a", answers=answers).code == 0
    assert len([each for each in caplog.messages if "tried again" in each]) == told


def test_a_quiet_command_says_how_it_failed(
    command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {"GET /locks/a": problem(503, "not-ready", "There is no leader.")}
    ran = command("-q", "--timeout", "0.1", "locks", "get", "a", answers=answers)
    assert (ran.code, caplog.messages) == (6, [])
    assert "There is no leader." in ran.err


def test_what_is_not_safe_is_not_sent_twice(command: Command) -> None:
    ran = command("topics", "create", "t", answers={"POST /topics": UnknownOutcome("cut")})
    assert (ran.code, len(ran.server.requests)) == (7, 1)
