"""The token in an Authorization header, and where to find whose it is."""

from __future__ import annotations

from auth.errors import TokenRefused

PRINCIPAL = "packetboat.principal"
"""Scope key: the Principal, for the gateway's own handlers."""


def bearer_token(authorization: bytes | None) -> bytes:
    """Raises TokenRefused where there is no `Bearer` one."""
    if authorization is None:
        raise TokenRefused
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        raise TokenRefused
    return token.strip()
