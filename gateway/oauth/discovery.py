"""Tells others how to ask us for tokens, and the keys that ours are signed with.

`/.well-known/oauth-authorization-server` is RFC 8414; `/.well-known/openid-configuration` says the
same, as OpenID Connect has it, to programs that check tokens, above all receivers of webhooks. Both
need to know the public URL. Keys are published long before they sign, so the set may be cached.
"""

from __future__ import annotations

from typing import Any

import msgspec

from auth.permissions import GRANTABLE
from auth.signing_keys import SigningKeys
from edge.asgi import Receive, Route, Scope, Send, respond
from edge.problem import Problem
from gateway.oauth.server import METHODS
from openapi.identity import OPERATIONS

MAX_AGE_S = 3_600
SHARE_OF_NOTICE = 4
"""The number of times that a cache reads the keys again before a new one signs."""


class DiscoveryRoutes:
    """`issuer` is the public base URL, or empty."""

    def __init__(self, keys: SigningKeys, issuer: str) -> None:
        self._keys = keys
        self._issuer = issuer
        policy = keys.policy
        notice_s = min(policy.published_before_s, policy.signs_for_s / 2)
        max_age_s = int(min(MAX_AGE_S, notice_s / SHARE_OF_NOTICE))
        self._cached = [(b"cache-control", b"public, max-age=%d" % max_age_s)]

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["oauthMetadata"], self.server),
            Route(OPERATIONS["openidConfiguration"], self.openid),
            Route(OPERATIONS["jwks"], self.jwks),
        ]

    async def server(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, msgspec.json.encode(self._metadata()), headers=self._cached)

    async def openid(self, scope: Scope, receive: Receive, send: Send) -> None:
        more = {
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({"RS256", *self._algorithms()}),
            "claims_supported": ["iss", "sub", "aud", "exp", "iat", "jti", "tenant"],
        }
        document = msgspec.json.encode(self._metadata() | more)
        await respond(send, 200, document, headers=self._cached)

    async def jwks(self, scope: Scope, receive: Receive, send: Send) -> None:
        keys = msgspec.json.encode({"keys": self._keys.jwks()})
        await respond(send, 200, keys, b"application/jwk-set+json", self._cached)

    def _metadata(self) -> dict[str, Any]:
        issuer = self._issuer
        if not issuer:
            raise Problem.of(
                "issuer-not-set",
                "This installation does not know its public URL; set PACKETBOAT_ISSUER to it.",
            )
        return {
            "issuer": issuer,
            "token_endpoint": f"{issuer}/oauth/token",
            "introspection_endpoint": f"{issuer}/oauth/introspect",
            "revocation_endpoint": f"{issuer}/oauth/revoke",
            "jwks_uri": f"{issuer}/.well-known/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "scopes_supported": sorted(permission.value for permission in GRANTABLE),
            "token_endpoint_auth_methods_supported": METHODS,
            "introspection_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
        }

    def _algorithms(self) -> set[str]:
        return {jwk["alg"] for jwk in self._keys.jwks()}
