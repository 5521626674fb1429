"""The seam between a bearer token and a principal, and the cache every request goes through.

A verifier is asked once per token and minute; in between the answer comes from memory, so a request
pays one hash. Refusals are cached too (shorter), so that a stream of bad tokens costs no more than
good ones. Keys are SHA-256 of the token: the cache never holds a credential.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from auth.errors import TokenRefused
from auth.principal import Principal

CACHE_SECONDS = 60.0
REFUSAL_SECONDS = 5.0
MAX_CACHED_TOKENS = 10_000
MAX_TOKEN_BYTES = 8 * 1024


class TokenVerifier(Protocol):
    """One way to check tokens: the development token now; JWTs, API keys and OIDC issuers later."""

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused or VerifierUnavailable."""
        ...


class _Cached(NamedTuple):
    principal: Principal | None
    until_s: float


class CachingVerifier:
    """Remembers answers for a bounded time and a bounded number of tokens."""

    def __init__(
        self, verifier: TokenVerifier, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._verifier = verifier
        self._clock = clock
        self._cache: dict[bytes, _Cached] = {}

    def cached(self, token: bytes) -> Principal | None:
        """The principal when it is known now, without awaiting anything: the hot path."""
        entry = self._cache.get(hashlib.sha256(token).digest())
        if entry is None or entry.until_s <= self._clock():
            return None
        return entry.principal

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused or VerifierUnavailable."""
        if not token or len(token) > MAX_TOKEN_BYTES:
            raise TokenRefused
        key = hashlib.sha256(token).digest()
        entry = self._cache.get(key)
        if entry is not None and entry.until_s > self._clock():
            if entry.principal is None:
                raise TokenRefused
            return entry.principal
        try:
            principal = await self._verifier.verify(token)
        except TokenRefused:
            self._remember(key, _Cached(None, self._clock() + REFUSAL_SECONDS))
            raise
        self._remember(key, _Cached(principal, self._clock() + CACHE_SECONDS))
        return principal

    def _remember(self, key: bytes, entry: _Cached) -> None:
        self._cache.pop(key, None)
        while len(self._cache) >= MAX_CACHED_TOKENS:
            self._cache.pop(next(iter(self._cache)))
        self._cache[key] = entry
