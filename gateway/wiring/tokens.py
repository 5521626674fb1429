"""Signing keys, access tokens and what they hold by: in every process that checks or makes any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from auth.access_tokens import AccessTokens
from auth.client_directory import ClientDirectory
from auth.push_tokens import LASTS_S as PUSH_TOKEN_LASTS_S
from auth.push_tokens import PushTokens
from auth.revocations import Revocations
from auth.signing_keys import KeyPolicy, SigningKeys
from edge.lifetime import Run
from edge.sealing import Sealer
from gateway.configuration.settings import ServerSettings
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.tenancy.clients import ClientRepository
from metadata.tenancy.revoked_tokens import RevokedTokenRepository
from metadata.tenancy.signing_keys import SigningKeyRepository
from metadata.tenancy.tenants import TenantRepository

OWN_ISSUER = "packetboat"
"""The issuer if none is set: only the installation itself can find our keys then."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The parts that make and judge our tokens in this process."""

    keys: SigningKeys
    access: AccessTokens
    revocations: Revocations
    directory: ClientDirectory
    push: PushTokens


def make_tokens(settings: ServerSettings, database: Database) -> Tokens:
    """Asks nothing of Postgres yet. `follow` makes them live."""
    sealer = Sealer.from_text(settings.seal_keys) if settings.seal_keys else None
    keys = SigningKeys(SigningKeyRepository(database), key_policy(settings), sealer)
    issuer = settings.issuer or OWN_ISSUER
    return Tokens(
        keys=keys,
        access=AccessTokens(
            keys, issuer=issuer, audience=settings.audience, lasts_s=settings.token_seconds
        ),
        revocations=Revocations(RevokedTokenRepository(database)),
        directory=ClientDirectory(ClientRepository(database), TenantRepository(database)),
        push=PushTokens(keys, issuer=issuer, own_audience=settings.audience),
    )


def follow(tokens: Tokens, feed: ChangeFeed, own: Callable[[Run], None]) -> None:
    """Listen to the change feed, before `CachingVerifier` does: it drops its conclusions when the
    facts below have changed.
    """
    feed.add_listener(tokens.keys.on_changes)
    feed.add_listener(tokens.revocations.on_changes)
    feed.add_listener(tokens.directory.on_changes)
    own(tokens.keys.run)


def key_policy(settings: ServerSettings) -> KeyPolicy:
    return KeyPolicy(
        algorithm=settings.signing_algorithm,
        signs_for_s=settings.signing_key_days * DAY_S,
        tokens_last_s=float(max(settings.token_seconds, PUSH_TOKEN_LASTS_S)),
    )
