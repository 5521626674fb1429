"""The OAuth2 endpoints, of processes that have the control plane."""

from __future__ import annotations

from auth.access_token_verifier import AccessTokenVerifier
from edge.lifetime import own
from gateway.oauth.discovery import DiscoveryRoutes
from gateway.oauth.endpoints import OAuthEndpoints
from gateway.tenancy.heard import heard
from gateway.wiring.parts import Shared
from gateway.wiring.tokens import Tokens
from metadata.tenancy.clients import ClientRepository
from metadata.tenancy.revoked_tokens import RevokedTokenRepository
from metadata.tenancy.tenants import TenantRepository


def open_oauth(shared: Shared, tokens: Tokens, verifier: AccessTokenVerifier) -> None:
    parts, database = shared.parts, shared.database
    endpoints = OAuthEndpoints(
        tokens.access,
        verifier,
        tokens.revocations,
        tokens.directory,
        ClientRepository(database),
        TenantRepository(database),
        RevokedTokenRepository(database),
    )
    parts.routes += endpoints.routes()
    parts.routes += heard(endpoints.ending_routes(), shared.feed.catch_up)
    own(shared.stack, endpoints.last_uses.run)
    parts.routes += DiscoveryRoutes(tokens.keys, shared.settings.issuer).routes()
