"""Access tokens, and the keys they are signed with."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    BODY_TIMEOUT,
    CACHE_CONTROL,
    INTERNAL_ERROR,
    NOT_FOUND,
    RETRY_AFTER,
    TOO_LARGE,
    UNAVAILABLE,
)
from openapi.contract import Answer, Header, OpenAnswer, OpenBody, Operation, Refusal, ok, table

ClientId = Annotated[str, Meta(max_length=256)]


class ClientCredentials(OpenBody):
    client_id: ClientId | UnsetType = UNSET
    """The id of the client, unless the credentials come by HTTP basic."""
    client_secret: ClientId | UnsetType = UNSET


class TokenRequest(ClientCredentials, kw_only=True):
    grant_type: Literal["client_credentials"]
    scope: str | UnsetType = UNSET
    """Permissions, divided by spaces, that the token is bounded to; all where none is named.
    Policies decide beside it."""
    tenant: str | UnsetType = UNSET
    """The name of the tenant in which an operator acts as its owner."""


class AccessToken(Answer):
    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    """Seconds until the token ends."""
    scope: str


class OAuthError(Answer):
    error: Literal[
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
        "temporarily_unavailable",
    ]
    error_description: str | UnsetType = UNSET


class TokenQuestion(ClientCredentials, kw_only=True):
    token: str
    token_type_hint: str | UnsetType = UNSET
    """Changes nothing; there is one type."""


class IntrospectionActor(Answer):
    """The operator that acts in the tenant."""

    sub: str


class Introspection(Answer):
    active: bool
    token_type: str | UnsetType = UNSET
    iss: str | UnsetType = UNSET
    sub: str | UnsetType = UNSET
    """The caller, as audits name it."""
    aud: str | UnsetType = UNSET
    exp: int | UnsetType = UNSET
    iat: int | UnsetType = UNSET
    jti: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    """The tenant's id."""
    scope: str | UnsetType = UNSET
    act: IntrospectionActor | UnsetType = UNSET
    """The operator that acts in the tenant."""


class Revoked(Answer):
    """An empty object."""


class IssuerMetadata(OpenAnswer):
    issuer: str
    token_endpoint: str
    jwks_uri: str
    response_types_supported: list[str]
    introspection_endpoint: str | UnsetType = UNSET
    revocation_endpoint: str | UnsetType = UNSET


class SigningKey(OpenAnswer):
    kty: str
    kid: str
    alg: str
    use: str
    crv: str | UnsetType = UNSET
    """The curve of an elliptic key."""
    x: str | UnsetType = UNSET
    """The public key of an Ed25519 key, or the first coordinate of another elliptic one."""
    y: str | UnsetType = UNSET
    n: str | UnsetType = UNSET
    """The modulus of an RSA key."""
    e: str | UnsetType = UNSET
    """The exponent of an RSA key."""


class KeySet(Answer):
    keys: list[SigningKey]


OAUTH_BAD_REQUEST = Refusal(
    "OAuthBadRequest",
    400,
    "Not a request that can be granted; `error` says which way (RFC 6749 §5.2).",
    OAuthError,
    media="application/json",
)
OAUTH_UNAUTHENTICATED = Refusal(
    "OAuthUnauthenticated",
    401,
    "The client's id or secret is missing or not valid.",
    OAuthError,
    (Header("WWW-Authenticate", "`Basic`.", component=False),),
    media="application/json",
)
OAUTH_SLOW_DOWN = Refusal(
    "OAuthSlowDown",
    429,
    "Too many wrong secrets for this client id, or too many revoked tokens.",
    OAuthError,
    (RETRY_AFTER,),
    media="application/json",
)
OAUTH_UNAVAILABLE = Refusal(
    "OAuthUnavailable",
    503,
    "It cannot be answered now.",
    OAuthError,
    (RETRY_AFTER,),
    media="application/json",
)

