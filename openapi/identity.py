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
    """The credentials of a client."""

    client_id: ClientId | UnsetType = UNSET
    """The id of the client, unless the credentials come by HTTP basic."""
    client_secret: ClientId | UnsetType = UNSET
    """The secret of the client, unless the credentials come by HTTP basic."""


class TokenRequest(ClientCredentials, kw_only=True):
    """A request for an access token."""

    grant_type: Literal["client_credentials"]
    """The way to get a token, of which there is one."""
    scope: str | UnsetType = UNSET
    """Permissions, divided by spaces, that the token is bounded to; all where none is named.
    Policies decide beside it."""
    tenant: str | UnsetType = UNSET
    """The name of the tenant in which an operator acts as its owner."""


class AccessToken(Answer):
    """A bearer token."""

    access_token: str
    """The token, for the header `Authorization`."""
    token_type: Literal["Bearer"]
    """The way to use the token: as a bearer token."""
    expires_in: int
    """Seconds until the token ends."""
    scope: str
    """The permissions that the token is bounded to, divided by spaces."""


class OAuthError(Answer):
    """A refusal in the form of RFC 6749."""

    error: Literal[
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
        "temporarily_unavailable",
    ]
    """The kind of refusal, for programs."""
    error_description: str | UnsetType = UNSET
    """The reason, for people."""


class TokenQuestion(ClientCredentials, kw_only=True):
    """A token to look at or to revoke."""

    token: str
    """The token itself."""
    token_type_hint: str | UnsetType = UNSET
    """Changes nothing; there is one type."""


class IntrospectionActor(Answer):
    """The operator that acts in the tenant."""

    sub: str
    """The operator, as audits name it."""


class Introspection(Answer):
    """The answer whether a token holds, with its claims if it does."""

    active: bool
    """Whether the token holds; all else is missing where it does not."""
    token_type: str | UnsetType = UNSET
    """The way to use the token, `Bearer`."""
    iss: str | UnsetType = UNSET
    """The issuer of the token, which is this installation."""
    sub: str | UnsetType = UNSET
    """The caller, as audits name it."""
    aud: str | UnsetType = UNSET
    """The audience of the token, which is this installation's API."""
    exp: int | UnsetType = UNSET
    """The time at which the token ends, in seconds since 1970."""
    iat: int | UnsetType = UNSET
    """The time at which the token was issued, in seconds since 1970."""
    jti: str | UnsetType = UNSET
    """The id of the token."""
    client_id: str | UnsetType = UNSET
    """The id of the client that got the token."""
    tenant: str | UnsetType = UNSET
    """The tenant's id."""
    scope: str | UnsetType = UNSET
    """The permissions that the token is bounded to, divided by spaces."""
    act: IntrospectionActor | UnsetType = UNSET
    """The operator that acts in the tenant."""


class Revoked(Answer):
    """An empty object."""


class IssuerMetadata(OpenAnswer):
    """The places of the token endpoints, and of the keys that tokens are signed with (RFC 8414)."""

    issuer: str
    """The `iss` of the tokens of this installation."""
    token_endpoint: str
    """The URL at which clients get tokens."""
    jwks_uri: str
    """The URL of the public keys that tokens are signed with."""
    response_types_supported: list[str]
    """The response types of RFC 6749; empty, because tokens come from the token endpoint alone."""
    introspection_endpoint: str | UnsetType = UNSET
    """The URL at which clients ask whether a token holds."""
    revocation_endpoint: str | UnsetType = UNSET
    """The URL at which clients revoke tokens."""


class SigningKey(OpenAnswer):
    """A public key in the form of RFC 7517."""

    kty: str
    """The kind of key: `OKP`, `EC` or `RSA`."""
    kid: str
    """The id of the key, which the header of a token names."""
    alg: str
    """The algorithm that signs with it."""
    use: str
    """The use of the key, `sig`: it signs."""
    crv: str | UnsetType = UNSET
    """The curve of an elliptic key."""
    x: str | UnsetType = UNSET
    """The public key of an Ed25519 key, or the first coordinate of another elliptic one."""
    y: str | UnsetType = UNSET
    """The second coordinate of an elliptic key, where it has two."""
    n: str | UnsetType = UNSET
    """The modulus of an RSA key."""
    e: str | UnsetType = UNSET
    """The exponent of an RSA key."""


class KeySet(Answer):
    """The public keys that tokens are signed with."""

    keys: list[SigningKey]
    """The keys, those of earlier tokens that still hold included."""


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
