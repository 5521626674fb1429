"""`GET /whoami`: the caller of a token, and what the token allows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import msgspec

from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.policies import PolicyBook, Resource
from auth.principal import Grant, Principal
from edge.asgi import Receive, Route, Scope, Send, respond
from gateway.middleware.auth import PRINCIPAL
from metadata.types import token_audience
from openapi import access

NO_STORE = [(b"cache-control", b"no-store")]


class WhoAmI:
    """Needs a valid token and no permission: it shows a caller nothing but itself."""

    def __init__(self, directory: ClientDirectory, policies: PolicyBook) -> None:
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
            roles=[
                access.RoleGiven(
                    cast(access.Role, policy.role), list(policy.resources), policy.name
                )
                for policy in naming
            ],
            grants=sorted(map(_written, principal.grants)),
            token_audience=token_audience(principal.tenant_id),
            expires_at=None if ends is None else datetime.fromtimestamp(ends, UTC),
        )
        await respond(send, 200, msgspec.json.encode(answer), headers=NO_STORE)


def _written(grant: Grant) -> str:
    """Return a grant as a scope of an API key is written."""
    return f"{grant.permission.value}:{Resource(grant.kind, grant.pattern)}"
