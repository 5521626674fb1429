"""The kinds of credentials. None shows its secret when it is printed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StaticToken:
    """An API key, or an access token for as long as it holds."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token that something else keeps fresh, such as a workload identity of Kubernetes: it is
    read again when the file has changed."""

    path: str


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """OAuth2 client credentials (RFC 6749, 4.4): access tokens are asked for, and asked for anew
    before they are over."""

    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    """The part of the client's authority that its tokens have; None: all of it."""
    token_url: str | None = None
    """The token endpoint of another issuer; None: the servers that the client talks to."""
    audience: str | None = None


Credentials = StaticToken | TokenFile | ClientCredentials
