"""The verifier of our own access tokens, which knows all that may have ended a token since.

A token is valid while it is not revoked, its client exists and is active, it was issued after the
client's `tokens_valid_from`, and its tenant is active. All of that is in memory and kept up to date
by the change feed; `CachingVerifier` drops its answer for a token when the feed reports a change of
any of it. The token of a run of an export has no client: it is valid until its attempt is over.

The principal's `credential` is `token:` and the token's id in hex.
"""

from __future__ import annotations

from auth.access_tokens import AccessToken, AccessTokens
from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.permissions import GRANTABLE, OF_OPERATORS, Permission
from auth.policies import PolicyCache
from auth.principal import FromPolicies, Grant, Principal, everything
from auth.revocations import Revocations
from metadata.tenancy.clients import Client
from metadata.tenancy.tenants import PLATFORM_ID

OWNS = GRANTABLE - OF_OPERATORS
"""Permissions of an operator in a tenant, which are those of the tenant's owner."""


class AccessTokenVerifier:
    """A `TokenVerifier` for tokens of our own token endpoint."""

    def __init__(
        self,
        tokens: AccessTokens,
        revocations: Revocations,
        directory: ClientDirectory,
        grants: PolicyCache,
    ) -> None:
        self._tokens = tokens
        self._revocations = revocations
        self._directory = directory
        self._grants = grants

    async def verify(self, token: bytes) -> Principal:
        """Raises TokenRefused, TenantSuspended or VerifierUnavailable."""
        found = await self.held(token)
        return Principal(
            tenant_id=found.tenant_id,
            subject=found.subject,
            grants=await self._granted(found),
            credential=f"token:{found.jti.hex()}",
            expires_at=float(found.expires_at),
        )

    async def held(self, token: bytes) -> AccessToken:
        """Return the content of a token that is valid now.

        Raises TokenRefused, TenantSuspended or VerifierUnavailable.
        """
        found = await self._tokens.read(token)
        if not found.topics:
            client = await self._directory.client(found.client_id)
            if client is None or not _speaks_for(found, client):
                raise TokenRefused
        if await self._revocations.includes(found.jti):
            raise TokenRefused
        # Operators act in a suspended tenant too.
        await self._directory.require_served(found.tenant_id, suspended=bool(found.operator))
        return found

    async def _granted(self, found: AccessToken) -> frozenset[Grant] | FromPolicies:
        """Return the grants that the scope of the token leaves."""
        if found.topics:
            named = [("topic", found.topics), *(("schema", name) for name in found.schemas)]
            given = [Permission.READ] if Permission.READ in found.scope else []
            return frozenset(Grant(each, *name) for each in given for name in named)
        if not found.operator:
            granted = await self._grants.of(found.tenant_id, found.subject)
            return granted.within(found.scope)
        client = await self._directory.client(found.client_id)
        may = frozenset() if client is None else allowed(client, found.tenant_id)
        return everything(may.intersection(found.scope))


def subject_of(client: Client) -> str:
    """Return the subject of a client, as audits name it."""
    kind = "operator" if client.tenant_id == PLATFORM_ID else "client"
    return f"{kind}:{client.name}"


def allowed(client: Client, tenant_id: bytes) -> frozenset[Permission]:
    """Return the most that a token of the client may be allowed in a tenant.

    It is nothing in any tenant if the client is an operator with limited permissions.
    """
    if client.tenant_id != PLATFORM_ID:
        return OWNS
    if client.permissions is None:
        return OF_OPERATORS if tenant_id == PLATFORM_ID else OWNS
    named = frozenset(each for each in OF_OPERATORS if each.value in client.permissions)
    return named if tenant_id == PLATFORM_ID else frozenset()


def _speaks_for(found: AccessToken, client: Client) -> bool:
    """Return whether the client may still be the subject of the token, and was when it was
    issued.
    """
    subject = subject_of(client)
    operates = client.tenant_id == PLATFORM_ID
    if found.subject != subject or found.operator != (subject if operates else ""):
        return False
    if client.state != "active":
        return False
    if not operates and found.tenant_id != client.tenant_id:
        return False
    valid_from = client.tokens_valid_from
    return valid_from is None or found.issued_at > valid_from.timestamp()
