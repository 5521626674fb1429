"""The choice of server and credentials, unless the program names them itself.

The program's own settings come first, then the environment, then the profile that
PACKETBOAT_PROFILE names, or the current one of `packetboat login`. A profile's credentials go to
its own servers only: neither to a URL of the program nor to one of the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from packetboat.credentials.kinds import ClientCredentials, Credentials, StaticToken
from packetboat.options import DEFAULT_URL, Options, Tls

if TYPE_CHECKING:
    from packetboat.profiles import Profile

ARGUMENT = "the argument url"
ENVIRONMENT = "PACKETBOAT_URL"
NOBODY = "the default: neither the program, PACKETBOAT_URL nor a profile names a server"
Urls = str | Sequence[str]
"""One URL, several, or several in one string with commas between them."""


def merged(
    options: Options | None,
    url: Urls | None,
    token: str | None,
    credentials: Credentials | None,
    retry_for_s: float | None,
    *,
    networked: bool,
) -> Options:
    """Return the options of a client: its own arguments come first, then its `options`,
    then those found here. A client that is not `networked` looks for nothing.
    """
    if token:
        if credentials is not None:
            raise ValueError("give a token or credentials, not both")
        credentials = StaticToken(token)
    if options is None:
        options = found(url, credentials) if networked else Options()
    if url:
        options = options.replace(urls=urls(url), urls_from=ARGUMENT)
    if not networked:
        options = options.replace(urls_from="")
    if credentials is not None:
        options = options.replace(credentials=credentials)
    if retry_for_s is not None:
        options = options.replace(retry_for_s=retry_for_s)
    return options


def found(
    url: Urls | None = None,
    credentials: Credentials | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Options:
    """Return the options of a client with these arguments only."""
    given = url or environment.get("PACKETBOAT_URL")
    credentials = credentials or _credentials(environment)
    name = environment.get("PACKETBOAT_PROFILE") or None
    if given:
        source = ARGUMENT if url else ENVIRONMENT
        return Options(urls=urls(given), urls_from=source, credentials=credentials)
    from packetboat.profiles import load, path

    file = path(environment)
    profiles = load(file)
    profile = profiles.get(name)
    if profile is None:
        if name is not None:
            raise ValueError(f"PACKETBOAT_PROFILE names {name!r}, and there is no such profile")
        return Options(urls_from=NOBODY, credentials=credentials)
    return Options(
        urls=urls(profile.url or DEFAULT_URL),
        urls_from=f"the profile {name or profiles.current!r} of {file}" if profile.url else NOBODY,
        credentials=credentials or credentials_of(profile),
        tls=Tls(ca_file=profile.ca_file),
    )


def urls(given: Urls) -> tuple[str, ...]:
    texts = given.split(",") if isinstance(given, str) else given
    return tuple(text.strip() for text in texts if text.strip())


def _credentials(environment: Mapping[str, str]) -> Credentials | None:
    if token := environment.get("PACKETBOAT_TOKEN"):
        return StaticToken(token)
    client_id = environment.get("PACKETBOAT_CLIENT_ID")
    secret = environment.get("PACKETBOAT_CLIENT_SECRET")
    if bool(client_id) != bool(secret):
        raise ValueError("PACKETBOAT_CLIENT_ID and PACKETBOAT_CLIENT_SECRET go together")
    return ClientCredentials(client_id, secret) if client_id and secret else None


def credentials_of(profile: Profile) -> Credentials | None:
    """The token comes first."""
    if profile.token:
        return StaticToken(profile.token)
    if profile.client_id and profile.client_secret:
        return ClientCredentials(profile.client_id, profile.client_secret)
    return None
