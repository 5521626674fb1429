"""Lets a tenant prove that the tokens of an issuer, for an audience, are its own.

Three ways, asked for when an issuer is registered or changed:

- the audience is the one that the platform gives the tenant: the person who configures the issuer
  has named the tenant in the tokens. This is for issuers that many share, and works with most;
- the issuer publishes a document that names the tenant: the issuer is the tenant's. The document is
  public, says nothing secret, and is found as the issuer's keys are;
- an operator has made sure, and says so in the tenant's `issuers_allowed`.

A token with a challenge would prove less: at an issuer that many share, anybody gets a token with
any audience. Why: docs/decisions/gateway.md.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from auth.issuer_keys import Fetch, IssuerUnreachable
from edge.problem import FieldError, Problem, invalid
from metadata.tenancy.issuers import Issuer, IssuerSpec, allowance
from metadata.tenancy.tenants import TenantRepository
from metadata.types import TOKEN_AUDIENCE_PREFIX, token_audience
from openapi.access import Trust

DOCUMENT = "/.well-known/packetboat-tenants"
"""Below the issuer, as its description is: what may be published there is the issuer's to say."""
Prove = Callable[[bytes, IssuerSpec, Issuer | None], Awaitable[IssuerSpec]]


class IssuerTrust:
    """Answers of others' are never part of what it decides or says: only the tenant's own."""

    def __init__(self, tenants: TenantRepository, fetch: Fetch) -> None:
        self._tenants = tenants
        self._fetch = fetch

    async def prove(self, tenant_id: bytes, spec: IssuerSpec, present: Issuer | None) -> IssuerSpec:
        """Return the spec with the reason to trust it, and the tenant's own audience if it has
        none.

        `present` is the issuer that the tenant has under that name. Raises a 422 Problem where
        nothing proves it.
        """
        spec = replace(spec, audience=spec.audience or token_audience(tenant_id))
        return replace(spec, trust=await self._trust(tenant_id, spec, present))

    async def _trust(self, tenant_id: bytes, spec: IssuerSpec, present: Issuer | None) -> Trust:
        own = token_audience(tenant_id)
        if spec.audience == own:
            return "audience"
        if spec.audience.startswith(TOKEN_AUDIENCE_PREFIX):
            errors = [FieldError("audience", f"of tenants' own audiences, this one's is {own}")]
            raise invalid("The body does not fit.", errors)
        tenant = await self._tenants.get_by_id(tenant_id)
        if allowance(spec.issuer, spec.audience) in tenant.issuers_allowed:
            return "operator"
        named, why = await self._named(tenant_id, spec.issuer, own)
        if named:
            return "document"
        asked = spec.issuer, spec.audience
        if present is not None and (present.issuer, present.audience) == asked:
            # It holds as it did; a document that is gone for a while takes nothing away.
            kept = ("unproved", "document") if named is None else ("unproved",)
            if present.trust in kept:
                return present.trust
        raise _unproved(spec, own, why)

    async def _named(self, tenant_id: bytes, issuer: str, own: str) -> tuple[bool | None, str]:
        """Return whether the issuer's document names the tenant, and why not; None if there
        is no document.
        """
        url = issuer.rstrip("/") + DOCUMENT
        try:
            document = json.loads(await self._fetch(tenant_id, url))
            tenants = document["tenants"]
        except IssuerUnreachable as error:
            return None, str(error)
        except (ValueError, RecursionError, KeyError, TypeError):
            return None, f'{url} is not {{"tenants": […]}}'
        named = isinstance(tenants, list) and own in tenants
        return named, f"{url} does not name {own}"


def _unproved(spec: IssuerSpec, own: str, why: str) -> Problem:
    return Problem.of(
        "issuer-unproved",
        f"Let the issuer name the audience {own} in its tokens, and leave `audience` out here; or"
        f' let it publish {{"tenants": ["{own}"]}} at {spec.issuer.rstrip("/")}{DOCUMENT}; or ask'
        f" an operator to put {allowance(spec.issuer, spec.audience)} into the tenant's"
        " issuers_allowed.",
        errors=[FieldError("issuer", why)],
    )
