"""Bearer tokens of webhooks (`push.oidc`): JWTs of one installation, for one endpoint.

Keys are found as OpenID Connect Discovery has it, and kept for as long as their answer's
`Cache-Control` says. A key that is not known is looked for again, and no more often than each
`MIN_PAUSE_S`: what callers send makes no requests. Needs `joserfc`: the extra `webhooks`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from packetboat.webhooks.errors import BadToken
from packetboat.webhooks.headers import Headers

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

HEADER = "authorization"
LEEWAY_S = 30
MIN_PAUSE_S = 10.0
DEFAULT_KEEP_S = 300.0
MAX_KEEP_S = 86_400.0
_ALGORITHMS = ["RS256", "ES256", "EdDSA"]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MAX_AGE = re.compile(r"\bmax-age=(\d{1,9})\b")


class Fetched(NamedTuple):
    """A document, and for how long it may be kept."""

    body: bytes
    keep_s: float


def fetch(url: str) -> Fetched:
    """Fetch a document by httpx, following no redirect. Raises OSError if there is no document."""
    import httpx

    try:
        answer = httpx.get(url, timeout=10.0, follow_redirects=False)
    except httpx.HTTPError as error:
        raise OSError(f"{url}: {type(error).__name__}: {error}") from error
    if answer.status_code != 200:
        raise OSError(f"{url} answered {answer.status_code}")
    found = _MAX_AGE.search(answer.headers.get("cache-control", ""))
    keep_s = DEFAULT_KEEP_S if found is None else float(found[1])
    return Fetched(answer.content, min(MAX_KEEP_S, keep_s))


class Tokens:
    """The claims that a token must have.

    `tenant` is the tenant's id, which only the installation can set; the author of a subscription
    chooses `audience` and `subject`.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        tenant: str,
        subscription: str | None = None,
        subject: str | None = None,
        fetch: Callable[[str], Fetched] = fetch,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the check.

        Raises ValueError for an issuer by plain HTTP, except on this machine.
        """
        parts = urlsplit(issuer)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ValueError(f"the issuer must be an https url, {issuer} is none")
        self._expected: dict[str, str] = {"iss": issuer, "aud": audience, "tenant": tenant}
        if subscription is not None:
            self._expected["subscription"] = subscription
        if subject is not None:
            self._expected["sub"] = subject
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._fresh_until_s = 0.0
        self._not_before_s = 0.0

    def check(self, headers: Headers) -> Mapping[str, Any]:
        """Return the claims.

        Raises MissingHeader, BadToken, or OSError if the keys cannot be fetched.
        """
        from joserfc import jwt
        from joserfc.errors import JoseError

        scheme, _, token = headers.one(HEADER).partition(" ")
        if scheme.lower() != "bearer":
            raise BadToken(HEADER, "it is no bearer token")
        try:
            read = jwt.decode(token.strip(), self._keys_for(token), _ALGORITHMS)
        except (JoseError, ValueError) as error:
            raise BadToken(HEADER, f"the token is not valid: {error}") from error
        self._judge(read.claims)
        return read.claims

    def _judge(self, claims: Mapping[str, Any]) -> None:
        for name, value in self._expected.items():
            if claims.get(name) != value:
                raise BadToken(HEADER, f"`{name}` is {claims.get(name)!r}, expected {value!r}")
        expires_s = claims.get("exp")
        if not isinstance(expires_s, int | float) or expires_s + LEEWAY_S < self._clock():
            raise BadToken(HEADER, "it is expired, or the clock here is fast")

    def _keys_for(self, token: str) -> KeySet:
        kid = _kid(token)
        with self._lock:
            now_s = self._clock()
            known = self._keys is not None and any(key.kid == kid for key in self._keys.keys)
            if self._keys is not None and now_s < self._fresh_until_s and known:
                return self._keys
            if self._keys is not None and now_s < self._not_before_s:
                return self._keys
            self._not_before_s = now_s + MIN_PAUSE_S
            try:
                self._keys = self._look_up(now_s)
            except (OSError, ValueError) as error:
                if not known:
                    raise OSError(f"the keys of {self._issuer} cannot be had: {error}") from error
            assert self._keys is not None
            return self._keys

    def _look_up(self, now_s: float) -> KeySet:
        from joserfc.jwk import KeySet

        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        document = msgspec.json.decode(self._fetch(url).body, type=dict[str, Any])
        if document.get("issuer") != self._issuer:
            raise ValueError(f"{url} is the document of {document.get('issuer')}")
        found = self._fetch(str(document["jwks_uri"]))
        self._fresh_until_s = now_s + found.keep_s
        return KeySet.import_key_set(msgspec.json.decode(found.body))


def _kid(token: str) -> str | None:
    """Return the key id in the head of a token that is not verified yet."""
    from joserfc.errors import JoseError
    from joserfc.jws import extract_compact

    try:
        head = extract_compact(token.strip().encode()).headers()
    except (JoseError, ValueError) as error:
        raise BadToken(HEADER, "it is no JWT") from error
    kid = head.get("kid")
    return kid if isinstance(kid, str) else None
