"""Finds the principal of a bearer token, from a cache for the tokens of all requests.

A verifier is asked once per token and minute. In between the answer comes from memory, so a request
costs one hash. Refusals are cached too, for a shorter time and separately, so that many invalid
tokens neither cost more than valid ones nor drive them out. Keys are SHA-256 of the token: the
cache never holds a credential.

A change that the change feed reports takes effect with the next request. So all answers for a
tenant are dropped when a client, key, policy or issuer of it changes, or the tenant itself; a
revoked token is dropped alone; and an answer that was being found at that time is given once and
not kept. The verifiers must have handled the change before: `on_changes` is the last listener.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from auth.errors import AuthError, TenantSuspended, TokenRefused
from auth.principal import Principal
from metadata.tenancy.signing_keys import NOBODY
from metadata.tenancy.tenants import PLATFORM_ID
from metadata.types import Change, ChangeKind

CACHE_SECONDS = 60.0
REFUSAL_SECONDS = 5.0
MAX_CACHED_TOKENS = 10_000
"""Cached valid tokens at most, and as many refused ones."""
MAX_TOKEN_BYTES = 8 * 1024
_OF_TENANT = (
    ChangeKind.TENANT,
    ChangeKind.CLIENT,
    ChangeKind.KEY,
    ChangeKind.POLICY,
    ChangeKind.ISSUER,
)
V = TypeVar("V")
Concerned = Callable[[Principal], bool]
"""Function that returns whether the answer for a token of a principal is dropped."""


class TokenVerifier(Protocol):
    """A way to check tokens: the development token, JWTs, API keys, OIDC issuers."""

    async def verify(self, token: bytes) -> Principal:
        """Return the principal of a token.

        Raises TokenRefused, TenantSuspended or VerifierUnavailable.
        """
        ...


class _Good(NamedTuple):
    principal: Principal
    until_s: float


class _Bad(NamedTuple):
    refusal: type[AuthError]
    until_s: float


class CachingVerifier:
    """Caches answers of a verifier, for a bounded time and a bounded number of tokens."""

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._verifier = verifier
        self._clock = clock
        self._wall = wall
        self._good: dict[bytes, _Good] = {}
        self._bad: dict[bytes, _Bad] = {}
        self._changed = 0
        self._dropped: list[Callable[[Concerned], None]] = []

    def tell_dropped(self, listener: Callable[[Concerned], None]) -> None:
        """Call a listener after each change, with a function that says which principals are
        dropped.
        """
        self._dropped.append(listener)

    def cached(self, token: bytes) -> Principal | None:
        """Return the principal if it is cached, else None; it awaits nothing."""
        entry = self._good.get(hashlib.sha256(token).digest())
        if entry is None or entry.until_s <= self._clock():
            return None
        return entry.principal

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused, TenantSuspended or VerifierUnavailable."""
        if not token or len(token) > MAX_TOKEN_BYTES:
            raise TokenRefused
        key = hashlib.sha256(token).digest()
        good = self._good.get(key)
        if good is not None and good.until_s > self._clock():
            return good.principal
        bad = self._bad.get(key)
        if bad is not None and bad.until_s > self._clock():
            raise bad.refusal
        before = self._changed
        try:
            principal = await self._verifier.verify(token)
        except (TokenRefused, TenantSuspended) as error:
            self._good.pop(key, None)
            if before == self._changed:
                until_s = self._clock() + REFUSAL_SECONDS
                _remember(self._bad, key, _Bad(type(error), until_s))
            raise
        if before == self._changed:
            _remember(self._good, key, _Good(principal, self._until_s(principal)))
        return principal

    async def on_changes(self, changes: Sequence[Change]) -> None:
        """Drop the answers that changes concern; the last listener of the change feed."""
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._drop(lambda _: True)
            return
        tenants = {change.tenant_id for change in changes if change.kind in _OF_TENANT}
        tokens = {change.uid for change in changes if change.kind is ChangeKind.TOKEN}
        if not tenants and not tokens:
            return
        credentials = {f"token:{uid.hex()}" for uid in tokens}
        # A change of a signing key may end any token of ours. A change of a client of the platform
        # may end any operator's token, and operators act in other tenants.
        keys, operators = NOBODY in tokens, PLATFORM_ID in tenants

        def concerned(principal: Principal) -> bool:
            return (
                principal.tenant_id in tenants
                or principal.credential in credentials
                or (keys and principal.credential.startswith("token:"))
                or (operators and principal.subject.startswith("operator:"))
            )

        self._drop(concerned)

    def _drop(self, concerned: Concerned) -> None:
        self._changed += 1
        self._bad.clear()
        self._good = {k: good for k, good in self._good.items() if not concerned(good.principal)}
        for listener in self._dropped:
            listener(concerned)

    def _until_s(self, principal: Principal) -> float:
        lasts_s = CACHE_SECONDS
        if principal.expires_at is not None:
            lasts_s = min(lasts_s, principal.expires_at - self._wall())
        return self._clock() + lasts_s


def _remember(entries: dict[bytes, V], key: bytes, entry: V) -> None:
    entries.pop(key, None)
    while len(entries) >= MAX_CACHED_TOKENS:
        entries.pop(next(iter(entries)))
    entries[key] = entry
