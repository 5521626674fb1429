"""Profiles made by `login` and changed by `config`; secrets are nowhere to be seen."""

from __future__ import annotations

import stat
import tomllib
from typing import Any

from tests.unit.sdk.cli_support import Command as Packetboat
from tests.unit.sdk.cli_support import Ran, Server, problem

WHO = {"tenant": "shop", "subject": "client:root", "roles": [], "grants": [], "expires_at": None}


def login(command: Packetboat, *arguments: str, secret: str, answers: Any = None) -> Ran:
    command.environment |= {"PACKETBOAT_TOKEN": None, "PACKETBOAT_URL": None}
    return command(
        "login",
        "--url",
        "http://s/",
        *arguments,
        stdin=f"{secret}\n",
        answers=answers or {"GET /whoami": WHO},
    )


def kept(command: Packetboat) -> Any:
    return tomllib.loads(command.profiles.read_text())


def test_a_token_is_tried_and_kept(command: Packetboat) -> None:
    ran = login(command, "--with-token", secret="pb-secret")
    assert ran.code == 0
    assert ran.server.requests[0].headers["Authorization"] == "Bearer pb-secret"
    assert kept(command) == {
        "current": "default",
        "profiles": {"default": {"url": "http://s", "token": "pb-secret"}},
    }
    assert stat.S_IMODE(command.profiles.stat().st_mode) == 0o600
    assert "pb-secret" not in ran.out + ran.err


def test_client_credentials_get_a_token(command: Packetboat) -> None:
    token = {"access_token": "at", "token_type": "Bearer", "expires_in": 3600, "scope": ""}
    answers = {"POST /oauth/token": token, "GET /whoami": WHO}
    ran = login(
        command, "--client-id", "pbc_1", "--profile", "work", secret="pbs_1", answers=answers
    )
    assert ran.code == 0, ran.err
    assert ran.server.requests[-1].headers["Authorization"] == "Bearer at"
    profile = {"url": "http://s", "client_id": "pbc_1", "client_secret": "pbs_1"}
    assert kept(command) == {"current": "work", "profiles": {"work": profile}}
    assert "pbs_1" not in ran.out + ran.err


def test_what_the_server_refuses_is_not_kept(command: Packetboat) -> None:
    refused = {"GET /whoami": problem(401, "unauthorized", "No.")}
    ran = login(command, "--with-token", secret="x", answers=refused)
    assert ran.code == 3
    assert not command.profiles.exists()


def test_nothing_given(command: Packetboat) -> None:
    assert login(command, "--with-token", secret="").code == 2


def test_a_token_is_no_argument(command: Packetboat) -> None:
    ran = command("login", "--token", "pb-secret")
    assert (ran.code, ran.server.requests) == (2, [])


def test_what_is_kept_is_used(command: Packetboat) -> None:
    login(command, "--with-token", secret="pb-secret")
    ran = command("locks", "get", "a", answers={"GET /locks/a": {}})
    assert ran.server.requests[0].headers["Authorization"] == "Bearer pb-secret"


def test_profiles_are_listed_changed_and_forgotten(command: Packetboat) -> None:
    login(command, "--with-token", secret="one")
    login(command, "--with-token", "--profile", "two", secret="two")
    listed = command("config", "list", "-o", "json")
    assert [(each["name"], each["current"]) for each in listed.json] == [
        ("default", False),
        ("two", True),
    ]
    assert command("config", "use", "default").code == 0
    assert command("config", "set", "two", "url", "https://two").code == 0
    assert kept(command)["profiles"]["two"] == {"url": "https://two", "token": "two"}
    assert command("config", "delete", "two").code == 0
    assert list(kept(command)["profiles"]) == ["default"]
    assert kept(command)["current"] == "default"
    assert command("config", "delete", "two").code == 4


def test_secrets_are_not_set_by_arguments(command: Packetboat) -> None:
    assert command("config", "set", "a", "token", "x").code == 2
    assert command("config", "set", "a", "colour", "x").code == 2


def test_no_secret_is_shown(command: Packetboat) -> None:
    login(command, "--with-token", secret="pb-secret")
    for arguments in (["config", "show"], ["config", "list"], ["config", "show", "-o", "json"]):
        ran = command(*arguments)
        assert "pb-secret" not in ran.out + ran.err
        assert "token" in ran.out


def test_a_file_that_is_none_of_ours(command: Packetboat) -> None:
    command.profiles.parent.mkdir(parents=True)
    command.profiles.write_text("]")
    ran = command("topics", "list")
    assert ran.code == 1
    assert "config.toml" in ran.err


def test_a_url_that_is_none(command: Packetboat) -> None:
    ran = command("locks", "list", "--url", "nowhere")
    assert (ran.code, ran.server.requests) == (2, [])
    assert "the command line" in ran.err


def test_whoami_says_where_it_looked(command: Packetboat) -> None:
    ran = command("whoami", answers={"GET /whoami": WHO})
    assert ran.err == "(server: http://server of the environment; credential of the environment)\n"


def test_servers_are_not_asked_for_what_is_kept_here(command: Packetboat) -> None:
    for arguments in (["config", "list"], ["config", "show"], ["docs"]):
        server: Server = command(*arguments).server
        assert server.requests == []
