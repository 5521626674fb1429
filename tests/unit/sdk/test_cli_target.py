"""Test which server a command calls, with which identity, and which credential goes where."""

from __future__ import annotations

from pathlib import Path

import pytest
from packetboat.cli.target import Target, find
from packetboat.profiles import BadProfiles, Profile, Profiles

HOME = Profile("http://home", token="t-home")
WORK = Profile("https://work", client_id="i", client_secret="s", ca_file="/ca")
KEPT = Profiles("home", {"home": HOME, "work": WORK})
NONE = Profiles()


def where(
    given: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    kept: Profiles = NONE,
    env_file: Path = Path("nowhere"),
) -> Target:
    return find(given or {}, environment or {}, kept, env_file)


def credential(target: Target) -> tuple[str | None, str | None]:
    return target.profile.token, target.profile.client_id


def test_nothing_is_known() -> None:
    target = where()
    assert (target.urls, target.url_from) == (("http://127.0.0.1:8080",), "the default")
    assert target.credential_from is None


def test_the_current_profile() -> None:
    target = where(kept=KEPT)
    assert (target.urls, credential(target)) == (("http://home",), ("t-home", None))
    assert target.url_from == "the profile 'home'"


def test_the_environment_wins_over_the_profile() -> None:
    target = where({}, {"PACKETBOAT_URL": "http://e", "PACKETBOAT_TOKEN": "t-e"}, KEPT)
    assert (target.urls, credential(target)) == (("http://e",), ("t-e", None))


def test_a_token_of_the_environment_goes_to_the_server_of_the_profile() -> None:
    target = where({}, {"PACKETBOAT_TOKEN": "t-e"}, KEPT)
    assert (target.urls, credential(target)) == (("http://home",), ("t-e", None))


def test_the_command_line_wins_over_the_environment() -> None:
    target = where({"url": "http://c", "token": "t-c"}, {"PACKETBOAT_URL": "http://e"}, KEPT)
    assert (target.urls, credential(target)) == (("http://c",), ("t-c", None))


def test_a_named_profile_wins_over_the_environment() -> None:
    environment = {"PACKETBOAT_URL": "http://e", "PACKETBOAT_TOKEN": "t-e"}
    target = where({"profile": "work"}, environment, KEPT)
    assert (target.urls, credential(target)) == (("https://work",), (None, "i"))
    assert target.profile.ca_file == "/ca"


def test_the_environment_chooses_a_profile() -> None:
    assert where({}, {"PACKETBOAT_PROFILE": "work"}, KEPT).urls == ("https://work",)


@pytest.mark.parametrize("given", [{"url": "http://evil"}, {"url": "http://home.evil"}])
def test_what_is_kept_for_one_server_is_shown_to_no_other(given: dict[str, str]) -> None:
    target = where(given, {}, KEPT)
    assert (target.credential_from, credential(target)) == (None, (None, None))


def test_nor_to_one_of_the_environment() -> None:
    target = where({}, {"PACKETBOAT_URL": "http://other"}, KEPT)
    assert target.credential_from is None


def test_the_same_server_is_given_it() -> None:
    assert credential(where({"url": "http://home/"}, {}, KEPT)) == ("t-home", None)


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(BadProfiles, match=r"'nope' \(there is: home, work\)"):
        where({"profile": "nope"}, {}, KEPT)


def test_what_up_wrote_here(tmp_path: Path) -> None:
    file = tmp_path / "client.env"
    file.write_text("export PACKETBOAT_URL=http://up\nexport PACKETBOAT_TOKEN='t-up'\n")
    target = where(env_file=file)
    assert (target.urls, credential(target)) == (("http://up",), ("t-up", None))
    assert where(kept=KEPT, env_file=file).urls == ("http://home",)
    assert where({"url": "http://other"}, env_file=file).credential_from is None


def test_several_servers() -> None:
    urls = where({"url": "http://a/, http://b,"}).urls
    assert urls == ("http://a", "http://b")
