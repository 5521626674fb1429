"""`packetboat tokens`: a client asks, and the token comes by stdin."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import parse_qs

import jsonschema_rs
import pytest

import openapi
from tests.unit.sdk.cli_support import Answer, Command, Ran, answer

BASIC = "Basic " + b64encode(b"pbc_1:pbs_secret").decode()
TOKEN = "eyJ.a+b/c.d"
HELD = {"active": True, "sub": "client:shop", "later": "member"}
VERBS = ["introspect", "revoke"]


def ask(command: Command, verb: str, given: Answer, *, token: str = TOKEN) -> Ran:
    command.environment |= {
        "PACKETBOAT_CLIENT_ID": "pbc_1",
        "PACKETBOAT_CLIENT_SECRET": "pbs_secret",
    }
    answers = {f"POST /oauth/{verb}": given}
    return command("tokens", verb, "-o", "json", stdin=f"{token}\n", answers=answers)


@pytest.mark.parametrize("verb", VERBS)
def test_the_request_is_a_form_of_the_client(command: Command, verb: str) -> None:
    """A token in the environment is ignored here; it comes first in all other commands."""
    [request] = ask(command, verb, HELD).server.requests
    assert request.headers["Authorization"] == BASIC
    assert parse_qs(request.body.decode()) == {"token": [TOKEN]}


@pytest.mark.parametrize("verb", VERBS)
def test_the_api_has_it(command: Command, verb: str) -> None:
    [request] = ask(command, verb, HELD).server.requests
    form = {name: value for name, [value] in parse_qs(request.body.decode()).items()}
    document = openapi.document()
    content = document["paths"][f"/oauth/{verb}"]["post"]["requestBody"]["content"]
    schema = content[request.headers["Content-Type"]]["schema"]
    with_parts = {**schema, "components": document["components"]}
    jsonschema_rs.validator_for(with_parts).validate(form)


def test_what_a_token_says(command: Command) -> None:
    ran = ask(command, "introspect", HELD)
    assert (ran.code, ran.json) == (0, HELD)


def test_one_that_does_not_hold(command: Command) -> None:
    ran = ask(command, "introspect", {"active": False})
    assert (ran.code, ran.json) == (1, {"active": False})


def test_revoked(command: Command) -> None:
    ran = ask(command, "revoke", {})
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize("verb", VERBS)
def test_no_secret_is_shown(command: Command, verb: str) -> None:
    ran = ask(command, verb, answer({"error": "invalid_client"}, 401))
    assert ran.code == 3
    assert TOKEN not in ran.out + ran.err
    assert "pbs_secret" not in ran.out + ran.err


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_client_nothing_is_sent(command: Command, verb: str) -> None:
    ran = command("tokens", verb, stdin=f"{TOKEN}\n")
    assert (ran.code, ran.server.requests) == (3, [])
    assert "PACKETBOAT_CLIENT_ID" in ran.err


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_token_nothing_is_sent(command: Command, verb: str) -> None:
    ran = ask(command, verb, HELD, token="")
    assert (ran.code, ran.server.requests) == (2, [])
