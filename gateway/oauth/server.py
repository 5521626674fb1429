"""Authlib's authorization server for one request, whose client has been looked up already.

Authlib decides by the standards what a request may ask for and how it is answered (RFC 6749,
7009, 7662); it does so without waiting for anything. `endpoints.py` uses Postgres before that (to
find the client, the tenant, the token in question) and after it (to store a revocation).
"""

from __future__ import annotations

import logging
import math
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    ClientMixin,
    InvalidClientError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Request,
    TokenMixin,
    UnauthorizedClientError,
)
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from msgspec import UNSET, structs

from auth.access_token_verifier import allowed, subject_of
from auth.access_tokens import AccessToken, AccessTokens, parse_scope
from auth.permissions import Permission
from gateway.oauth.form import Credentials, refused
from metadata.tenancy.clients import Client
from metadata.tenancy.tenants import PLATFORM_ID
from metadata.types import Tenant
from openapi import identity as contract

# Its debug lines have whole tokens in them, whatever level is asked for.
logging.getLogger("authlib").setLevel(logging.WARNING)
METHODS = ["client_secret_basic", "client_secret_post"]


class Answer(NamedTuple):
    """Status, JSON body and headers, as Authlib makes them."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """The looked-up subjects of a request. `client` is None where its secret is wrong."""

    credentials: Credentials
    client: Client | None
    own_tenant: Tenant | None = None
    named_tenant: Tenant | None = None
    """The tenant of `tenant=`; None if the request names none, or an unknown one."""
    token: AccessToken | None = None
    """The one to be looked at or revoked, if it is one of ours."""


class OAuthClient(ClientMixin):  # type: ignore[misc]
    """A client as Authlib sees it; whether its secret is right has been found out."""

    def __init__(self, client: Client) -> None:
        self.row = client

    @property
    def operates(self) -> bool:
        return self.row.tenant_id == PLATFORM_ID

    def get_client_id(self) -> str:
        return self.row.client_id

    def check_client_secret(self, client_secret: str) -> bool:
        return True

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in METHODS

    def check_grant_type(self, grant_type: str) -> bool:
        return bool(grant_type == ClientCredentials.GRANT_TYPE)


class Server(AuthorizationServer):  # type: ignore[misc]
    """The server of one request. `revoked` is the token that the request revokes."""

    def __init__(self, asked: Asked, tokens: AccessTokens) -> None:
        super().__init__()
        self.asked = asked
        self.tokens = tokens
        self.revoked: AccessToken | None = None
        self.register_grant(ClientCredentials)
        self.register_endpoint(Introspection)
        self.register_endpoint(Revocation)
        self.register_token_generator("default", self._generate)

    def query_client(self, client_id: str) -> OAuthClient | None:
        client = self.asked.client
        return None if client is None else OAuthClient(client)

    def authenticate_client(
        self, request: OAuth2Request, methods: list[str], endpoint: str = "token"
    ) -> OAuthClient:
        try:
            client: OAuthClient = super().authenticate_client(request, METHODS, endpoint)
        except InvalidClientError:
            raise refused() from None
        return client

    def create_oauth2_request(self, request: dict[str, str]) -> OAuth2Request:
        """`request` is the form. The credentials go on in the body, in whichever way they came, so
        that they are read by one reader only."""
        credentials = self.asked.credentials
        form = request | {
            "client_id": credentials.client_id,
            "client_secret": credentials.secret,
        }
        # A proxy that ends TLS stands before us, so the scheme that Authlib insists on is not ours
        # to see.
        made = _Request("POST", "https://localhost/")
        made.payload = BasicOAuth2Payload(form)
        return made

    def validate_requested_scope(self, scope: str | None) -> None:
        """Do nothing: the code that knows the client's permissions checks the scope."""

    def save_token(self, token: dict[str, Any], request: OAuth2Request) -> None:
        """Tokens are not kept: they say themselves what they are."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Do nothing: no part listens to signals."""

    def handle_response(self, status: int, body: Any, headers: Any) -> Answer:
        # Bodies of errors come as pairs.
        return Answer(status, dict(body), dict(headers))

    def _generate(self, client: OAuthClient, scope: str | None, **_: Any) -> dict[str, Any]:
        row, tenant = client.row, _tenant_for(self.asked, client)
        subject = subject_of(row)
        valid_from = row.tokens_valid_from
        text, said = self.tokens.issue(
            tenant_id=tenant.tenant_id,
            subject=subject,
            client_id=row.client_id,
            scope=_scope_of(scope, allowed(row, tenant.tenant_id)),
            operator=subject if client.operates else "",
            not_before_s=-math.inf if valid_from is None else valid_from.timestamp(),
        )
        return structs.asdict(
            contract.AccessToken(text, "Bearer", self.tokens.lasts_s, said.scope_text)
        )


