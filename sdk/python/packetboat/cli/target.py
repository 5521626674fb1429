"""The choice of server and credentials. The first of these that has them wins:

1. `--url`, `--token`, `--profile`
2. the environment: PACKETBOAT_URL, PACKETBOAT_TOKEN, PACKETBOAT_CLIENT_ID and _SECRET
3. the profile: PACKETBOAT_PROFILE, else the current one
4. `.packetboat/client.env` here, which `packetboat up` writes

Credentials that are kept for one server (3, 4, and those of `--profile`) never go to another: if
the URL comes from an earlier source, they count only if they are for that URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packetboat.profiles import BadProfiles, Profile, Profiles

CLIENT_ENV = Path(".packetboat/client.env")
DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Target:
    """`url_from` and `credential_from` say where they were found, to people."""

    profile: Profile
    url_from: str
    credential_from: str | None

    @property
    def urls(self) -> tuple[str, ...]:
        given = (self.profile.url or DEFAULT_URL).split(",")
        return tuple(url.strip().rstrip("/") for url in given if url.strip())


@dataclass(frozen=True, slots=True)
class Source:
    """`kept`: for one server; its credentials go to no other."""

    name: str
    profile: Profile
    kept: bool


def find(
    given: Mapping[str, str],
    environment: Mapping[str, str],
    profiles: Profiles,
    client_env: Path = CLIENT_ENV,
) -> Target:
    """`given` are shared options, by name."""
    sources = list(_sources(given, environment, profiles, client_env))
    at = next((source for source in sources if source.profile.url), None)
    url = at.profile.url if at else DEFAULT_URL
    usable = [s for s in sources if _has_credential(s.profile) and _may_be_shown(s, url)]
    credential = usable[0].profile if usable else Profile()
    ca_file = at.profile.ca_file if at else None
    return Target(
        Profile(url, credential.token, credential.client_id, credential.client_secret, ca_file),
        at.name if at else "the default",
        usable[0].name if usable else None,
    )


def _sources(
    given: Mapping[str, str],
    environment: Mapping[str, str],
    profiles: Profiles,
    client_env: Path,
) -> Iterator[Source]:
    yield Source("the command line", Profile(given.get("url"), given.get("token")), kept=False)
    if "profile" in given:
        yield _named(profiles, given["profile"])
    yield Source("the environment", _of(environment), kept=False)
    chosen = environment.get("PACKETBOAT_PROFILE")
    if chosen:
        yield _named(profiles, chosen)
    current = profiles.get()
    if current is not None:
        yield Source(f"the profile {profiles.current!r}", current, kept=True)
    yield Source(str(client_env), _of(_read(client_env)), kept=True)


def _named(profiles: Profiles, name: str) -> Source:
    profile = profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(profiles.profiles)) or "none"
        raise BadProfiles(f"there is no profile {name!r} (there is: {known})")
    return Source(f"the profile {name!r}", profile, kept=True)


def _of(environment: Mapping[str, str]) -> Profile:
    return Profile(
        environment.get("PACKETBOAT_URL") or None,
        environment.get("PACKETBOAT_TOKEN") or None,
        environment.get("PACKETBOAT_CLIENT_ID") or None,
        environment.get("PACKETBOAT_CLIENT_SECRET") or None,
    )


def _read(client_env: Path) -> dict[str, str]:
    """Return the lines of `export NAME=value`; nothing if the file is missing or not
    readable for us.
    """
    try:
        lines = client_env.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in lines)
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


def _has_credential(profile: Profile) -> bool:
    return bool(profile.token or (profile.client_id and profile.client_secret))


def _may_be_shown(source: Source, url: str | None) -> bool:
    return not source.kept or (source.profile.url or DEFAULT_URL).rstrip("/") == (
        url or DEFAULT_URL
    ).rstrip("/")
