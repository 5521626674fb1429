"""Access tokens: get, ask about and revoke them. They name a client and its secret themselves."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from packetboat.calls.call import TIMEOUT_S, Call, fetch, nothing, put, reader
from packetboat.models import AccessToken, Introspection, IssuerMetadata, KeySet
from packetboat.transport import Request


def get_token(
    client_id: str, client_secret: str, scope: str | None, tenant: str | None
) -> Call[AccessToken]:
    form = {"grant_type": "client_credentials"}
    put(form, scope=scope, tenant=tenant)
    return Call(_form("token", form, client_id, client_secret), reader(AccessToken), safe=True)


def introspect_token(client_id: str, client_secret: str, token: str) -> Call[Introspection]:
    request = _form("introspect", {"token": token}, client_id, client_secret)
    return Call(request, reader(Introspection), safe=True)


def revoke_token(client_id: str, client_secret: str, token: str) -> Call[None]:
    return Call(_form("revoke", {"token": token}, client_id, client_secret), nothing, safe=True)


def oauth_metadata() -> Call[IssuerMetadata]:
    return fetch("/.well-known/oauth-authorization-server", IssuerMetadata)


def openid_configuration() -> Call[IssuerMetadata]:
    return fetch("/.well-known/openid-configuration", IssuerMetadata)


def jwks() -> Call[KeySet]:
    return fetch("/.well-known/jwks.json", KeySet)


def _form(verb: str, form: Mapping[str, str], client_id: str, client_secret: str) -> Request:
    """Return a request with the credentials of the client that is named, instead of the
    sender's own.
    """
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    headers = {
        "Authorization": f"Basic {b64encode(pair.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return Request("POST", f"/oauth/{verb}", headers, urlencode(form).encode("ascii"), TIMEOUT_S)
