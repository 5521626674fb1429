"""The public keys of tenants' own issuers: how they are fetched, kept and renewed safely.

    none ──► fresh ──► due ──► over       `fresh_s` since the keys were fetched, `stale_s`
                        │ renewed in the background, used meanwhile

The sender of a token decides nothing. The URL to ask follows from the configured issuer alone. It
is asked by one request at a time, with a pause of `pause_s` after each, whatever tokens name and
however it answered. Answers are bounded in bytes and time (by `fetch`), and in keys. Keys that
could not be renewed are used until `stale_s`, so an issuer may be down for that long.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from auth.errors import VerifierUnavailable

ALGORITHMS: Mapping[str, tuple[str, str]] = {
    "RS256": ("RSA", ""),
    "RS384": ("RSA", ""),
    "RS512": ("RSA", ""),
    "PS256": ("RSA", ""),
    "PS384": ("RSA", ""),
    "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""Algorithms that an issuer may be configured to sign with, and the type and curve of their keys.

No symmetric algorithm is among them, and not `none`.
"""
FRESH_S = 600.0
STALE_S = 6 * 3600.0
PAUSE_S = 10.0
MAX_KEYS = 64
MAX_ISSUERS = 1000
MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192
MAX_EXPONENT_CHARS = 6
"""Base64 characters of an exponent, which are 36 bits; the usual exponent is 65537.

Checking a signature with an exponent as long as the modulus costs as much as making one.
"""
MAX_CANDIDATES = 4
"""Keys of one name and kind that a token's signature is tried with.

An issuer has one, or two while it changes them.
"""
_KEYS_AT_ONCE = 8
"""Keys that are read in one turn of the event loop."""
DISCOVERY = "/.well-known/openid-configuration"
_PUBLIC = {
    "RSA": ("kty", "kid", "n", "e"),
    "EC": ("kty", "kid", "crv", "x", "y"),
    "OKP": ("kty", "kid", "crv", "x"),
}
_log = structlog.get_logger("packetboat.identity")
Fetch = Callable[[bytes, str], Awaitable[bytes]]
"""Function that returns the body of a 200 response, for a tenant's id and a URL.

It raises IssuerUnreachable.
"""


class IssuerUnreachable(Exception):
    """The issuer could not be asked, or did not answer as an issuer does; the text says why."""


class IssuerKey(NamedTuple):
    kid: str
    algorithm: str
    """Algorithm of the key; empty if the issuer does not name it."""
    kty: str
    curve: str
    key: Key

    def fits(self, algorithm: str) -> bool:
        return ALGORITHMS[algorithm] == (self.kty, self.curve) and self.algorithm in (
            "",
            algorithm,
        )


class _Issuer:
    """The keys of one issuer; `keys` is None until it was reached once."""

    __slots__ = ("asked_at_s", "fetched_at_s", "keys", "task", "why")

    def __init__(self) -> None:
        self.keys: tuple[IssuerKey, ...] | None = None
        self.fetched_at_s = float("-inf")
        self.asked_at_s = float("-inf")
        self.task: asyncio.Task[None] | None = None
        self.why = "it was not asked yet"


