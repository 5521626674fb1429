"""The profiles that `packetboat login` keeps: servers and credentials, by name.

The file is TOML, `$XDG_CONFIG_HOME/packetboat/config.toml` (`~/.config` where that is not set), and
readable by its owner alone, from its first byte on:

    current = "production"

    [profiles.production]
    url = "https://mq.example.com"
    client_id = "cl_…"
    client_secret = "…"

A profile has a `url`, and a `token` (an access token or an API key) or a `client_id` with its
`client_secret`; `ca_file` where the server's certificate is signed by somebody of one's own.
"""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

DEFAULT = "default"
SECRETS = frozenset({"token", "client_secret"})


class BadProfiles(Exception):
    """The file can't be read, or is none of ours."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One server, and who we are there."""

    url: str | None = None
    token: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    ca_file: str | None = None

    def given(self) -> dict[str, str]:
        """Return the members that are set, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


MEMBERS = tuple(each.name for each in fields(Profile))


@dataclass(frozen=True, slots=True)
class Profiles:
    """The content of a profiles file; a change makes a new value."""

    current: str = DEFAULT
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    def get(self, name: str | None = None) -> Profile | None:
        """Return the profile of that name, or the current one."""
        return self.profiles.get(name or self.current)

    def with_profile(self, name: str, profile: Profile) -> Profiles:
        return replace(self, profiles={**self.profiles, name: profile})

    def without(self, name: str) -> Profiles:
        return replace(self, profiles={n: p for n, p in self.profiles.items() if n != name})


def path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is, or would be."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME") or "~", ".config"
    )
    return Path(home).expanduser() / "packetboat" / "config.toml"


def load(file: Path) -> Profiles:
    """Return the content of the file; nothing where there is none."""
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadProfiles(f"{file}: {error}") from error
    tables = raw.get("profiles", {})
    if not isinstance(tables, dict) or not isinstance(raw.get("current", DEFAULT), str):
        raise BadProfiles(f"{file}: `current` is a name, `profiles` are tables")
    return Profiles(
        raw.get("current", DEFAULT), {name: _profile(file, name, t) for name, t in tables.items()}
    )


def save(file: Path, profiles: Profiles) -> None:
    """Write the file as a whole or not at all; no other user can read it at any moment."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".config-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(_text(profiles))
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise


def _profile(file: Path, name: str, table: object) -> Profile:
    if not isinstance(table, dict):
        raise BadProfiles(f"{file}: profiles.{name} is no table")
    known = {member: value for member, value in table.items() if member in MEMBERS}
    wrong = [member for member, value in known.items() if not isinstance(value, str)]
    if wrong:
        raise BadProfiles(f"{file}: profiles.{name}.{wrong[0]} is no string")
    return Profile(**known)


def _text(profiles: Profiles) -> str:
    lines = [f"current = {_quoted(profiles.current)}"]
    for name, profile in sorted(profiles.profiles.items()):
        lines += ["", f"[profiles.{_quoted(name)}]"]
        lines += [f"{member} = {_quoted(value)}" for member, value in profile.given().items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a basic string of TOML: that of JSON, with DEL escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
