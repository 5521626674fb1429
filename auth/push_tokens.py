"""Tokens in the requests of our webhooks, by which an endpoint knows that we sent them.

A JWT (typ "JWT") for the endpoint's audience, signed with the same keys as access tokens, so that a
receiver finds them by our OpenID configuration. It is no access token: its type and its audience
differ from those. `tenant` names the tenant of the subscription: subjects are chosen by tenants, so
an endpoint compares both.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from joserfc import jwt

from auth.signing_keys import NoSigningKey, SigningKeys
from metadata.ids import new_uid

LASTS_S = 3_600
"""Not longer than access tokens may be set to: a key verifies until its last token is over."""
RENEWED_BEFORE_S = 600
MAX_CACHED = 10_000


class _Endpoint(NamedTuple):
    tenant_id: bytes
    subscription: str
    audience: str
    subject: str


class _Cached(NamedTuple):
    token: str
    kid: str
    renew_at_s: float


class PushTokens:
    """A cache of one token for each endpoint, which is renewed well before it expires."""

    def __init__(
        self,
        keys: SigningKeys,
        *,
        issuer: str,
        own_audience: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the cache; `own_audience` is that of access tokens, for which no endpoint gets a
        token.
        """
        self._keys = keys
        self._issuer = issuer
        self._own_audience = own_audience
        self._clock = clock
        self._lasts_s = min(LASTS_S, int(keys.policy.tokens_last_s))
        self._cached: dict[_Endpoint, _Cached] = {}

    def for_endpoint(self, tenant_id: bytes, subscription: str, audience: str, subject: str) -> str:
        """Return a token that is valid for some more minutes.

        Raises LookupError, which says what is missing.
        """
        if audience == self._own_audience:
            raise LookupError("the audience is this service's own; name the endpoint's")
        try:
            signer = self._keys.signer()
        except NoSigningKey as error:
            raise LookupError(str(error)) from error
        endpoint = _Endpoint(tenant_id, subscription, audience, subject)
        now_s = self._clock()
        cached = self._cached.get(endpoint)
        if cached is not None and now_s < cached.renew_at_s and cached.kid == signer.kid:
            return cached.token
        claims = {
            "iss": self._issuer,
            "sub": subject,
            "aud": audience,
            "iat": int(now_s),
            "exp": int(now_s) + self._lasts_s,
            "jti": str(uuid.UUID(bytes=new_uid())),
            "tenant": str(uuid.UUID(bytes=tenant_id)),
            "subscription": subscription,
        }
        header = {"alg": signer.algorithm, "typ": "JWT", "kid": signer.kid}
        token = jwt.encode(header, claims, signer.key, algorithms=[signer.algorithm])
        renew_at_s = now_s + self._lasts_s - min(RENEWED_BEFORE_S, self._lasts_s / 2)
        self._cached.pop(endpoint, None)
        while len(self._cached) >= MAX_CACHED:
            self._cached.pop(next(iter(self._cached)))
        self._cached[endpoint] = _Cached(token, signer.kid, renew_at_s)
        return token
