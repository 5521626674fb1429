"""Tenants, as operators make, change and remove them."""

from __future__ import annotations

from edge.asgi import Route, Scope, path_param
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.names import name_errors
from gateway.resources import Call, Resource, Shown
from gateway.tenancy.answers import exists_already, extended, utc_now
from gateway.tenancy.tenant_bodies import first_client_of, spec_of, view
from gateway.tenancy.tenant_deletion import TenantDeletion
from metadata.errors import Conflict
from metadata.tenancy.credentials import new_client_id, new_client_secret
from metadata.tenancy.tenants import PLATFORM_NAME, FirstOwner, TenantRepository
from metadata.types import Page, Tenant, TenantSpec
from openapi import tenants as contract


class TenantRoutes:
    def __init__(self, tenants: TenantRepository, deletion: TenantDeletion) -> None:
        self._tenants = tenants
        self._deletion = deletion

    def routes(self) -> list[Route]:
        table, body = contract.OPERATIONS, contract.TenantBody
        tenants = Resource("tenant", table["getTenant"], _shown)
        taken = exists_already("tenant")
        return [
            tenants.creates(table["createTenant"], body, self._create, taken),
            tenants.lists(table["listTenants"], self._page),
            tenants.shows(table["getTenant"], self._get),
            tenants.puts(table["putTenant"], body, self._update, self._create),
            tenants.shows(table["deleteTenant"], self._delete),
        ]

    async def _create(self, call: Call, body: contract.TenantBody) -> Shown:
        """Return the tenant, with the secret of its first client if the body asks for one."""
        spec, minted = _spec(body, call.name), new_client_secret(utc_now())
        first = first_client_of(body)
        owner = None if first is None else FirstOwner(first, new_client_id(), minted.secret)
        tenant, client = await self._tenants.create(spec, owner)
        shown = extended(contract.TenantMade, view(tenant))
        if client is not None:
            shown.owner = contract.FirstOwnerMade(client.name, client.client_id, minted.text)
        return Shown(shown, tenant.name, tenant.version, secret=client is not None)

    async def _update(self, call: Call, body: contract.TenantBody) -> Tenant:
        spec = _spec(body, call.name)
        try:
            return await self._tenants.update(spec, if_version=call.if_version)
        except Conflict as error:
            present = error.existing
            if isinstance(present, Tenant) and present.state == "deleting":
                raise _going(spec.name) from error
            raise

    async def _get(self, call: Call) -> Tenant:
        """Return a tenant, also one that is being deleted."""
        return await self._tenants.get(tenant_name(call.scope))

    async def _page(
        self, tenant_id: bytes, *, page_size: int, page_token: str | None
    ) -> Page[Tenant]:
        return await self._tenants.page(page_size=page_size, page_token=page_token)

    async def _delete(self, call: Call) -> Tenant:
        """Refuse the credentials of a tenant from now on, and delete all that it has step by step.
        Raise a 409 Problem while it has topics, unless `force=true`."""
        name = tenant_name(call.scope)
        try:
            tenant = await self._tenants.mark_deleting(
                name, if_version=call.if_version, force=call.force
            )
        except Conflict as error:
            if isinstance(error.existing, int):
                raise _has_topics(name, error.existing) from error
            raise
        self._deletion.wake()
        return tenant


def tenant_name(scope: Scope) -> str:
    """Return the name of a tenant in the path; raise a 404 Problem for the platform's own."""
    name = path_param(scope, "tenant")
    if name_errors(name) or name == PLATFORM_NAME:
        raise not_found("tenant", name)
    return name


def _spec(body: contract.TenantBody, name: str) -> TenantSpec:
    spec = spec_of(body, name)
    if spec.name == PLATFORM_NAME:
        detail = "the platform's own; choose another"
        raise invalid("The body does not fit.", [FieldError("name", detail)])
    return spec


def _shown(tenant: Tenant) -> Shown:
    return Shown(view(tenant), tenant.name, tenant.version)


def _has_topics(name: str, topics: int) -> Problem:
    return Problem.of(
        "tenant-not-empty",
        f"The tenant {name!r} has {topics} topics; force=true deletes them and all that is "
        "published to them.",
        extra={"topics": topics},
    )


def _going(name: str) -> Problem:
    return Problem.of(
        "tenant-deleting",
        f"The tenant {name!r} is being deleted; its name is free once it is gone.",
        retry_after_s=1.0,
    )
