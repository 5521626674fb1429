"""A secret that the server tells once is printed once, and that is said to people."""

from __future__ import annotations

from typing import Any

import pytest
from packetboat.cli.secret_text import SHOWN_ONCE

from tests.unit.sdk.cli_support import Command

SECRET = "told-this-once"
PUSH = {"name": "s", "push": {"signing_secrets": [{"id": "i", "secret": SECRET}]}}
TOLD: dict[str, tuple[str, Any]] = {
    "clients set c": ("PUT /clients/c", {"name": "c", "client_secret": SECRET}),
    "clients add-secret c": ("POST /clients/c/secrets", {"name": "c", "client_secret": SECRET}),
    "keys set k": ("PUT /keys/k", {"name": "k", "key": SECRET}),
    "keys rotate k": ("POST /keys/k:rotate", {"name": "k", "key": SECRET}),
    "subscriptions create o s --push-url https://x": ("POST /topics/o/subscriptions", PUSH),
    "signing-secrets create s": ("POST /subscriptions/s/signing_secrets", {"secret": SECRET}),
}
SILENT: dict[str, tuple[str, Any]] = {
    "clients set c": ("PUT /clients/c", {"name": "c"}),
    "keys set k": ("PUT /keys/k", {"name": "k"}),
    "subscriptions create o s": ("POST /topics/o/subscriptions", {"name": "s", "push": None}),
    "subscriptions create o s --if-absent --push-url https://x": (
        "PUT /subscriptions/s",
        {"name": "s", "push": {"signing_secrets": [{"id": "i"}]}},
    ),
}


@pytest.mark.parametrize("line", TOLD)
def test_a_secret_is_printed_once_with_a_note(command: Command, line: str) -> None:
    asked, answer = TOLD[line]
    ran = command(*line.split(), answers={asked: answer})
    assert ran.out.count(SECRET) == 1
    assert ran.err == f"{SHOWN_ONCE}\n"


@pytest.mark.parametrize("line", TOLD)
def test_a_program_gets_the_secret_alone(command: Command, line: str) -> None:
    asked, answer = TOLD[line]
    ran = command(*line.split(), "-o", "json", answers={asked: answer})
    assert (ran.json, ran.err) == (answer, "")


@pytest.mark.parametrize("line", SILENT)
def test_nothing_is_said_where_none_is_told(command: Command, line: str) -> None:
    asked, answer = SILENT[line]
    ran = command(*line.split(), answers={asked: answer})
    assert (ran.code, ran.err) == (0, "")
