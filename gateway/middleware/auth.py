"""Reads the bearer token of an Authorization header; names where a scope has the principal."""

from __future__ import annotations

from auth.errors import TokenRefused

PRINCIPAL = "packetboat.principal"
"""Scope key: the Principal, for the gateway's own handlers."""


def bearer_token(authorization: bytes | None) -> bytes:
    """Return the bearer token of an Authorization header; raise TokenRefused without one."""
    if authorization is None:
        raise TokenRefused
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        raise TokenRefused
    return token.strip()
