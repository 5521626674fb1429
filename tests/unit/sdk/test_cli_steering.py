"""Skip rules, flow, previews and moved partitions: what is printed, and the exit code."""

from __future__ import annotations

import pytest

from tests.unit.sdk.cli_support import Command

RULE = {"id": "r1", "expression": "true", "reason": "why", "created_by": "client:a"}
RULES = {"skip_rules": [{**RULE, "removed_at": None}], "skipped": 7}
MOVED = {"partitions": [{"partition": 3, "group": 1}], "placement": None}


def test_rules_are_listed_with_what_they_skipped(command: Command) -> None:
    ran = command("skip-rules", "list", "s", answers={"GET /subscriptions/s/skip_rules": RULES})
    assert ran.out.splitlines()[1].split()[:3] == ["r1", "true", "why"]
    assert ran.err == "(7 messages skipped so far)\n"


def test_a_rule_needs_a_reason(command: Command) -> None:
    ran = command("skip-rules", "add", "s", "true")
    assert (ran.code, ran.server.requests) == (2, [])


def test_a_removed_rule_is_noted(command: Command) -> None:
    answers = {"DELETE /subscriptions/s/skip_rules/r1": {}}
    ran = command("skip-rules", "remove", "s", "r1", answers=answers)
    assert (ran.code, ran.out, ran.err) == (0, "", "The rule is removed.\n")


def test_flow_is_of_something(command: Command) -> None:
    ran = command("flow", "set", "s", "--reason", "why")
    assert (ran.code, ran.server.requests) == (2, [])
    assert "--rate" in ran.err


def test_flow_that_is_cleared_is_noted(command: Command) -> None:
    ran = command("flow", "clear", "s", answers={"DELETE /subscriptions/s/flow": {}})
    assert (ran.code, ran.out) == (0, "")
    assert "own limits" in ran.err


@pytest.mark.parametrize(("valid", "code"), [(5, 0), (4, 1)])
def test_a_schema_that_not_all_messages_fit_fails(command: Command, valid: int, code: int) -> None:
    answer = {"messages": 5, "valid": valid, "samples": []}
    ran = command(
        *("topics", "preview-schema", "o", "--schema", "n", "-o", "json"),
        answers={"POST /topics/o:preview_schema": answer},
    )
    assert (ran.code, ran.json) == (code, answer)


@pytest.mark.parametrize("wrong", ["", "--schema n -f file.json"])
def test_a_schema_is_named_or_given(command: Command, wrong: str) -> None:
    ran = command("topics", "preview-schema", "o", *wrong.split())
    assert (ran.code, ran.server.requests) == (2, [])


@pytest.mark.parametrize("where", ["topics", "subscriptions"])
def test_a_preview_is_printed(command: Command, where: str) -> None:
    answer = {"examined": 9, "matched": 4}
    ran = command(
        *(where, "preview-filter", "n", "true", "-o", "json"),
        answers={f"POST /{where}/n:preview_filter": answer},
    )
    assert (ran.code, ran.json) == (0, answer)


@pytest.mark.parametrize(("placement", "noted"), [(None, False), ({"kind": "move"}, True)])
def test_a_move_that_goes_on_is_noted(command: Command, placement: object, noted: bool) -> None:
    answers = {"POST /topics/o/partitions/3:move": {**MOVED, "placement": placement}}
    ran = command("topics", "move", "o", "3", "--group", "1", answers=answers)
    assert ran.code == 0
    assert ("the server finishes it" in ran.err) is noted