class IssuerKeys:
    """A cache of keys by tenant and issuer, since tenants may reach different hosts."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        fresh_s: float = FRESH_S,
        stale_s: float = STALE_S,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._pause_s = pause_s
        self._clock = clock
        self._issuers: dict[tuple[bytes, str], _Issuer] = {}

    async def candidates(
        self, tenant_id: bytes, issuer: str, kid: str | None, algorithm: str
    ) -> Sequence[IssuerKey]:
        """Return the keys that may have signed a token of that header; empty if the issuer has
        none.

        Raises VerifierUnavailable if that is not known now.
        """
        known = self._known(tenant_id, issuer)
        age_s = self._clock() - known.fetched_at_s
        if known.keys is None or age_s >= self._stale_s:
            known.keys = None
            await self._renewed(known, tenant_id, issuer)
        elif age_s >= self._fresh_s and self._may_ask(known):
            self._renew(known, tenant_id, issuer)
        found = _fitting(known.keys or (), kid, algorithm)
        if found:
            return found
        # A key that is not known here may be newer than the last answer.
        if known.task is not None or self._may_ask(known):
            await self._renewed(known, tenant_id, issuer)
            found = _fitting(known.keys or (), kid, algorithm)
        elif known.asked_at_s > known.fetched_at_s:
            raise VerifierUnavailable(f"the issuer {issuer} could not be asked: {known.why}")
        return found

    def forget(self, tenant_ids: frozenset[bytes] | None) -> None:
        """Drop the keys of issuers of some tenants; those of all tenants for None."""
        for key in [k for k in self._issuers if tenant_ids is None or k[0] in tenant_ids]:
            self._end(self._issuers.pop(key))

    async def close(self) -> None:
        for known in self._issuers.values():
            self._end(known)

    def _end(self, known: _Issuer) -> None:
        if known.task is not None:
            known.task.cancel()

    def _known(self, tenant_id: bytes, issuer: str) -> _Issuer:
        key = tenant_id, issuer
        known = self._issuers.pop(key, None) or _Issuer()
        while len(self._issuers) >= MAX_ISSUERS:
            self._end(self._issuers.pop(next(iter(self._issuers))))
        self._issuers[key] = known  # the one used last is the last
        return known

    def _may_ask(self, known: _Issuer) -> bool:
        return known.task is None and self._clock() - known.asked_at_s >= self._pause_s

    async def _renewed(self, known: _Issuer, tenant_id: bytes, issuer: str) -> None:
        """Wait for the issuer's next answer. Raises VerifierUnavailable if there is none."""
        asked_s = known.fetched_at_s
        if known.task is None and self._may_ask(known):
            self._renew(known, tenant_id, issuer)
        if known.task is not None:
            # The caller may be cancelled; the request goes on for the others.
            await asyncio.wait([known.task])
        if known.fetched_at_s == asked_s:
            raise VerifierUnavailable(f"the issuer {issuer} could not be asked: {known.why}")

    def _renew(self, known: _Issuer, tenant_id: bytes, issuer: str) -> None:
        known.asked_at_s = self._clock()
        known.task = asyncio.create_task(self._ask(known, tenant_id, issuer))

    async def _ask(self, known: _Issuer, tenant_id: bytes, issuer: str) -> None:
        try:
            known.keys = await self._read(tenant_id, issuer)
            known.fetched_at_s = self._clock()
        except IssuerUnreachable as error:
            known.why = str(error)
            _log.warning("an issuer cannot be asked", issuer=issuer, reason=known.why)
        except Exception as error:
            known.why = type(error).__name__
            _log.exception("asking an issuer failed", issuer=issuer)
        finally:
            known.task = None

    async def _read(self, tenant_id: bytes, issuer: str) -> tuple[IssuerKey, ...]:
        """Fetch the keys of an issuer. Raises IssuerUnreachable."""
        at = issuer.removesuffix("/") + DISCOVERY
        described = _object(await self._fetch(tenant_id, at))
        if described.get("issuer") != issuer:
            raise IssuerUnreachable(f"{at} describes another issuer")
        keys_at = described.get("jwks_uri")
        if not isinstance(keys_at, str):
            raise IssuerUnreachable(f"{at} names no jwks_uri")
        listed = _object(await self._fetch(tenant_id, keys_at)).get("keys")
        if not isinstance(listed, list) or len(listed) > MAX_KEYS:
            raise IssuerUnreachable(f"{keys_at} is no set of at most {MAX_KEYS} keys")
        keys: list[IssuerKey] = []
        for index, jwk in enumerate(listed):
            if index % _KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)
            key = read_key(jwk)
            if key is not None:
                keys.append(key)
        if not keys:
            raise IssuerUnreachable(f"{keys_at} has no key that verifies signatures")
        return tuple(keys)


def read_key(jwk: object) -> IssuerKey | None:
    """Read a key; return None if it is not public, not for signatures, weak or of an unknown
    kind.
    """
    if not isinstance(jwk, dict):
        return None
    kty, kid, algorithm = jwk.get("kty"), jwk.get("kid", ""), jwk.get("alg", "")
    operations = jwk.get("key_ops", ["verify"])
    if kty not in _PUBLIC or not isinstance(kid, str) or not isinstance(algorithm, str):
        return None
    if jwk.get("use", "sig") != "sig":
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    # Only the key itself is read: no private parts, certificates or URLs.
    plain = {name: jwk[name] for name in _PUBLIC[kty] if isinstance(jwk.get(name), str)}
    # Four characters are three bytes; the modulus is looked at before anything computes with it.
    bits = len(plain.get("n", "")) * 6
    if kty == "RSA" and not MIN_RSA_BITS <= bits <= MAX_RSA_BITS + 8:
        return None
    if kty == "RSA" and len(plain.get("e", "").rstrip("=")) > MAX_EXPONENT_CHARS:
        return None
    try:
        key = JWKRegistry.import_key(plain)
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return IssuerKey(kid, algorithm, kty, plain.get("crv", ""), key)


def _fitting(keys: Sequence[IssuerKey], kid: str | None, algorithm: str) -> Sequence[IssuerKey]:
    """Return the keys that may have signed a token.

    A token without a key's name can only be of an issuer with one key of its kind.
    """
    found = [key for key in keys if key.fits(algorithm) and kid in (None, key.kid)]
    return found[:MAX_CANDIDATES] if kid is not None or len(found) == 1 else ()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise IssuerUnreachable("the issuer answered with something that is no JSON") from None
    if not isinstance(value, dict):
        raise IssuerUnreachable("the issuer answered with something that is no JSON object")
    return value
