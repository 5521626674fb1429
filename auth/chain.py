"""The choice of the verifier for a token, by its first characters or by the issuer that it names.

The issuer that a token names is trusted for nothing but that choice.
"""

from __future__ import annotations

from auth import jws
from auth.api_key_verifier import PREFIX
from auth.errors import TokenRefused
from auth.principal import Principal
from auth.verifier import TokenVerifier


class Chain:
    """A `TokenVerifier` that passes each token to one of its parts; a part that is None refuses."""

    def __init__(
        self,
        *,
        issuer: str,
        access_tokens: TokenVerifier | None = None,
        api_keys: TokenVerifier | None = None,
        issuers: TokenVerifier | None = None,
        development: TokenVerifier | None = None,
    ) -> None:
        """Make a chain; `issuer` is the issuer of our own tokens."""
        self._issuer = issuer
        self._access_tokens = access_tokens
        self._api_keys = api_keys
        self._issuers = issuers
        self._development = development

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused, TenantSuspended or VerifierUnavailable."""
        verifier = self._verifier_of(token)
        if verifier is None:
            raise TokenRefused
        return await verifier.verify(token)

    def _verifier_of(self, token: bytes) -> TokenVerifier | None:
        if token.startswith(PREFIX):
            return self._api_keys
        if not jws.looks_like_one(token):
            return self._development
        ours = jws.read(token).claims.get("iss") == self._issuer
        return self._access_tokens if ours else self._issuers
