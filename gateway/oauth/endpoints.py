"""`POST /oauth/token`, `/oauth/introspect` and `/oauth/revoke`, for clients and operators.

Answers are those of the RFCs, errors too: JSON with `error` and `error_description`, never cached.
The client's credentials alone identify the caller, so the routes themselves are public.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidRequestError
from msgspec.structs import asdict
from prometheus_client import Counter

from auth.access_token_verifier import AccessTokenVerifier
from auth.access_tokens import AccessToken, AccessTokens
from auth.api_key_verifier import LastUses
from auth.client_directory import ClientDirectory
from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.revocations import Revocations
from edge.asgi import Header, Receive, Route, Scope, Send, respond
from edge.shares import Shares
from gateway.oauth.form import Credentials, credentials_of, read_form, refused
from gateway.oauth.server import Answer, Asked, Server
from gateway.oauth.slow_down import SlowDown
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.tenancy.clients import Client, ClientRepository
from metadata.tenancy.credentials import CLIENT_ID, matches
from metadata.tenancy.revoked_tokens import RevokedToken, RevokedTokenRepository
from metadata.tenancy.tenants import PLATFORM_ID, TenantRepository
from openapi.identity import OPERATIONS, OAuthError

MAX_WAITING = 200
"""The number of answers that are held back at a time, half of them for one client id;
further ones are refused at once.
"""
LOOK_AGAIN_S = 1.0
TOO_MANY = "Too many wrong secrets for this client id. Try again later."
_NEVER_CACHED: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))
_CHALLENGE: Header = (b"www-authenticate", b'Basic realm="packetboat", charset="UTF-8"')
_REQUESTS = Counter(
    "packetboat_oauth_requests_total", "Requests to the OAuth2 endpoints", ["endpoint", "outcome"]
)
Work = Callable[[Scope, Receive], Awaitable[Answer]]


class OAuthEndpoints:
    """The routes, and what they share: how often which client was wrong."""

    def __init__(
        self,
        tokens: AccessTokens,
        verifier: AccessTokenVerifier,
        revocations: Revocations,
        directory: ClientDirectory,
        clients: ClientRepository,
        tenants: TenantRepository,
        revoked: RevokedTokenRepository,
    ) -> None:
        self._tokens = tokens
        self._verifier = verifier
        self._revocations = revocations
        self._directory = directory
        self._clients = clients
        self._tenants = tenants
        self._revoked = revoked
        self.last_uses = LastUses(clients.touch)
        self._slow_down = SlowDown()
        self._waiting = Shares(MAX_WAITING, name="oauth_waits")
        self._looked_s: dict[str, float] = {}

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["getToken"], self.token),
            Route(OPERATIONS["introspectToken"], self.introspect),
        ]

    def ending_routes(self) -> list[Route]:
        """Return the routes whose requests end tokens before their time."""
        return [Route(OPERATIONS["revokeToken"], self.revoke)]

    async def token(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer("token", self._issue, scope, receive, send)

    async def introspect(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer("introspect", self._introspect, scope, receive, send)

    async def revoke(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer("revoke", self._revoke, scope, receive, send)

    async def _issue(self, scope: Scope, receive: Receive) -> Answer:
        form = await read_form(scope, receive)
        credentials = credentials_of(scope, form)
        if "grant_type" not in form:
            raise InvalidRequestError("The parameter grant_type is missing.")
        client = await self._authenticated(credentials)
        own = await self._directory.tenant(client.tenant_id)
        named = None
        if client.tenant_id == PLATFORM_ID and "tenant" in form:
            try:
                named = await self._tenants.get(form["tenant"])
            except NotFound:
                named = None
        server = Server(Asked(credentials, client, own, named), self._tokens)
        answer: Answer = server.create_token_response(form)
        return answer

    async def _introspect(self, scope: Scope, receive: Receive) -> Answer:
        form = await read_form(scope, receive)
        credentials = credentials_of(scope, form)
        client = await self._authenticated(credentials)
        try:
            token = await self._verifier.held(_token_of(form))
        except (TokenRefused, TenantSuspended):
            token = None
        server = Server(Asked(credentials, client, token=token), self._tokens)
        answer: Answer = server.create_endpoint_response("introspection", _without_hint(form))
        return answer

    async def _revoke(self, scope: Scope, receive: Receive) -> Answer:
        form = await read_form(scope, receive)
        credentials = credentials_of(scope, form)
        client = await self._authenticated(credentials)
        try:
            token = await self._tokens.read(_token_of(form))
        except TokenRefused:
            token = None
        server = Server(Asked(credentials, client, token=token), self._tokens)
        answer: Answer = server.create_endpoint_response("revocation", _without_hint(form))
        if server.revoked is not None:
            await self._write_down(server.revoked)
        return answer

    async def _write_down(self, token: AccessToken) -> None:
        """Store the revocation: it holds here at once, and elsewhere when the change feed
        tells of it.
        """
        expires_at = datetime.fromtimestamp(token.expires_at, UTC)
        await self._revoked.revoke(RevokedToken(token.jti, token.tenant_id, expires_at))
        self._revocations.add(token.jti)

    async def _authenticated(self, credentials: Credentials) -> Client:
        """Return the client that has this secret. Raises InvalidClientError, after a while."""
        client = await self._with_secret(credentials)
        if client is not None:
            self.last_uses.note(client.tenant_id, client.uid, datetime.now(UTC))
            return client
        wait_s = self._slow_down.failed(credentials.client_id, time.monotonic())
        with self._waiting.held_by(credentials.client_id) as full:
            if wait_s is None or full is not None:
                raise _TooManyRequests(TOO_MANY)
            await asyncio.sleep(wait_s)
        raise refused()

    async def _with_secret(self, credentials: Credentials) -> Client | None:
        client_id, secret = credentials
        if not client_id.startswith(CLIENT_ID):
            return None
        client = await self._directory.client(client_id)
        if client is None or _is_right(client, secret):
            return client
        # The secret may have been added a moment ago; a guesser makes us look once a second.
        now_s = time.monotonic()
        if now_s - self._looked_s.get(client_id, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
            return None
        if len(self._looked_s) >= 1000:
            self._looked_s.clear()
        self._looked_s[client_id] = now_s
        client = await self._clients.by_client_id(client_id)
        return client if client is not None and _is_right(client, secret) else None

    async def _answer(
        self, endpoint: str, work: Work, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            answer = await work(scope, receive)
        except OAuth2Error as error:
            answer = Answer(error.status_code, dict(error.get_body()), {})
        except (VerifierUnavailable, MetadataError) as error:
            answer = _unavailable(error)
        outcome = str(answer.body.get("error", "done"))
        _REQUESTS.labels(endpoint, outcome).inc()
        headers = [*_NEVER_CACHED]
        if answer.status == 401:
            headers.append(_CHALLENGE)
        if answer.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await respond(send, answer.status, msgspec.json.encode(answer.body), headers=headers)


class _TooManyRequests(OAuth2Error):  # type: ignore[misc]
    error = "temporarily_unavailable"
    status_code = 429


def _is_right(client: Client, secret: str) -> bool:
    right = matches(client.secrets, secret, datetime.now(UTC))
    return right and client.state == "active"


def _token_of(form: dict[str, str]) -> bytes:
    return form.get("token", "").encode("utf-8", "replace")


def _without_hint(form: dict[str, str]) -> dict[str, str]:
    """Remove the hint of a token's type: there is one type, so any hint changes nothing (RFC 7009
    §2.1).
    """
    return {name: value for name, value in form.items() if name != "token_type_hint"}


def _unavailable(error: Exception) -> Answer:
    if isinstance(error, Conflict):
        text = f"The {error.kind} {error.detail}: wait until some are over, or revoke them all."
        return Answer(429, asdict(OAuthError("temporarily_unavailable", text)), {})
    text = "This cannot be answered now. Try again."
    return Answer(503, asdict(OAuthError("temporarily_unavailable", text)), {})