OPERATIONS = table(
    "tokens",
    Operation(
        id="getToken",
        route="POST /oauth/token",
        needs="public",
        summary="Get an access token",
        description=(
            "RFC 6749 §4.4, client credentials. The client's id and secret come by HTTP basic "
            "or in the body, not both. The token is a JWT (RFC 9068); send it as "
            "`Authorization: Bearer …` and get another when it is over."
        ),
        media={"application/x-www-form-urlencoded": TokenRequest},
        answers=(ok(AccessToken, "A token; never cached."),),
        problems=(
            OAUTH_BAD_REQUEST,
            OAUTH_UNAUTHENTICATED,
            BODY_TIMEOUT,
            TOO_LARGE,
            OAUTH_SLOW_DOWN,
            INTERNAL_ERROR,
            OAUTH_UNAVAILABLE,
        ),
    ),
    Operation(
        id="introspectToken",
        route="POST /oauth/introspect",
        needs="public",
        summary="Ask whether a token holds",
        description=(
            "RFC 7662, for clients of the token's tenant and for operators. To everybody else, "
            "and of a token that is over, revoked or not ours, it says no more than that it is "
            "not active."
        ),
        media={"application/x-www-form-urlencoded": TokenQuestion},
        answers=(ok(Introspection, "The claims of the token, if it holds."),),
        problems=(
            OAUTH_BAD_REQUEST,
            OAUTH_UNAUTHENTICATED,
            BODY_TIMEOUT,
            TOO_LARGE,
            OAUTH_SLOW_DOWN,
            INTERNAL_ERROR,
            OAUTH_UNAVAILABLE,
        ),
    ),
    Operation(
        id="revokeToken",
        route="POST /oauth/revoke",
        needs="public",
        summary="Revoke a token",
        description=(
            "RFC 7009, for the client that the token was issued to and for operators. It holds "
            "no more here once this is answered, and nowhere 5 s later. All tokens of a client "
            "are revoked by `POST /clients/{name}:revoke_tokens`."
        ),
        media={"application/x-www-form-urlencoded": TokenQuestion},
        answers=(ok(Revoked, "It holds no more, or never did."),),
        problems=(
            OAUTH_BAD_REQUEST,
            OAUTH_UNAUTHENTICATED,
            BODY_TIMEOUT,
            TOO_LARGE,
            OAUTH_SLOW_DOWN,
            INTERNAL_ERROR,
            OAUTH_UNAVAILABLE,
        ),
    ),
    Operation(
        id="oauthMetadata",
        route="GET /.well-known/oauth-authorization-server",
        needs="public",
        summary="Where the token endpoints are",
        description="RFC 8414.",
        answers=(ok(IssuerMetadata, "The document; it may be cached.", CACHE_CONTROL),),
        problems=(
            NOT_FOUND,
            INTERNAL_ERROR,
        ),
    ),
    Operation(
        id="openidConfiguration",
        route="GET /.well-known/openid-configuration",
        needs="public",
        summary="Where receivers of webhooks find our keys",
        description=(
            "OpenID Connect Discovery, for those who check the tokens that webhooks carry. "
            "There are no ID tokens of people."
        ),
        answers=(ok(IssuerMetadata, "The document; it may be cached.", CACHE_CONTROL),),
        problems=(
            NOT_FOUND,
            INTERNAL_ERROR,
            UNAVAILABLE,
        ),
    ),
    Operation(
        id="jwks",
        route="GET /.well-known/jwks.json",
        needs="public",
        summary="The keys that tokens are signed with",
        description=(
            "RFC 7517. A key is here well before it signs, and until the last token it signed "
            "is over."
        ),
        answers=(
            ok(
                KeySet,
                "The public keys; they may be cached.",
                CACHE_CONTROL,
                media="application/jwk-set+json",
            ),
        ),
        problems=(
            INTERNAL_ERROR,
            UNAVAILABLE,
        ),
    ),
)
