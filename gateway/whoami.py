"""`GET /whoami`: the caller of a token, and what the token allows.

A tenant may have 50,000 resources in its policies, each with six permissions. So the lists of the
answer are made in slices of the event loop, and sent as they are made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.policies import ROLES, PolicyCache, Resource, is_resource
from auth.principal import FromPolicies, Grant, Principal
from edge.asgi import JSON, Receive, Route, Scope, Send, respond
from edge.slices import Slices, in_order
from gateway.middleware.auth import PRINCIPAL
from metadata.tenancy.policies import Policy
from metadata.types import token_audience
from openapi import access

V = TypeVar("V")
PIECE_BYTES = 64 * 1024
_LISTS = b'"roles":[],"grants":[]'
NO_STORE = [(b"cache-control", b"no-store")]


class WhoAmI:
    """Needs a valid token and no permission: it shows a caller nothing but itself."""

    def __init__(self, directory: ClientDirectory, policies: PolicyCache) -> None:
        self._directory = directory
        self._policies = policies

    def routes(self) -> list[Route]:
        return [Route(access.OPERATIONS["whoAmI"], self.get)]

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = cast(Principal, scope[PRINCIPAL])
        tenant = await self._directory.tenant(principal.tenant_id)
        if tenant is None:
            raise TokenRefused  # it was deleted a moment ago
        naming = await self._policies.naming(principal.tenant_id, principal.subject)
        ends = principal.expires_at
        answer = access.WhoAmI(
            tenant=tenant.name,
            subject=principal.subject,
            roles=[],
            grants=[],
            token_audience=token_audience(principal.tenant_id),
            expires_at=None if ends is None else datetime.fromtimestamp(ends, UTC),
        )
        roles = (
            access.RoleGiven(cast(access.Role, policy.role), list(policy.resources), policy.name)
            for policy in naming
        )
        before, lists, after = msgspec.json.encode(answer).partition(_LISTS)
        assert lists, "the two lists stand beside each other"
        await _send(
            send,
            _joined(
                _piece(before + b'"roles":['),
                _elements(_each(roles)),
                _piece(b'],"grants":['),
                _elements(_grants(principal.grants, naming)),
                _piece(b"]" + after),
            ),
        )


async def _grants(
    grants: frozenset[Grant] | FromPolicies, naming: Sequence[Policy]
) -> AsyncIterator[str]:
    """Yield the grants in order, each as a scope of an API key is written."""
    if not isinstance(grants, FromPolicies):
        for text in sorted(map(_written, grants)):
            yield text
        return
    for permission in sorted(grants.holders):
        texts = {
            text: None
            for policy in naming
            if permission in ROLES.get(policy.role, ())
            for text in policy.resources
        }
        async for text in in_order(texts):
            if is_resource(text):
                yield f"{permission}:{text}"


def _written(grant: Grant) -> str:
    return f"{grant.permission.value}:{Resource(grant.kind, grant.pattern)}"


async def _elements(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yield the values as elements of a JSON list."""
    comma, slices = b"", Slices()
    async for value in values:
        yield comma + msgspec.json.encode(value)
        comma = b","
        if slices.over:
            await slices.rest()


async def _each(values: Iterable[V]) -> AsyncIterator[V]:
    for value in values:
        yield value


async def _piece(text: bytes) -> AsyncIterator[bytes]:
    yield text


async def _joined(*parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        async for piece in part:
            yield piece


async def _send(send: Send, pieces: AsyncIterator[bytes]) -> None:
    """Send an answer whole if it is small; one of many megabytes goes as the client takes it."""
    held, started = bytearray(), False
    async for piece in pieces:
        held += piece
        if len(held) < PIECE_BYTES:
            continue
        if not started:
            headers = [(b"content-type", JSON), *NO_STORE]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            started = True
        await send({"type": "http.response.body", "body": bytes(held), "more_body": True})
        held.clear()
    if started:
        await send({"type": "http.response.body", "body": bytes(held)})
    else:
        await respond(send, 200, bytes(held), headers=NO_STORE)
