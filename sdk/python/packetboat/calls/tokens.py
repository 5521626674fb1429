"""Access tokens: get, ask about and revoke them. They name a client and its secret themselves."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from packetboat.calls.call import TIMEOUT_S, Call, fetch, nothing, put, reader
from packetboat.models import AccessToken, Introspection, IssuerMetadata, KeySet
from packetboat.transport import Request


def get_token(
    client_id: str, client_secret: str, scope: str | None, tenant: str | None
) -> Call[AccessToken]:
    form = {"grant_type": "client_credentials"} | _client(client_id, client_secret)
    put(form, scope=scope, tenant=tenant)
    return Call(_form("token", form), reader(AccessToken), safe=True)


def introspect_token(client_id: str, client_secret: str, token: str) -> Call[Introspection]:
    form = {"token": token} | _client(client_id, client_secret)
    return Call(_form("introspect", form), reader(Introspection), safe=True)


def revoke_token(client_id: str, client_secret: str, token: str) -> Call[None]:
    form = {"token": token} | _client(client_id, client_secret)
    return Call(_form("revoke", form), nothing, safe=True)


def oauth_metadata() -> Call[IssuerMetadata]:
    return fetch("/.well-known/oauth-authorization-server", IssuerMetadata)


def openid_configuration() -> Call[IssuerMetadata]:
    return fetch("/.well-known/openid-configuration", IssuerMetadata)


def jwks() -> Call[KeySet]:
    return fetch("/.well-known/jwks.json", KeySet)


def _client(client_id: str, client_secret: str) -> dict[str, Any]:
    return {"client_id": client_id, "client_secret": client_secret}


def _form(verb: str, form: dict[str, Any]) -> Request:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Request("POST", f"/oauth/{verb}", headers, urlencode(form).encode("ascii"), TIMEOUT_S)