class _Request(OAuth2Request):  # type: ignore[misc]
    """A request whose form is that of its payload."""

    @property
    def form(self) -> dict[str, str]:
        form: dict[str, str] = self.payload.data
        return form


class ClientCredentials(ClientCredentialsGrant):  # type: ignore[misc]
    """RFC 6749 §4.4, with `tenant=` for operators."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def validate_token_request(self) -> None:
        super().validate_token_request()
        client: OAuthClient = self.request.client
        asked: Asked = self.server.asked
        name = self.request.payload.data.get("tenant")
        if name is not None and not client.operates:
            if asked.own_tenant is None or name != asked.own_tenant.name:
                raise UnauthorizedClientError("Only operators may name another tenant.")
        elif name is not None and asked.named_tenant is None:
            raise InvalidRequestError("There is no tenant of that name.")
        tenant = _tenant_for(asked, client)
        if tenant.state != "active" and not client.operates:
            raise UnauthorizedClientError("The tenant is suspended.")
        most = allowed(client.row, tenant.tenant_id)
        if not most:
            raise UnauthorizedClientError("This operator may not act in a tenant.")
        _scope_of(self.request.payload.scope, most)


class OwnToken(TokenMixin):  # type: ignore[misc]
    """A token of ours that holds."""

    def __init__(self, token: AccessToken) -> None:
        self.token = token

    def check_client(self, client: OAuthClient) -> bool:
        return client.operates or client.row.client_id == self.token.client_id

    def is_expired(self) -> bool:
        return False

    def is_revoked(self) -> bool:
        return False


class Introspection(IntrospectionEndpoint):  # type: ignore[misc]
    """RFC 7662: clients of the token's tenant may ask, and operators."""

    CLIENT_AUTH_METHODS = METHODS
    SUPPORTED_TOKEN_TYPES = ("access_token",)

    def query_token(self, token_string: str, token_type_hint: str | None) -> OwnToken | None:
        token = self.server.asked.token
        return None if token is None else OwnToken(token)

    def check_permission(self, token: OwnToken, client: OAuthClient, request: Any) -> bool:
        return client.operates or client.row.tenant_id == token.token.tenant_id

    def introspect_token(self, token: OwnToken) -> dict[str, Any]:
        said, tokens = token.token, self.server.tokens
        answer = contract.Introspection(
            active=True,
            token_type="Bearer",
            iss=tokens.issuer,
            sub=said.subject,
            aud=tokens.audience,
            exp=said.expires_at,
            iat=said.issued_at,
            jti=str(uuid.UUID(bytes=said.jti)),
            client_id=said.client_id,
            tenant=str(uuid.UUID(bytes=said.tenant_id)),
            scope=said.scope_text,
            act=contract.IntrospectionActor(said.operator) if said.operator else UNSET,
        )
        return {name: value for name, value in structs.asdict(answer).items() if value is not UNSET}


class Revocation(RevocationEndpoint):  # type: ignore[misc]
    """RFC 7009: the client a token was issued to may revoke it, and operators."""

    CLIENT_AUTH_METHODS = METHODS
    SUPPORTED_TOKEN_TYPES = ("access_token",)

    def query_token(self, token_string: str, token_type_hint: str | None) -> OwnToken | None:
        token = self.server.asked.token
        return None if token is None else OwnToken(token)

    def revoke_token(self, token: OwnToken, request: Any) -> None:
        self.server.revoked = token.token


def _tenant_for(asked: Asked, client: OAuthClient) -> Tenant:
    """Return the tenant whose requests the token is for: the one an operator names, or the
    client's own.
    """
    tenant = (asked.named_tenant if client.operates else None) or asked.own_tenant
    if tenant is None or tenant.state == "deleting":
        raise (
            refused()
            if not client.operates
            else InvalidRequestError("There is no tenant of that name.")
        )
    return tenant


def _scope_of(asked: str | None, most: frozenset[Permission]) -> frozenset[Permission]:
    """Return the permissions asked for, or all that are allowed if none are.

    The tenant's policies decide with each request whether the client may use them. Raises
    InvalidScopeError.
    """
    if not asked:
        return most
    scope = parse_scope(asked)
    if not scope or not scope <= most:
        names = " ".join(sorted(permission.value for permission in most))
        raise InvalidScopeError(f"The scope is one or more of: {names}")
    return scope
