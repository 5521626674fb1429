"""Access tokens of our own: JWTs of the profile of RFC 9068, read by the rules of RFC 8725.

    header   alg, typ "at+jwt", kid             these three and no other
    claims   iss, sub, aud, exp, iat, jti, client_id, tenant, scope; act for operators, topics and
             schemas for runs of exports

`sub` is the acting subject, as audits name it; `tenant` is the tenant's id. The token of an
operator inside a tenant has `act` as well, with the operator's own subject. `scope` limits the
permissions of the token; the permissions of the client are decided by the tenant's policies
whenever the token is checked. `topics` is the pattern of the topics that a run reads, `schemas` has
the schemas that it needs for that, and a run may do nothing else (`auth/run_tokens.py`).

Every refusal here is the same TokenRefused. The algorithm is that of our key, never that of the
header; the key is one of ours that `kid` names, never one that comes with the token.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError

from auth.errors import TokenRefused
from auth.jws import kid_of, read
from auth.permissions import GRANTABLE, Permission
from auth.signing_keys import SigningKeys
from metadata.ids import new_uid

TYPE = "at+jwt"
LEEWAY_S = 30
"""Seconds by which the clocks of issuers and verifiers may differ."""
MAX_TEXT = 512
"""Most characters of one claim."""
_HEADER = frozenset({"alg", "typ", "kid"})
_SCOPES = {permission.value: permission for permission in GRANTABLE}


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The content of a token of ours; `jti` and `tenant_id` are 16 bytes, times seconds of the
    epoch.
    """

    jti: bytes
    tenant_id: bytes
    subject: str
    client_id: str
    scope: frozenset[Permission]
    issued_at: int
    expires_at: int
    operator: str = ""
    """The subject of the operator that acts in a tenant; empty for the tenant's own."""
    topics: str = ""
    """The pattern of topics that a run of an export reads; empty for the tokens of clients."""
    schemas: tuple[str, ...] = ()
    """The names of schemas that the run reads."""

    @property
    def scope_text(self) -> str:
        return scope_text(self.scope)


def scope_text(scope: frozenset[Permission]) -> str:
    """Return a scope as OAuth writes it, always in the same order."""
    return " ".join(permission.value for permission in Permission if permission in scope)


def parse_scope(text: str) -> frozenset[Permission] | None:
    """Parse a scope; return None if it names anything that is no permission."""
    named = text.split(" ") if text else []
    if not all(name in _SCOPES for name in named):
        return None
    return frozenset(_SCOPES[name] for name in named)


class AccessTokens:
    """The issuer and reader of access tokens; a token for another `audience` than ours is
    refused.
    """

    def __init__(
        self,
        keys: SigningKeys,
        *,
        issuer: str,
        audience: str,
        lasts_s: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self.issuer = issuer
        self.audience = audience
        self.lasts_s = lasts_s
        self._clock = clock

    def issue(
        self,
        *,
        tenant_id: bytes,
        subject: str,
        client_id: str,
        scope: frozenset[Permission],
        operator: str = "",
        not_before_s: float = -math.inf,
        topics: str = "",
        schemas: tuple[str, ...] = (),
        jti: bytes | None = None,
        lasts_s: int | None = None,
    ) -> tuple[str, AccessToken]:
        """Issue a token; return it and its content.

        Raises NoSigningKey.

        `not_before_s` is the client's `tokens_valid_from`; the token is dated later than that.
        Tokens that are revoked together share a `jti`.
        """
        issued_at = int(self._clock())
        if issued_at <= not_before_s:
            issued_at = math.floor(not_before_s) + 1
        token = AccessToken(
            jti=jti or new_uid(),
            tenant_id=tenant_id,
            subject=subject,
            client_id=client_id,
            scope=scope,
            issued_at=issued_at,
            expires_at=issued_at + (lasts_s or self.lasts_s),
            operator=operator,
            topics=topics,
            schemas=schemas,
        )
        signer = self._keys.signer()
        header = {"alg": signer.algorithm, "typ": TYPE, "kid": signer.kid}
        claims = self._claims(token)
        return jwt.encode(header, claims, signer.key, algorithms=[signer.algorithm]), token

    async def read(self, token: bytes) -> AccessToken:
        """Check a token, except whether it was revoked.

        Raises TokenRefused or VerifierUnavailable.
        """
        unverified = read(token)
        header = unverified.header
        if header.keys() != _HEADER or header["typ"] != TYPE:
            raise TokenRefused
        # Every check that costs nothing is made before that of the signature.
        found = self._checked(unverified.claims)
        key = await self._keys.public(kid_of(header))
        if key is None or header["alg"] != key.algorithm:
            raise TokenRefused
        try:
            jws.deserialize_compact(token, key.key, algorithms=[key.algorithm])
        except (JoseError, ValueError, TypeError):
            raise TokenRefused from None
        return found

    def _claims(self, token: AccessToken) -> dict[str, Any]:
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": token.subject,
            "aud": self.audience,
            "exp": token.expires_at,
            "iat": token.issued_at,
            "jti": str(uuid.UUID(bytes=token.jti)),
            "client_id": token.client_id,
            "tenant": str(uuid.UUID(bytes=token.tenant_id)),
            "scope": token.scope_text,
        }
        if token.operator:
            claims["act"] = {"sub": token.operator}
        if token.topics:
            claims["topics"] = token.topics
            claims["schemas"] = list(token.schemas)
        return claims

    def _checked(self, claims: dict[str, Any]) -> AccessToken:
        if claims.get("iss") != self.issuer or not _is_for(claims.get("aud"), self.audience):
            raise TokenRefused
        issued_at, expires_at = _seconds(claims, "iat"), _seconds(claims, "exp")
        now_s = self._clock()
        if expires_at <= now_s - LEEWAY_S or issued_at > now_s + LEEWAY_S:
            raise TokenRefused
        if "nbf" in claims and _seconds(claims, "nbf") > now_s + LEEWAY_S:
            raise TokenRefused
        scope = parse_scope(_text(claims, "scope"))
        if scope is None:
            raise TokenRefused
        return AccessToken(
            jti=_uuid(claims, "jti"),
            tenant_id=_uuid(claims, "tenant"),
            subject=_text(claims, "sub"),
            client_id=_text(claims, "client_id"),
            scope=scope,
            issued_at=issued_at,
            expires_at=expires_at,
            operator=_operator(claims),
            topics=_text(claims, "topics") if "topics" in claims else "",
            schemas=_schemas(claims),
        )


def _is_for(audience: object, ours: str) -> bool:
    if isinstance(audience, list):
        return all(isinstance(one, str) for one in audience) and ours in audience
    return audience == ours


def _seconds(claims: dict[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise TokenRefused
    return value


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise TokenRefused
    return value


def _uuid(claims: dict[str, Any], name: str) -> bytes:
    text = _text(claims, name)
    try:
        value = uuid.UUID(text)
    except ValueError:
        raise TokenRefused from None
    if str(value) != text:
        raise TokenRefused
    return value.bytes


def _schemas(claims: dict[str, Any]) -> tuple[str, ...]:
    names = claims.get("schemas", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TokenRefused
    return tuple(names)


def _operator(claims: dict[str, Any]) -> str:
    if "act" not in claims:
        return ""
    actor = claims["act"]
    if not isinstance(actor, dict) or not (subject := _text(actor, "sub")):
        raise TokenRefused
    return subject
