"""Test the output of the command, byte for byte, and its messages on stderr."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packetboat.cli.output import Output, printable, yaml_text

from tests.unit.sdk.cli_support import Command, problem

LOCKS = [
    {"name": "a", "held": True, "holder": "w:1", "fencing_token": 3, "labels": {}},
    {"name": "b", "held": False, "holder": None, "fencing_token": 0, "labels": {"x": "ä"}},
]
PAGE = {"GET /locks": {"locks": LOCKS, "next_page_token": None}}
TABLE = """\
NAME  HELD  HOLDER  FENCING TOKEN  EXPIRES IN SECONDS  WAITING
a     yes   w:1     3              -                   -
b     no    -       0              -                   -
"""


def test_a_table(command: Command) -> None:
    assert command("locks", "list", answers=PAGE).out == TABLE


def test_names_alone(command: Command) -> None:
    assert command("-q", "locks", "list", answers=PAGE).out == "a\nb\n"


def test_json_is_one_document(command: Command) -> None:
    ran = command("locks", "list", "-o", "json", answers=PAGE)
    assert ran.json == LOCKS
    assert ran.out.startswith('[\n  {\n    "name": "a"')


def test_ndjson_is_a_line_each(command: Command) -> None:
    ran = command("locks", "list", "-o", "ndjson", answers=PAGE)
    assert list(ran.lines()) == LOCKS
    assert ran.out.splitlines()[1].endswith('"labels":{"x":"ä"}}')


def test_yaml_is_one_document(command: Command) -> None:
    assert yaml.safe_load(command("locks", "list", "-o", "yaml", answers=PAGE).out) == LOCKS


@pytest.mark.parametrize(
    ("form", "printed"), [("table", ""), ("json", "[]\n"), ("ndjson", ""), ("yaml", "[]\n")]
)
def test_nothing_to_list(command: Command, form: str, printed: str) -> None:
    none = {"GET /locks": {"locks": [], "next_page_token": None}}
    ran = command("locks", "list", "-o", form, answers=none)
    assert ran.out == printed
    assert ran.err == ("(none)\n" if form == "table" else "")


def test_all_pages_are_listed(command: Command) -> None:
    pages = [
        {"locks": LOCKS[:1], "next_page_token": "p/2"},
        {"locks": LOCKS[1:], "next_page_token": None},
    ]
    ran = command("-q", "locks", "list", answers={"GET /locks": pages})
    assert ran.out == "a\nb\n"
    assert ran.server.paths()[1] == "GET /locks?page_size=200&page_token=p%2F2"


def test_a_limit_ends_a_listing(command: Command) -> None:
    page = {"GET /locks": {"locks": LOCKS, "next_page_token": "more"}}
    ran = command("-q", "locks", "list", "--limit", "2", answers=page)
    assert (ran.out, ran.server.paths()) == ("a\nb\n", ["GET /locks?page_size=2"])


def test_a_record(command: Command) -> None:
    ran = command("locks", "get", "a", answers={"GET /locks/a": LOCKS[0]})
    assert ran.out == 'name: a\nheld: true\nholder: "w:1"\nfencing_token: 3\nlabels: {}\n'


def test_names_are_quoted_in_paths(command: Command) -> None:
    ran = command("locks", "get", "a/b c?", answers={"GET /locks/a%2Fb%20c%3F": LOCKS[0]})
    assert ran.code == 0


def test_shared_options_stand_anywhere_and_the_last_wins(command: Command) -> None:
    ran = command("-o", "yaml", "locks", "get", "a", "-o", "json", answers={"GET /locks/a": {}})
    assert ran.json == {}


def test_a_problem_names_fields_limits_and_what_to_do(command: Command) -> None:
    refused = problem(
        422, "invalid-request", "No.", errors=[{"field": "partitions", "detail": "1 to 256"}]
    )
    ran = command("topics", "create", "t", answers={"POST /topics": refused})
    assert ran.out == ""
    server = "[http://server, from the environment]"
    assert ran.err == f"packetboat: 422 invalid-request: No. {server}\n  partitions: 1 to 256\n"


def test_a_problem_names_the_limit_that_was_met(command: Command) -> None:
    refused = problem(403, "quota-exceeded", "No.", quota="topics", limit=5, used=5)
    ran = command("topics", "create", "t", answers={"POST /topics": refused})
    assert ran.err.splitlines()[1:4] == ["  quota: topics", "  limit: 5", "  used: 5"]
    ran = command("topics", "create", "t", "-o", "json", answers={"POST /topics": refused})
    assert json.loads(ran.err)["limit"] == 5


def test_a_problem_says_what_to_do(command: Command) -> None:
    ran = command(
        "topics", "get", "t", answers={"GET /topics/t": problem(404, "topic-not-found", "Not t.")}
    )
    assert ran.err.splitlines() == [
        "packetboat: 404 topic-not-found: Not t. [http://server, from the environment]",
        "  Try: `packetboat topics list` shows what there is",
    ]


def test_a_problem_for_programs_is_json_on_stderr(command: Command) -> None:
    errors = [{"field": "f", "detail": "d"}]
    refused = problem(422, "invalid-request", "No.", errors=errors)
    ran = command("topics", "get", "t", "-o", "ndjson", answers={"GET /topics/t": refused})
    said = json.loads(ran.err)
    assert (said["status"], said["errors"], said["exit_code"]) == (422, errors, 1)
    assert ran.out == ""


def test_secrets_are_not_said_with_verbose(command: Command) -> None:
    ran = command("-v", "locks", "get", "a", answers={"GET /locks/a": {}})
    assert "> GET /locks/a" in ran.err
    assert "< 200" in ran.err
    assert "t-environment" not in ran.err
    assert ran.server.requests[0].headers["Authorization"] == "Bearer t-environment"


def test_what_commands_a_terminal_is_not_passed_on(command: Command) -> None:
    evil = {"GET /locks": {"locks": [{"name": "\x1b[2Jx\x9b1m"}], "next_page_token": None}}
    ran = command("locks", "list", answers=evil)
    assert "\x1b" not in ran.out
    assert "\x9b" not in ran.out
    assert printable("a\tb\n\r\x07") == "a\tb\n\ufffd\ufffd"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(JSON)
def test_yaml_reads_back_as_it_was(value: Any) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.parametrize("word", ["yes", "No", "null", "1e3", "0x1", "~", "a: b", "- a", "#", ""])
def test_strings_that_yaml_would_take_for_something_else(word: str) -> None:
    assert yaml.safe_load(yaml_text({"v": [word]})) == {"v": [word]}


def test_a_long_table_is_aligned_by_parts(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"n": "x" * (1 + (i == 600)), "v": i} for i in range(601))
    Output().rows(rows, "n", "v")
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[1], lines[601]) == ("N  V", "x  0", "xx  600")
