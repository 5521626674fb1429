"""The credentials of a client: a fixed token, a token in a file, or tokens that a server issues."""

from __future__ import annotations

from packetboat.credentials.kinds import ClientCredentials, Credentials, StaticToken, TokenFile

__all__ = ["ClientCredentials", "Credentials", "StaticToken", "TokenFile"]
