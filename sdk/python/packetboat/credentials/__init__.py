"""Who a client is: a token that is always the same, one of a file, or one that a server issues."""

from __future__ import annotations

from packetboat.credentials.kinds import ClientCredentials, Credentials, StaticToken, TokenFile

__all__ = ["ClientCredentials", "Credentials", "StaticToken", "TokenFile"]
