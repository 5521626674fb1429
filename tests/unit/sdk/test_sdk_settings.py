"""Test where a client finds the settings that it is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packetboat import AsyncClient, Client, Options, Tls
from packetboat.credentials import ClientCredentials, StaticToken
from packetboat.options import DEFAULT_URL
from packetboat.profiles import Profile, Profiles, save
from packetboat.settings import found, urls

from tests.unit.sdk.sdk_support import Script


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home directory of a user who has set nothing."""
    names = ("URL", "TOKEN", "CLIENT_ID", "CLIENT_SECRET", "PROFILE")
    for name in names:
        monkeypatch.delenv(f"PACKETBOAT_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def keep(home: Path, current: str = "default", **profiles: Profile) -> None:
    save(home / "packetboat" / "config.toml", Profiles(current, profiles))


@pytest.mark.usefixtures("home")
def test_nothing_said_is_the_server_of_this_machine() -> None:
    assert found() == Options(urls=(DEFAULT_URL,))


@pytest.mark.usefixtures("home")
def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_URL", "https://a.example, https://b.example,")
    monkeypatch.setenv("PACKETBOAT_TOKEN", "t")
    assert found() == Options(
        urls=("https://a.example", "https://b.example"), credentials=StaticToken("t")
    )
    assert found("https://c.example", StaticToken("u")) == Options(
        urls=("https://c.example",), credentials=StaticToken("u")
    )


@pytest.mark.usefixtures("home")
def test_client_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_CLIENT_ID", "cl_1")
    with pytest.raises(ValueError, match="go together"):
        found()
    monkeypatch.setenv("PACKETBOAT_CLIENT_SECRET", "s")
    assert found().credentials == ClientCredentials("cl_1", "s")
    monkeypatch.setenv("PACKETBOAT_TOKEN", "t")
    assert found().credentials == StaticToken("t")


def test_the_current_profile(home: Path) -> None:
    profile = Profile("https://p.example", client_id="cl_1", client_secret="s", ca_file="ca.pem")
    keep(home, "work", work=profile)
    assert found() == Options(
        urls=("https://p.example",),
        credentials=ClientCredentials("cl_1", "s"),
        tls=Tls(ca_file="ca.pem"),
    )


def test_a_named_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(home, "work", work=Profile("https://w.example"), play=Profile("https://p.example"))
    monkeypatch.setenv("PACKETBOAT_PROFILE", "play")
    assert found().urls == ("https://p.example",)
    monkeypatch.setenv("PACKETBOAT_PROFILE", "gone")
    with pytest.raises(ValueError, match="'gone'"):
        found()


@pytest.mark.parametrize("by", ["program", "environment"])
def test_a_profiles_token_goes_to_no_other_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    keep(home, default=Profile("https://p.example", token="secret"))
    if by == "environment":
        monkeypatch.setenv("PACKETBOAT_URL", "https://other.example")
        options = found()
    else:
        options = found("https://other.example")
    assert options == Options(urls=("https://other.example",))


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])
def test_what_a_client_is_told_is_over_its_options(kind: Any) -> None:
    options = Options(urls=("https://a.example",), credentials=StaticToken("t"), retry_for_s=1)
    told = kind("https://b.example", "u", options=options, retry_for_s=2).options
    assert told == Options(urls=("https://b.example",), credentials=StaticToken("u"), retry_for_s=2)
    assert kind(options=options).options == options
    assert kind.from_options(options).options == options


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])
def test_options_are_all_there_is(kind: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor a profile adds to them; nor to a transport of one's own."""
    monkeypatch.setenv("PACKETBOAT_TOKEN", "t")
    keep(home, default=Profile("https://p.example", token="secret"))
    assert kind.from_options(Options()).options == Options()
    assert kind(transport=Script()).options == Options()


def test_a_token_and_credentials_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="not both"):
        Client("https://a.example", "t", credentials=StaticToken("u"))


def test_several_servers_are_a_list_or_a_string() -> None:
    expected = ("https://a.example", "https://b.example")
    assert urls("https://a.example,https://b.example") == expected
    assert urls(list(expected)) == expected


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no-server": ({"urls": ()}, "urls must not be empty"),
    "no-scheme": ({"urls": ("boat.example",)}, "is no URL"),
    "no-host": ({"urls": ("https://",)}, "is no URL"),
    "other-scheme": ({"urls": ("ftp://boat.example",)}, "is no URL"),
    "user": ({"urls": ("https://me:pw@boat.example",)}, "must not have a user"),
    "query": ({"urls": ("https://boat.example?a=b",)}, "neither a query"),
    "no-time": ({"timeout_s": 0}, "timeout_s must be more than 0"),
    "no-connections": ({"max_connections": 0}, "max_connections must be more than 0"),
    "negative": ({"retry_for_s": -1}, "retry_for_s must not be negative"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_that_make_no_sense(case: str) -> None:
    options, text = WRONG[case]
    with pytest.raises(ValueError, match=text) as caught:
        Options(**options)
    assert "pw" not in str(caught.value)


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(ValueError, match="needs certificate_file"):
        Tls(key_file="key.pem")


def test_options_are_values() -> None:
    assert Options() == Options()
    assert hash(Options()) == hash(Options())
    assert Options().replace(http2=True) == Options(http2=True)
