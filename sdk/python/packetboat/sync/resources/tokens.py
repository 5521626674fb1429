# Generated from aio/resources/tokens.py: `make generate`. Do not edit.
"""Access tokens: get, ask about and revoke them."""

from __future__ import annotations

from packetboat.calls import tokens as calls
from packetboat.models import AccessToken, Introspection, IssuerMetadata, KeySet
from packetboat.sync.sender import Sender


class Tokens:
    """Access tokens: get, ask about and revoke them, as a client with its secret."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(
        self,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        tenant: str | None = None,
        timeout_s: float | None = None,
    ) -> AccessToken:
        """Get a token by client credentials, bounded to the permissions of `scope`, divided
        by spaces. `tenant` is for operators: the token acts in it as its owner. A client
        with credentials gets its own tokens by itself. Raises NotAuthorized.
        """
        return self._sender.send(
            calls.get_token(client_id, client_secret, scope, tenant), timeout_s
        )

    def introspect(
        self, client_id: str, client_secret: str, token: str, *, timeout_s: float | None = None
    ) -> Introspection:
        """Return whether a token is active; a token of another tenant is always reported as
        not active.
        """
        return self._sender.send(calls.introspect_token(client_id, client_secret, token), timeout_s)

    def revoke(
        self, client_id: str, client_secret: str, token: str, *, timeout_s: float | None = None
    ) -> None:
        """Revoke a token; 5 s later no process accepts it."""
        self._sender.send(calls.revoke_token(client_id, client_secret, token), timeout_s)

    def metadata(self, *, timeout_s: float | None = None) -> IssuerMetadata:
        """Return the addresses of the token endpoints (RFC 8414)."""
        return self._sender.send(calls.oauth_metadata(), timeout_s)

    def openid_configuration(self, *, timeout_s: float | None = None) -> IssuerMetadata:
        """Return the metadata by which receivers of webhooks find the keys of the tokens in
        them.
        """
        return self._sender.send(calls.openid_configuration(), timeout_s)

    def signing_keys(self, *, timeout_s: float | None = None) -> KeySet:
        """Return the public keys that verify tokens (RFC 7517)."""
        return self._sender.send(calls.jwks(), timeout_s)
