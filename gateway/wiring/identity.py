"""The identity of callers, in every server process: all ways to check a token, behind one cache."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from auth.access_token_verifier import AccessTokenVerifier
from auth.api_key_verifier import ApiKeyVerifier
from auth.chain import Chain
from auth.development import DevTokenVerifier
from auth.issuer_keys import IssuerKeys
from auth.oidc import IssuerVerifier
from auth.policies import PolicyCache
from auth.verifier import CachingVerifier
from edge.lifetime import own
from gateway.configuration.settings import ServerSettings
from gateway.issuer_documents import GuardOf, IssuerDocuments
from gateway.wiring.parts import Identity
from gateway.wiring.tokens import follow, make_tokens
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.tenancy.api_keys import ApiKeyRepository
from metadata.tenancy.issuers import IssuerRepository
from metadata.tenancy.policies import PolicyRepository


def open_identity(
    settings: ServerSettings,
    database: Database,
    feed: ChangeFeed,
    guard_of: GuardOf,
    stack: AsyncExitStack,
) -> Identity:
    """Open the verifiers before the feed starts: a cache must hear of every change."""
    tokens = make_tokens(settings, database)
    directory, policies = tokens.directory, PolicyCache(PolicyRepository(database))
    access_tokens = AccessTokenVerifier(tokens.access, tokens.revocations, directory, policies)
    api_keys = ApiKeyVerifier(ApiKeyRepository(database), directory)
    issuer_keys = IssuerKeys(IssuerDocuments(guard_of, proxy=settings.egress_proxy or None).fetch)
    stack.push_async_callback(issuer_keys.close)
    issuers = IssuerVerifier(IssuerRepository(database), issuer_keys, directory, policies)
    token_sha256 = settings.dev_token_sha256
    verifier = CachingVerifier(
        Chain(
            issuer=tokens.access.issuer,
            access_tokens=access_tokens,
            api_keys=api_keys,
            issuers=issuers,
            development=DevTokenVerifier(token_sha256) if token_sha256 else None,
        )
    )
    follow(tokens, feed, partial(own, stack))
    for listener in (policies, api_keys, issuers, verifier):  # the cache is the last to hear
        feed.add_listener(listener.on_changes)
    own(stack, api_keys.last_uses.run)
    return Identity(verifier, tokens, access_tokens, policies)
