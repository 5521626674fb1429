"""The file of profiles: what is written is read again, and by its owner alone."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat import profiles
from packetboat.profiles import BadProfiles, Profile, Profiles, load, save

# A file can't hold lone surrogates, and no string of TOML does.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def test_nothing_is_kept_where_there_is_no_file(tmp_path: Path) -> None:
    assert load(tmp_path / "none") == Profiles()
    assert load(tmp_path / "none").get() is None


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    kept = Profiles("b", {"a": Profile(url="http://a"), "b": Profile("http://b", token='"q"\n')})
    save(tmp_path / "x" / "config.toml", kept)
    assert load(tmp_path / "x" / "config.toml") == kept
    assert kept.get() == kept.get("b") == kept.profiles["b"]


@given(name=TEXTS, secret=TEXTS)
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, name: str, secret: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    kept = Profiles(name, {name: Profile(client_id=name, client_secret=secret)})
    save(file, kept)
    assert load(file) == kept


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "packetboat" / "config.toml"
    before = os.umask(0)
    try:
        save(file, Profiles())
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_save_that_fails_leaves_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    save(file, Profiles("a"))

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(file, Profiles("b"))
    assert load(file).current == "a"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "text",
    ["x", "current = 1", "profiles = 1", "[profiles]\na = 1", "[profiles.a]\nurl = 1"],
    ids=["no-toml", "current", "profiles", "profile", "member"],
)
def test_what_is_no_file_of_ours_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadProfiles, match=r"config\.toml"):
        load(file)


def test_members_of_later_versions_are_let_be(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[profiles.a]\nurl = "u"\ncolour = 7\n')
    assert load(file).profiles == {"a": Profile(url="u")}


def test_where_the_file_is() -> None:
    assert profiles.path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/packetboat/config.toml")
    assert profiles.path({"HOME": "/h"}) == Path("/h/.config/packetboat/config.toml")


def test_the_format_is_frozen(tmp_path: Path) -> None:
    """Files of older versions are there; other tools read them."""
    file = tmp_path / "config.toml"
    save(file, Profiles("p", {"p": Profile("https://x", client_id="i", client_secret="s")}))
    assert tomllib.loads(file.read_text()) == {
        "current": "p",
        "profiles": {"p": {"url": "https://x", "client_id": "i", "client_secret": "s"}},
    }
