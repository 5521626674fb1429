"""Commands about the endpoint of a push subscription: replays and signing secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.sdk.cli_support import Answer, Command

REPLAY = "POST /subscriptions/hooks:replay"
SECRETS = "/subscriptions/hooks/signing_secrets"
DONE: dict[str, Any] = {"replayed": 2, "skipped": [], "complete": True}
MADE = {
    "id": "i",
    "kind": "v1",
    "public_key": None,
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": None,
    "secret": "whsec_told",
}


def test_a_replay_ends_now_unless_it_is_said_when(command: Command) -> None:
    before = datetime.now(UTC)
    ran = command("subscriptions", "replay", "hooks", "--since", "2h", answers={REPLAY: DONE})
    assert ran.code == 0
    assert before <= datetime.fromisoformat(ran.server.sent()["to"]) <= datetime.now(UTC)


def test_a_replay_that_skips_fails(command: Command) -> None:
    skipped = {**DONE, "skipped": [{"message_id": "b", "reason": "not_settled"}]}
    arguments = ("subscriptions", "replay", "hooks", "--id", "a", "--id", "b")
    ran = command(*arguments, answers={REPLAY: skipped})
    assert ran.code == 1
    assert "not_settled" in ran.out


def test_a_replay_says_that_there_are_more(command: Command) -> None:
    more = {**DONE, "complete": False}
    ran = command("subscriptions", "replay", "hooks", "--since", "2h", answers={REPLAY: more})
    assert ran.code == 0
    assert "--max" in ran.err


@pytest.mark.parametrize(
    "wrong", ["", "--id a --since 2h", "--id a --max 2", "--until 1h", "--id a --until 1h"]
)
def test_a_replay_is_of_ids_or_of_a_time(command: Command, wrong: str) -> None:
    ran = command("subscriptions", "replay", "hooks", *wrong.split())
    assert (ran.code, ran.server.requests) == (2, [])


@pytest.mark.parametrize("verb", ["test", "enable", "verify"])
def test_a_slow_endpoint_is_waited_for(command: Command, verb: str) -> None:
    ran = command("subscriptions", verb, "hooks")
    assert ran.server.requests[0].timeout_s > 600


def test_a_key_pair_is_told_by_its_public_half(command: Command) -> None:
    made = {**MADE, "kind": "v1a", "public_key": "whpk_x", "secret": None}
    ran = command("signing-secrets", "create", "hooks", answers={f"POST {SECRETS}": made})
    assert "whpk_x" in ran.out
    assert "public key" in ran.err


def test_secrets_are_listed_by_their_ids(command: Command) -> None:
    listed: Answer = {"signing_secrets": [{k: v for k, v in MADE.items() if k != "secret"}]}
    ran = command("-q", "signing-secrets", "list", "hooks", answers={f"GET {SECRETS}": listed})
    assert ran.out == "i\n"


def test_a_deleted_secret_is_noted(command: Command) -> None:
    ran = command("signing-secrets", "delete", "hooks", "i", answers={f"DELETE {SECRETS}/i": {}})
    assert (ran.code, ran.out, ran.err) == (0, "", "The signing secret is deleted.\n")
