"""From the Authorization header to a principal that has the route's permission."""

from __future__ import annotations

from auth.errors import TokenRefused
from auth.permissions import Permission
from auth.principal import Principal
from auth.verifier import CachingVerifier
from gateway.middleware.errors import forbidden


class Authenticator:
    """Checks are answered from memory where possible; nothing is awaited then."""

    def __init__(self, verifier: CachingVerifier) -> None:
        self._verifier = verifier

    async def principal(self, authorization: bytes | None, permission: Permission) -> Principal:
        """Raises TokenRefused, VerifierUnavailable or a 403 Problem."""
        if authorization is None:
            raise TokenRefused
        scheme, _, token = authorization.partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer":
            raise TokenRefused
        principal = self._verifier.cached(token) or await self._verifier.verify(token)
        if permission not in principal.permissions:
            raise forbidden(permission.value)
        return principal
